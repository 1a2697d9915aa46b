"""The client: one method per route, typed answers, and every failure a Problem with words."""

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from backend.schema import (
    HeadAsk,
    HeadName,
    HeadsAsk,
    Job,
    OverviewAsk,
    Region,
    TokensAsk,
    View,
)
from lmscope.client import AsyncClient, Refused, events_in, head_names
from lmscope.transport import InProcess
from tests.client.stand_in import BUSY, StandIn

VIEW = View(model="m", text="The cat sat on the mat because it was tired .")


@pytest.fixture
def server() -> StandIn:
    return StandIn()


@pytest.fixture
async def client(server: StandIn) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(app=server.app, tab="t 1", key="k" * 16) as client:
        yield client


async def test_each_instrument_is_one_method_with_a_typed_answer(client: AsyncClient, server: StandIn) -> None:
    made = server.made
    assert await client.tokens(VIEW) == made.tokens(VIEW)
    assert await client.attention(VIEW, cells=8) == made.overview(OverviewAsk(view=VIEW, cells=8))
    assert await client.heads(VIEW) == made.all_heads(HeadsAsk(view=VIEW))
    region = Region(q0=1, q1=5, k0=0, k1=3)
    ask = HeadAsk(view=VIEW, heads=head_names("1.2"), region=region, cells=4, token=2, links=5)
    assert await client.head(VIEW, "1.2", region=region, cells=4, token=2, links=5) == made.head(ask)
    assert [path for _, path in server.seen] == [
        "/api/v1/tokens?", "/api/v1/attention?", "/api/v1/heads?", "/api/v1/attention/head?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ask",
    [
        TokensAsk(view=VIEW),
        OverviewAsk(view=VIEW, cells=4),
        HeadAsk(view=VIEW, heads=(HeadName(layer=0, head=0),)),
        HeadsAsk(view=VIEW),
    ],
    ids=lambda ask: type(ask).__name__,
)
async def test_a_page_gets_the_answer_s_json_unopened(client: AsyncClient, ask: Any, server: StandIn) -> None:
    methods = {TokensAsk: lambda ask: server.made.tokens(ask.view), OverviewAsk: server.made.overview,
               HeadAsk: server.made.head, HeadsAsk: server.made.all_heads}  # fmt: skip
    assert await client.raw(ask) == methods[type(ask)](ask).model_dump(mode="json")


async def test_tab_and_key_travel_in_the_headers(client: AsyncClient, server: StandIn) -> None:
    await client.tokens(VIEW)
    await client.with_tab("other").tokens(VIEW)
    assert [headers["x-lmscope-tab"] for headers in server.headers] == ["t 1", "other"]
    assert {headers["authorization"] for headers in server.headers} == {"Bearer " + "k" * 16}
    assert {headers["host"] for headers in server.headers} == {"127.0.0.1:8050"}


async def test_a_client_without_tab_and_key_sends_neither_and_says_so_when_it_needs_one(server: StandIn) -> None:
    async with AsyncClient(app=server.app) as client:
        await client.tokens(VIEW)
        assert not {"x-lmscope-tab", "authorization"} & set(server.headers[0])
        with pytest.raises(ValueError, match="as no tab"):
            await client.stop()


async def test_shelf_jobs_and_tab_have_their_methods(client: AsyncClient, server: StandIn) -> None:
    assert (await client.models()).default == "m"
    await client.unload("/srv/a model", "v 1")
    await client.unload("owner/name")
    await client.stop()
    assert (await client.jobs())[0].id == "j 1"
    assert (await client.job("j 1")).id == "j 1"
    assert (await client.cancel_job("j 1")).state == "cancelled"
    assert (await client.health()).status == "alive"
    assert ("DELETE", "/api/v1/models/%2Fsrv%2Fa%20model?revision=v+1") in server.seen
    assert {("unloaded", "/srv/a model"), ("unloaded", "owner/name"), ("stopped", "t 1")} <= set(server.seen)


async def test_waiting_for_a_model_shows_its_progress(client: AsyncClient) -> None:
    looks: list[Job] = []
    done = await client.wait(await client.load("m"), looks.append)
    assert done.state == "done"
    assert [job.done for job in looks] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("state", "type"), [("failed", "job-failed"), ("cancelled", "job-cancelled"), ("lost", "job-lost")]
)
async def test_a_job_that_does_not_end_well_is_a_refusal(
    client: AsyncClient, server: StandIn, state: str, type: str
) -> None:
    job = await client.load("m")
    server.state = state
    with pytest.raises(Refused) as caught:
        await client.wait(job)
    assert caught.value.problem.type == type
    with pytest.raises(Refused, match="The queue is full"):
        await client.wait(job.model_copy(update={"state": "failed", "problem": BUSY}))


async def test_events_arrive_while_the_stream_is_open_and_leaving_ends_it(client: AsyncClient, server: StandIn) -> None:
    positions = []
    async with aclosing(client.events()) as events:
        async for event in events:
            positions.append(event.questions[0].position)
            if positions[-1] == 0:
                break
    assert positions == [2, 1, 0]
    await asyncio.wait_for(server.left.wait(), 60)


async def test_a_refusal_carries_the_server_s_problem(client: AsyncClient, server: StandIn) -> None:
    server.refuse = [BUSY, BUSY]
    with pytest.raises(Refused, match=r"^The queue is full\. 64 questions wait for m\. Ask again later\.$") as caught:
        await client.attention(VIEW)
    assert caught.value.problem == BUSY
    with pytest.raises(Refused):
        async for _ in client.events():
            pass
    assert pickle.loads(pickle.dumps(caught.value)).problem == BUSY


def answering(response: httpx.Response | Exception) -> AsyncClient:
    """A client whose server gives one answer to everything."""

    def answer(request: httpx.Request) -> httpx.Response:
        if isinstance(response, Exception):
            response.request = request  # type: ignore[attr-defined]
            raise response
        return response

    client = AsyncClient("http://host:1")
    client._http = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://host:1/api/v1")
    return client


@pytest.mark.parametrize(
    ("response", "type", "words"),
    [
        (httpx.Response(200, html="<html>"), "not-lmscope", "http://host:1 did not answer as LMScope does.*text/html"),
        (httpx.Response(200, text="{}"), "not-lmscope", "text/plain"),
        (httpx.Response(200, content=b"no", headers={"content-type": "application/json"}), "other-version", "JSON"),
        (httpx.Response(404, json={"detail": "Not Found"}), "not-lmscope", "status 404"),
        (httpx.Response(502, html="<html>"), "not-lmscope", "proxy"),
        (httpx.Response(307, headers={"location": "/login"}), "not-lmscope", "status 307"),
        (httpx.Response(200, json={"conditions": 1}), "other-version", "same version"),
        (httpx.ConnectError("[Errno 111]"), "unreachable", "lmscope serve"),
        (httpx.ConnectTimeout(""), "unreachable", "did not answer in time"),
        (httpx.ReadTimeout(""), "timed-out", "timeout_s"),
        (httpx.RemoteProtocolError("peer closed"), "cut-short", "peer closed"),
        (httpx.ReadError("reset"), "cut-short", "reset"),
    ],
)
async def test_whatever_goes_wrong_on_the_way_is_said_in_words(response: Any, type: str, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        await answering(response).tokens(VIEW)
    problem = caught.value.problem
    assert problem.type == type
    assert all((problem.what, problem.why, problem.instead))


async def test_raw_json_that_is_none_is_said_in_words() -> None:
    broken = httpx.Response(200, content=b"no", headers={"content-type": "application/json"})
    with pytest.raises(Refused, match="did not answer as LMScope does"):
        await answering(broken).raw(TokensAsk(view=VIEW))


async def test_nobody_at_the_address_is_unreachable() -> None:
    async with AsyncClient("http://127.0.0.1:9") as client:
        with pytest.raises(Refused, match=r"No LMScope at http://127\.0\.0\.1:9\. Nothing listens there") as caught:
            await client.models()
    assert caught.value.problem.type == "unreachable"


async def test_an_application_that_breaks_in_process_is_a_refusal_too() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    async with AsyncClient(app=app) as client:
        with pytest.raises(Refused) as caught:
            await client.models()
    assert caught.value.problem.type == "cut-short"


async def test_cancelling_the_asker_disconnects_the_question() -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        reached.set()
        if (await receive())["type"] == "http.disconnect":
            left.set()

    async with AsyncClient(app=app) as client:
        asking = asyncio.create_task(client.attention(VIEW))
        await asyncio.wait_for(reached.wait(), 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(left.wait(), 60)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("5.3", [(5, 3)]),
        ((5, 3), [(5, 3)]),
        (HeadName(layer=5, head=3), [(5, 3)]),
        (["5.3", (0, 1), HeadName(layer=2, head=2)], [(5, 3), (0, 1), (2, 2)]),
        ([(5, 3)], [(5, 3)]),
    ],
)
def test_heads_may_be_named_as_a_person_would(said: Any, meant: list[tuple[int, int]]) -> None:
    assert [(head.layer, head.head) for head in head_names(said)] == meant


@pytest.mark.parametrize("said", ["5", "5.3.1", "five.three", (5,), [5, 3], [None]])
def test_what_names_no_head_is_refused_with_an_example(said: Any) -> None:
    with pytest.raises(ValueError, match=r"such as '5\.3'"):
        head_names(said)


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        (["event: tab", "data: a", ""], [("tab", "a")]),
        (["event:write", "data:a", "data: b", ""], [("write", "a\nb")]),
        (["data: a", ""], [("message", "a")]),
        (["event: tab", ""], []),
        (["event: tab", "data: a"], []),
        (
            ["event: tab", "id: 3", "data: a", "", ": ping", "", "event: tab", "data: b", ""],
            [("tab", "a"), ("tab", "b")],
        ),
    ],
)
async def test_events_are_read_as_the_standard_says(lines: list[str], events: list[tuple[str, str]]) -> None:
    async def source() -> AsyncIterator[str]:
        for line in lines:
            yield line

    assert [each async for each in events_in(source())] == events


async def test_a_server_on_this_machine_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    for base_url in ("http://127.0.0.1:8050", "http://localhost:8050", "http://[::1]:8050"):
        async with AsyncClient(base_url) as client:
            assert not client._http._mounts
    async with AsyncClient("http://gpu.team:8050") as client:
        assert client._http._mounts


def test_the_application_s_transport_is_ours() -> None:
    client = AsyncClient(app=StandIn().app)
    assert isinstance(client._http._transport, InProcess)
