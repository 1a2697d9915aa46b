"""The blocking face: the same methods, also where an event loop already runs, and an interrupt stops the question."""

import asyncio
import gc
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from backend.schema import HeadAsk, Job, OverviewAsk, Problem, TraceAsk, View
from lmscope import notebook
from lmscope.blocking import Client
from lmscope.client import AsyncClient, Refused, head_names
from lmscope.waiting import Named, model_of
from tests.client.stand_in import BUSY, StandIn

VIEW = View(model="m", text="The cat sat .")
LOADING = Problem(type="loading", status=503, what="m is being loaded", why="it is big", instead="wait for job j 1")


@pytest.fixture
def server() -> StandIn:
    return StandIn()


@pytest.fixture
def client(server: StandIn) -> Iterator[Client]:
    with Client(app=server.app, tab="t") as client:
        yield client


def test_every_method_answers_as_the_async_client_does(client: Client, server: StandIn) -> None:
    made = server.made
    assert client.tokens(VIEW) == made.tokens(VIEW)
    assert client.attention(VIEW, cells=4) == made.overview(OverviewAsk(view=VIEW, cells=4))
    assert client.heads(VIEW).heads == made.heads
    assert client.head(VIEW, (0, 1)) == made.head(HeadAsk(view=VIEW, heads=head_names("0.1")))
    assert client.raw(OverviewAsk(view=VIEW, cells=4))["cells"] == [4, 4]
    assert client.models().default == "m"
    assert client.jobs()[0].id == client.job("j 1").id == "j 1"
    assert client.health().status == "alive"
    client.unload("m")
    client.stop()
    assert client.cancel_job("j 1").state == "cancelled"


@pytest.mark.parametrize("face", [Client, notebook.Client])
def test_both_faces_have_every_method_with_its_docstring_and_signature(face: type[Client]) -> None:
    otherwise = {"keep", "with_tab", "aclose"}  # numbers of a notebook, not of the wire; `close`
    public = {name for name in dir(AsyncClient) if not name.startswith("_")} - otherwise
    assert public <= set(dir(face))
    for name in public - {"load", "effects", "events", "write_stream"}:
        method, asked = getattr(face, name), getattr(AsyncClient, name)
        told, known = inspect.signature(method), inspect.signature(asked)
        assert list(told.parameters.values()) == list(known.parameters.values())
        assert method.__doc__ == asked.__doc__
        assert method.__doc__
        assert not inspect.iscoroutinefunction(method)
    assert inspect.signature(notebook.Client.pairs).return_annotation is notebook.PairsInNumpy


def test_a_question_names_its_model_by_view_form_or_name() -> None:
    assert model_of(AsyncClient.tokens, VIEW) is VIEW
    assert model_of(AsyncClient.raw, TraceAsk(view=VIEW)) == VIEW
    assert model_of(AsyncClient.pairs, "m", "0.1", revision="r", top=3) == Named("m", "r")
    assert model_of(AsyncClient.value, "m", "L0U1", revision="r") == Named("m", "r")
    assert model_of(AsyncClient.transfer, "steer", model="m", name="there") == Named("m")


async def test_it_works_inside_a_running_event_loop_as_in_a_notebook(client: Client) -> None:
    assert client.tokens(VIEW).ids


def test_events_are_an_ordinary_iterator(client: Client, server: StandIn) -> None:
    events = client.events()
    assert [next(events).questions[0].position for _ in range(3)] == [2, 1, 0]
    events.close()
    client._run(asyncio.wait_for(server.left.wait(), 60))


def test_load_waits_and_shows_progress(client: Client) -> None:
    looks: list[Job] = []
    assert client.load("m", progress=looks.append).state == "done"
    assert looks[-1].done == 3


def test_a_question_waits_for_its_model_and_is_asked_again(client: Client, server: StandIn) -> None:
    server.refuse = [LOADING]
    assert client.tokens(VIEW).ids
    assert [path.split("/")[-1] for _, path in server.seen if path.startswith("/")][:2] == ["tokens?", "models?"]
    assert server.state == "done"


def test_an_impatient_client_is_refused_instead_and_other_refusals_are_never_swallowed(server: StandIn) -> None:
    server.refuse = [LOADING]
    with Client(app=server.app, patient=False) as client, pytest.raises(Refused, match="is being loaded"):
        client.tokens(VIEW)
    server.refuse = [BUSY]
    with Client(app=server.app) as client, pytest.raises(Refused, match="The queue is full"):
        client.tokens(VIEW)


def test_an_interrupt_stops_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    reached, left = threading.Event(), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        reached.set()
        if (await receive())["type"] == "http.disconnect":
            left.set()

    class Interrupted:
        """A future whose waiting is interrupted, as by Ctrl+C."""

        def __init__(self, future: Any) -> None:
            self.future = future

        def result(self) -> None:
            assert reached.wait(60)
            raise KeyboardInterrupt

        def cancel(self) -> None:
            self.future.cancel()

    with Client(app=app) as client:
        plain = asyncio.run_coroutine_threadsafe
        monkeypatch.setattr("asyncio.run_coroutine_threadsafe", lambda work, loop: Interrupted(plain(work, loop)))
        with pytest.raises(KeyboardInterrupt):
            client.tokens(VIEW)
        monkeypatch.undo()
        assert left.wait(60)


def test_closing_ends_the_thread_and_a_closed_client_says_so(server: StandIn) -> None:
    before = set(threading.enumerate())
    client = Client(app=server.app)
    client.health()
    made = set(threading.enumerate()) - before
    assert "lmscope-client" in {thread.name for thread in made}
    client.close()
    client.close()
    assert not [thread for thread in made if thread.is_alive()]
    with pytest.raises(RuntimeError, match="closed"):
        client.health()


def test_a_forgotten_client_ends_its_thread() -> None:
    before = set(threading.enumerate())
    client = Client("http://127.0.0.1:9")
    (thread,) = (each for each in set(threading.enumerate()) - before if each.name == "lmscope-client")
    del client
    gc.collect()
    assert not thread.is_alive()
