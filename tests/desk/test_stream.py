"""A question whose answer is made in pieces: order, limits, and every way in which it can end early."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from itertools import repeat
from typing import Any

import pytest

from backend import errors
from backend.desk import pipe
from backend.desk.desk import Desk
from backend.desk.question import Cancel, Send, Stream
from backend.schema import Limits
from tests.desk.pretend import Gate, PretendShelf, said

TAB = "11111111-1111-1111-1111-111111111111"


class Pouring:
    """An answer in pieces that counts what happened to it."""

    pieces: Iterable[bytes]

    def __init__(self, *pieces: bytes, failure: Exception | None = None, cost: int = 0) -> None:
        self.pieces, self.failure, self.bytes = pieces, failure, cost
        self.sent = self.layers = 0
        self.ended = threading.Event()
        self.how: BaseException | None = None

    def __call__(self, loaded: Any, send: Send, cancel: Cancel) -> None:
        try:
            for piece in self.pieces:
                self.layers += 1
                cancel()
                send(piece)
                self.sent += 1
            if self.failure is not None:
                raise self.failure
        except BaseException as error:
            self.how = error
            raise
        finally:
            self.ended.set()

    def stream(self, instrument: str = "capture") -> Stream:
        return Stream(instrument, self, lambda _: self.bytes)


class Endless(Pouring):
    """Pours until it is stopped."""

    def __call__(self, loaded: Any, send: Send, cancel: Cancel) -> None:
        self.pieces = repeat(b"x" * 1024)
        super().__call__(loaded, send, cancel)


async def ended(pouring: Pouring) -> None:
    assert await asyncio.to_thread(pouring.ended.wait, 60)


async def all_of(pieces: AsyncGenerator[bytes, None]) -> list[bytes]:
    return [piece async for piece in pieces]


async def slowly(pieces: AsyncGenerator[bytes, None]) -> None:
    """Never still for long, and always behind."""
    async with asyncio.timeout(60):
        async for _ in pieces:
            await asyncio.sleep(0.05)


async def until(condition: Any) -> None:
    for _ in range(12000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


async def test_the_pieces_arrive_in_order_and_nothing_is_kept(desk: Desk) -> None:
    pouring = Pouring(*(bytes([number]) * number for number in range(1, 200)))
    assert await all_of(desk.stream("a", None, pouring.stream())) == list(pouring.pieces)
    assert not desk.answers._kept
    assert desk.asking() == {}


async def test_an_answer_without_pieces_ends(desk: Desk) -> None:
    assert await all_of(desk.stream("a", None, Pouring().stream())) == []


async def test_what_is_refused_is_refused_before_any_piece(desk: Desk) -> None:
    def refuse(_: Any) -> int:
        raise errors.TooLarge("Too large", "it is", "Ask for less", needed=2, available=1)

    pouring = Pouring(b"never")
    pieces = desk.stream("a", None, Stream("capture", pouring, refuse))
    with pytest.raises(errors.TooLarge):
        await anext(pieces)
    assert pouring.layers == 0
    with pytest.raises(errors.UnknownModel):
        await anext(desk.stream("unknown", None, Pouring().stream()))


async def test_a_failure_in_the_middle_comes_after_what_was_read(desk: Desk) -> None:
    gate = threading.Event()

    def pour(loaded: Any, send: Send, cancel: Cancel) -> None:
        send(b"one")
        gate.wait(60)
        raise ZeroDivisionError

    pieces = desk.stream("a", None, Stream("capture", pour, lambda _: 0))
    assert await anext(pieces) == b"one"
    gate.set()
    with pytest.raises(errors.Broken, match="ZeroDivisionError"):
        await anext(pieces)
    assert await desk.ask("a", None, said("after")) == b'{"text":"after"}'


async def test_the_thread_is_never_far_ahead_of_its_reader(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "AHEAD_BYTES", 10)
    pouring = Pouring(*[b"four"] * 50)
    pieces = desk.stream("a", None, pouring.stream())
    async with aclosing(pieces):
        read = 0
        async for _ in pieces:
            read += 1
            await asyncio.sleep(0)
            assert pouring.sent <= read + 3  # two of four bytes wait, and one is on its way
    assert read == 50


@pytest.mark.parametrize(("whole", "read"), [(True, [b"one", b"two", None]), (False, [None])])
async def test_of_an_answer_that_failed_nothing_more_is_read(whole: bool, read: list[bytes | None]) -> None:
    waiting = pipe.Pipe(1.0)
    waiting.send(b"one", lambda: None)
    waiting.send(b"two", lambda: None)
    waiting.end(whole=whole)
    assert [await waiting.next() for _ in read] == read


async def test_a_piece_larger_than_the_bound_passes_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "AHEAD_BYTES", 1)
    pouring = Pouring(b"large", b"larger")
    assert await all_of(desk.stream("a", None, pouring.stream())) == [b"large", b"larger"]


async def test_a_reader_that_stands_still_frees_the_model_and_is_told(
    shelf: PretendShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "AHEAD_BYTES", 10)
    desk = Desk(shelf, Limits(wait_s=0.3))
    try:
        pouring = Pouring(*[b"four"] * 50)
        pieces = desk.stream("a", None, pouring.stream())
        await anext(pieces)
        await ended(pouring)
        assert isinstance(pouring.how, errors.Waited)
        with pytest.raises(errors.Waited, match="too slowly"):
            await all_of(pieces)
        assert await desk.ask("a", None, said("after")) == b'{"text":"after"}'
    finally:
        await desk.close()


async def test_all_waits_for_one_reader_together_are_limited(
    shelf: PretendShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "AHEAD_BYTES", 1)
    monkeypatch.setattr(pipe, "LOOK_S", 0.005)
    desk = Desk(shelf, Limits(wait_s=0.3))
    try:
        pouring = Endless()
        with pytest.raises(errors.Waited):
            await slowly(desk.stream("a", None, pouring.stream()))
        await ended(pouring)
    finally:
        await desk.close()


async def test_a_reader_that_leaves_stops_the_answer_within_a_layer(desk: Desk, shelf: PretendShelf) -> None:
    pouring = Endless()
    async with aclosing(desk.stream("a", None, pouring.stream())) as pieces:
        await anext(pieces)
    await ended(pouring)
    assert isinstance(pouring.how, errors.Cancelled)
    assert await desk.ask("a", None, said("after")) == b'{"text":"after"}'
    assert shelf.leases["a"] == 0


async def test_a_reader_that_leaves_frees_a_thread_that_waits_for_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "AHEAD_BYTES", 1)
    how, ended = [], threading.Event()

    def pour(loaded: Any, send: Send, cancel: Cancel) -> None:
        try:
            while True:
                send(b"four")
        except errors.LmscopeError as error:
            how.append(type(error))
            raise
        finally:
            ended.set()

    async with aclosing(desk.stream("a", None, Stream("capture", pour, lambda _: 0))) as pieces:
        await anext(pieces)
    assert await asyncio.to_thread(ended.wait, 60)
    assert how == [errors.Cancelled]


async def test_a_reader_that_leaves_while_it_waits_never_starts(desk: Desk) -> None:
    gate, pouring = Gate(), Pouring(b"never")
    first = asyncio.ensure_future(desk.ask("a", None, gate.question("first")))
    await asyncio.to_thread(gate.reached.wait, 60)
    waiting = asyncio.ensure_future(anext(desk.stream("a", None, pouring.stream())))
    await until(lambda: desk.asking()["a"] == 2)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: desk.asking()["a"] == 1)
    gate.open.set()
    await first
    assert pouring.layers == 0


async def test_stop_ends_a_stream_and_says_so(desk: Desk) -> None:
    pouring = Endless()
    pieces = desk.stream("a", None, pouring.stream(), tab=TAB)
    await anext(pieces)
    desk.stop(TAB)
    with pytest.raises(errors.Cancelled, match="stopped"):
        await all_of(pieces)
    await ended(pouring)


async def test_a_newer_stream_of_the_same_tab_takes_its_place(desk: Desk) -> None:
    older, newer = Endless(), Pouring(b"new")
    pieces = desk.stream("a", None, older.stream(), tab=TAB)
    await anext(pieces)
    assert await all_of(desk.stream("a", None, newer.stream(), tab=TAB)) == [b"new"]
    with pytest.raises(errors.Replaced):
        await all_of(pieces)


async def test_streams_and_questions_of_one_model_take_turns_and_are_not_mixed(desk: Desk) -> None:
    streams = [Pouring(*[bytes([number])] * 200) for number in range(2)]
    answers = await asyncio.gather(
        *(all_of(desk.stream("a", None, one.stream())) for one in streams), desk.ask("a", None, said("between"))
    )
    assert [set(pieces) for pieces in answers[:2]] == [{b"\0"}, {b"\1"}]
    assert [len(pieces) for pieces in answers[:2]] == [200, 200]
    assert answers[2] == b'{"text":"between"}'


async def test_a_server_that_goes_down_ends_its_streams(shelf: PretendShelf) -> None:
    desk = Desk(shelf, Limits())
    pouring = Endless()
    pieces = desk.stream("a", None, pouring.stream())
    await anext(pieces)
    await desk.close()
    assert pouring.ended.is_set()
    with pytest.raises(errors.NotNow, match="shutting down"):
        await all_of(pieces)


async def test_the_tab_is_told_of_a_stream_as_of_any_question(desk: Desk) -> None:
    pieces = desk.stream("a", None, Endless().stream(), tab=TAB)
    await anext(pieces)
    assert [(one.instrument, one.state) for one in desk.situation(TAB).questions] == [("capture", "running")]
    await pieces.aclose()
    await until(lambda: desk.situation(TAB).questions == ())
