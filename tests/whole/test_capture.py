"""A capture from the client's call to the numbers, in process and over a socket, and every way in which it may end."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from safetensors.numpy import load_file

from backend import errors
from backend.desk import pipe
from backend.models import capture as instrument
from backend.schema import HeadScale, View
from backend.settings import Settings
from lmscope.blocking import Client
from lmscope.captured import Captured
from lmscope.client import AsyncClient, Refused

TEXT = "The cat sat on the mat, and the dog barked."
POINTS = ("residual.*", "maps.1", "blocks.0.attn.hook_z", "logits")


@pytest.fixture(params=["in process", "over a socket"])
async def either(request: pytest.FixtureRequest, app: FastAPI, address: str) -> AsyncIterator[AsyncClient]:
    """A client in process, and one over a socket."""
    server: dict[str, Any] = {"app": app} if request.param == "in process" else {"base_url": address}
    async with AsyncClient(**server, tab=str(uuid4())) as client:
        yield client


@pytest.fixture
def view(settings: Settings) -> View:
    return View(model=settings.models[0], text=TEXT)


def same(one: Captured, other: Captured) -> bool:
    return list(one) == list(other) and all(np.array_equal(one[name], other[name]) for name in one)


def held(monkeypatch: pytest.MonkeyPatch, failure: Exception | None = None) -> "Held":
    hold = Held(failure)
    monkeypatch.setattr(instrument, "pour", hold.pour)
    return hold


class Held:
    """A capture that waits after its first piece, and then goes on, fails, or notices that it is not wanted."""

    def __init__(self, failure: Exception | None) -> None:
        self._pour, self._failure = instrument.pour, failure
        self.open, self.reached, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.stopped = False
        if failure is not None:
            self.open.set()

    def pour(self, loaded: Any, ask: Any, limits: Any, send: Any, cancel: Any) -> None:
        first = True

        def sending(piece: bytes) -> None:
            nonlocal first
            send(piece)
            self.reached.set()
            while first and not self.open.wait(0.002):
                cancel()
            if not first and self._failure is not None:
                raise self._failure
            first = False

        try:
            self._pour(loaded, ask, limits, sending, cancel)
        except errors.Cancelled:
            self.stopped = True
            raise
        finally:
            self.ended.set()


async def until(condition: Any) -> None:
    for _ in range(12000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


async def test_it_arrives_in_memory_and_in_a_file_alike(either: AsyncClient, view: View, tmp_path: Path) -> None:
    place = tmp_path / "captured.safetensors"
    in_memory, in_file = await either.capture(view, POINTS), await either.capture(view, POINTS, into=place)
    assert same(in_memory, in_file)
    assert (in_memory.path, in_file.path) == (None, place)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []
    by_library = load_file(place)
    assert by_library.keys() == in_file.keys()
    assert all(np.array_equal(by_library[name], in_file[name]) for name in by_library)
    tokens = await either.tokens(view)
    assert in_file.ids == tokens.ids
    assert in_file.conditions == tokens.conditions
    assert in_file.axes["maps.1"] == ("H", "T", "S")
    head = await either.head(view, (1, 2))
    exact = np.frombuffer(head.edited.map.data, "<f4").reshape(head.edited.map.dims)
    assert np.abs(in_memory["maps.1"][2] - exact).max() <= 1e-6
    assert same(Captured.open(place), in_memory)


async def test_numbers_that_were_captured_cannot_be_changed_by_accident(client: AsyncClient, view: View) -> None:
    found = await client.capture(view, "residual.0")
    with pytest.raises(ValueError, match="read-only"):
        found["residual.0"][0] = 0
    assert "residual.0" in repr(list(found))
    assert repr(found).startswith("<Captured of ")
    with pytest.raises(KeyError):
        found["residual.1"]


@pytest.mark.parametrize(
    ("points", "type", "said"),
    [
        ("residual.9", "cannot-show", "no layer 9"),
        ("residul.1", "cannot-show", "residual.L"),
        ("blocks.0.attn.hook_q", "cannot-show", "query.0"),
    ],
)
async def test_a_refusal_comes_as_a_problem_and_leaves_no_file(
    client: AsyncClient, view: View, tmp_path: Path, points: str, type: str, said: str
) -> None:
    before = set(tmp_path.iterdir())
    with pytest.raises(Refused, match=said) as caught:
        await client.capture(view, points, into=tmp_path / "never.safetensors")
    assert caught.value.problem.type == type
    assert caught.value.problem.request
    assert set(tmp_path.iterdir()) == before


async def test_too_much_is_refused_with_both_numbers(folders: Any, tmp_path: Path) -> None:
    from backend.app import create_app

    name = str(folders["llama"])
    app = create_app(Settings(models=(name,), cache_dir=tmp_path, device="cpu", memory_bytes=10**9, capture_bytes=999))
    async with app.router.lifespan_context(app), AsyncClient(app=app) as client:
        with pytest.raises(Refused) as caught:
            await client.capture(View(model=name, text="The cat"), "logits")
    problem = caught.value.problem
    assert (problem.type, problem.status, problem.available) == ("too-large", 413, 999)
    assert problem.needed is not None
    assert problem.needed > 999
    assert "999" in problem.why


@pytest.mark.parametrize(
    ("failure", "type"),
    [
        (errors.CannotShow("The model breaks down", "its states are no numbers", "Be gentle"), "cannot-show"),
        (ZeroDivisionError("secret words of somebody"), "broken"),
        (errors.OutOfMemory("Not enough memory", "it is full", "Wait", needed=2, available=1), "out-of-memory"),
    ],
)  # fmt: skip
async def test_a_failure_in_the_middle_is_told_and_nothing_passes_for_whole(
    either: AsyncClient, view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, type: str
) -> None:
    held(monkeypatch, failure)
    before = set(tmp_path.iterdir())
    for into in (None, tmp_path / "never.safetensors"):
        with pytest.raises(Refused) as caught:
            await either.capture(view, POINTS, into=into)
        assert caught.value.problem.type == type
        assert "secret" not in str(caught.value)
        assert set(tmp_path.iterdir()) == before
    assert (await either.tokens(view)).ids


async def test_a_file_that_was_there_stays_until_the_new_one_is_whole(
    client: AsyncClient, view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "captured.safetensors"
    first = await client.capture(view, "residual.0", into=place)
    with monkeypatch.context() as patch:
        held(patch, ZeroDivisionError())
        with pytest.raises(Refused):
            await client.capture(view, POINTS, into=place)
    assert same(Captured.open(place), first)
    await client.capture(view, "residual.1", into=place)
    assert list(Captured.open(place)) == ["residual.1"]


async def test_a_client_that_leaves_in_the_middle_stops_it(
    either: AsyncClient, view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = held(monkeypatch)
    before = set(tmp_path.iterdir())
    asked = asyncio.create_task(either.capture(view, POINTS, into=tmp_path / "never.safetensors"))
    await until(hold.reached.is_set)
    assert any(path.suffix == ".part" for path in tmp_path.iterdir())
    asked.cancel()
    with suppress(asyncio.CancelledError):
        await asked
    await until(hold.ended.is_set)
    assert hold.stopped
    assert set(tmp_path.iterdir()) == before
    assert (await either.tokens(view)).ids


async def test_stop_ends_it_and_says_so(either: AsyncClient, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = held(monkeypatch)
    asked = asyncio.create_task(either.capture(view, POINTS))
    await until(hold.reached.is_set)
    await either.stop()
    with pytest.raises(Refused) as caught:
        await asked
    assert caught.value.problem.type == "cancelled"
    await until(hold.ended.is_set)
    assert hold.stopped


async def test_captures_and_questions_at_once_are_what_they_are_alone(client: AsyncClient, view: View) -> None:
    edited = view.model_copy(update={"edits": (HeadScale(layer=0, head=1, by=-2.0),), "compare": True})
    other = client.with_tab(str(uuid4()))
    alone = [await client.capture(view, POINTS), await client.capture(edited, POINTS), await client.heads(view)]
    for _ in range(10):
        found = await asyncio.gather(
            client.capture(view, POINTS), other.capture(edited, POINTS), client.heads(view), other.tokens(edited)
        )
        assert same(found[0], alone[0])
        assert same(found[1], alone[1])
        assert found[2] == alone[2]


async def test_a_reader_too_slow_frees_the_model_and_is_told(
    either: AsyncClient, app: FastAPI, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are answered while it still stands; what it reads when it goes on is no whole file."""
    house = app.state.house
    monkeypatch.setattr(house.desk, "_limits", house.limits.model_copy(update={"wait_s": 0.3}))
    monkeypatch.setattr(pipe, "AHEAD_BYTES", 1024)
    ended = threading.Event()

    def pour(loaded: Any, ask: Any, limits: Any, send: Any, cancel: Any) -> None:
        try:
            while True:
                send(bytes(1024 * 1024))
        finally:
            ended.set()

    monkeypatch.setattr(instrument, "pour", pour)
    body = {"view": view.model_dump(mode="json"), "points": ["final"]}
    async with either._http.stream("POST", "capture", json=body, timeout=30) as response:
        chunks = response.aiter_raw()
        await anext(chunks)
        await until(ended.is_set)
        monkeypatch.setattr(house.desk, "_limits", house.limits)
        assert (await either.tokens(view)).ids
        last, whole = await last_of(chunks)
    assert not whole
    assert b"lmscope-problem:" in last
    assert b'"waited"' in last


async def last_of(chunks: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """The last bytes of a body, and whether it ended as it should."""
    last = b""
    try:
        async for chunk in chunks:
            last = (last + chunk)[-2000:]
    except httpx.RemoteProtocolError:
        return last, False
    return last, True


async def test_nothing_compresses_it_on_the_way(address: str, view: View) -> None:
    async with httpx.AsyncClient(base_url=address) as plain:
        response = await plain.post(
            "/api/v1/capture", json={"view": view.model_dump(mode="json"), "points": ["final"]}, timeout=30
        )
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/vnd.safetensors"
    assert response.headers["content-encoding"] == "identity"
    assert int.from_bytes(response.content[:8], "little") < len(response.content)


async def test_an_unloaded_model_is_loaded_first_and_the_blocking_client_waits(
    address: str, app: FastAPI, settings: Settings
) -> None:
    name = settings.models[1]
    await asyncio.to_thread(app.state.house.shelf.unload, name)

    def ask() -> Captured:
        with Client(address) as client:
            return client.capture(View(model=name, text=TEXT), ["blocks.0.attn.hook_q", "query.0"])

    found = await asyncio.to_thread(ask)
    assert np.array_equal(found["blocks.0.attn.hook_q"], found["query.0"])
