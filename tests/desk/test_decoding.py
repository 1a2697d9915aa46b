"""The decode loop beside everything else that a model is asked: who joins, who waits, who leaves, and when."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise
from uuid import uuid4

import pytest
import torch

from backend import errors
from backend.desk.desk import Desk
from backend.desk.question import Question, WriteStream
from backend.models import forward, write
from backend.models.loaded import Loaded
from backend.schema import FfnSet, HeadScale, Limits, Sampling, View, WriteAsk
from tests import tiny
from tests.desk.pretend import PretendShelf, Said

LIMITS = Limits(wait_s=60, rows=4)
EDIT = FfnSet(layer=1, unit=7, to=9)


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return tiny.loaded("llama", max_position_embeddings=2048)


@pytest.fixture
def shelf(loaded: Loaded) -> PretendShelf:
    shelf = PretendShelf()
    shelf.models["a"] = loaded
    return shelf


@pytest.fixture
async def desk(shelf: PretendShelf) -> AsyncIterator[Desk]:
    desk = Desk(shelf, LIMITS)
    yield desk
    await desk.close()
    assert shelf.leases == {"a": 0}


class Steps:
    """Counts what the model runs, and says how many rows went through it at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.told: list[str] = []
        self.slow_s = 0.0
        run = forward.run

        def counted(loaded, ids_BT, *args, **options):
            if options.get("cache") is not None and len(ids_BT[0]) == 1:
                self.rows.append(len(ids_BT))
                self.told.append("step")
                time.sleep(self.slow_s)
            return run(loaded, ids_BT, *args, **options)

        monkeypatch.setattr(forward, "run", counted)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def ask(text: str = "The cat sat", *, edits=(), compare=False, **how) -> WriteAsk:
    return WriteAsk(view=View(model="a", text=text, edits=edits, compare=compare, sampling=Sampling(**how)))


def streamed(asked: WriteAsk) -> WriteStream:
    def begin(loaded, send):
        return write.Writer(loaded, asked, LIMITS, lambda event: send(event.model_dump_json().encode()), kept=False)

    return WriteStream("write", begin, lambda loaded: write.cost(loaded, asked, LIMITS), write.rows_of(asked))


def whole(asked: WriteAsk) -> Question:
    return Question(
        "write", uuid4().hex, lambda loaded, _: write.Writer(loaded, asked, LIMITS),
        lambda loaded: write.cost(loaded, asked, LIMITS), write.rows_of(asked),
    )  # fmt: skip


async def text_of(desk: Desk, asked: WriteAsk, tab: str = "") -> str:
    return json.loads(await desk.ask("a", None, whole(asked), tab=tab))["edited"]["text"]


async def pieces_of(desk: Desk, asked: WriteAsk, tab: str = "") -> str:
    async with aclosing(desk.stream("a", None, streamed(asked), tab=tab)) as pieces:
        events = [json.loads(piece) async for piece in pieces]
    return "".join(event["token"]["text"] for event in events if event["token"] and event["side"] == "edited")


async def until(condition) -> None:
    for _ in range(15000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came true")


async def test_people_with_opposite_interventions_at_once_each_equal_their_solo_run(desk: Desk, steps: Steps):
    asks = [
        ask(edits=(EDIT,), tokens=40),
        ask(edits=(EDIT.model_copy(update={"to": -9}),), tokens=40),
        ask(tokens=30, temperature=1.2, seed=5),
    ]
    alone = [await text_of(desk, each) for each in asks]
    assert len(set(alone)) == 3
    assert set(steps.rows) == {1}
    together = await asyncio.gather(*(pieces_of(desk, each, tab=str(place)) for place, each in enumerate(asks)))
    assert together == alone
    assert max(steps.rows) == 3


async def test_closing_one_tab_frees_its_row_within_a_token(desk: Desk, steps: Steps):
    steps.slow_s = 0.01
    staying = asyncio.create_task(pieces_of(desk, ask(tokens=200), tab="stays"))
    leaving = asyncio.create_task(pieces_of(desk, ask("Another", tokens=200), tab="goes"))
    await until(lambda: 2 in steps.rows)
    desk.stop("goes")
    at = len(steps.rows)
    with pytest.raises(errors.Cancelled):
        await leaving
    await until(lambda: len(steps.rows) > at + 3)
    assert steps.rows[at + 1 : at + 3] == [1, 1], "at most the step that ran goes on with it"
    assert len(await staying) > 0


async def test_a_reader_that_leaves_ends_the_writing_within_a_token(desk: Desk, steps: Steps):
    steps.slow_s = 0.01
    async with aclosing(desk.stream("a", None, streamed(ask(tokens=500)))) as pieces:
        for _ in range(4):
            await anext(pieces)
    at = len(steps.rows)
    await asyncio.sleep(0.1)
    assert len(steps.rows) <= at + 1
    assert await text_of(desk, ask(tokens=3))


async def test_questions_and_steps_take_turns(desk: Desk, steps: Steps):
    writing = asyncio.create_task(pieces_of(desk, ask(tokens=60), tab="writes"))
    await until(lambda: steps.rows)

    def question(number: int) -> Question:
        def answer(loaded, cancel):
            steps.told.append("question")
            return Said(text="")

        return Question("attention", f"q{number}", answer, lambda _: 0)

    first = len(steps.told)
    await asyncio.gather(*(desk.ask("a", None, question(number), tab=f"t{number}") for number in range(10)))
    told = steps.told[first:]
    asked = [place for place, each in enumerate(told) if each == "question"]
    assert len(asked) == 10
    assert all(later - earlier == 2 for earlier, later in pairwise(asked)), told
    await writing


async def test_a_full_batch_lets_others_wait_and_says_so(desk: Desk, steps: Steps):
    steps.slow_s = 0.005
    many = [
        asyncio.create_task(pieces_of(desk, ask(edits=(EDIT,), compare=True, tokens=40), tab=f"t{n}")) for n in "ab"
    ]
    await until(lambda: 4 in steps.rows)
    late = asyncio.create_task(pieces_of(desk, ask(tokens=2), tab="late"))
    await until(lambda: desk.situation("late").questions)
    (waiting,) = desk.situation("late").questions
    assert (waiting.state, waiting.position) == ("waiting", 1)
    assert desk.situation("ta").questions[0].state == "running"
    assert await desk.ask("a", None, Question("attention", "q", lambda *_: None, lambda _: 0), tab="late") == b""
    assert not late.done(), "a question that is answered in one go need not wait for room"
    assert await late
    assert max(steps.rows) == 4
    await asyncio.gather(*many)


async def test_a_newer_continuation_of_the_tab_takes_the_older_one_s_place(desk: Desk, steps: Steps):
    steps.slow_s = 0.005
    older = asyncio.create_task(pieces_of(desk, ask(tokens=400), tab="t"))
    await until(lambda: steps.rows)
    assert await pieces_of(desk, ask("Another", tokens=5), tab="t")
    with pytest.raises(errors.Replaced):
        await older
    assert desk.situation("t").questions == ()


async def test_what_breaks_down_is_refused_and_the_others_go_on(desk: Desk, shelf: PretendShelf, monkeypatch):
    alone = await text_of(desk, ask(tokens=30))
    other = asyncio.create_task(pieces_of(desk, ask(tokens=30)))
    with pytest.raises(errors.CannotShow):
        await text_of(desk, ask(edits=(HeadScale(layer=77, head=0, by=0),), tokens=30))
    assert await other == alone


async def test_after_a_failure_in_a_step_everybody_is_told_and_the_next_one_is_served(desk: Desk, monkeypatch):
    alone = await text_of(desk, ask(tokens=10))
    run, calls = forward.run, 0

    def failing(*args, **options):
        nonlocal calls
        calls += 1
        if calls == 12:
            raise torch.OutOfMemoryError("tried to allocate 123456789 bytes")
        return run(*args, **options)

    monkeypatch.setattr(forward, "run", failing)
    found = await asyncio.gather(
        *(pieces_of(desk, ask(text, tokens=60)) for text in ("One", "Two")), return_exceptions=True
    )
    assert [type(each) for each in found] == [errors.OutOfMemory] * 2
    assert found[0].needed >= 123456789
    assert await text_of(desk, ask(tokens=10)) == alone
    assert desk._memory._spoken == {"cpu": 0}


async def test_memory_that_was_spoken_for_is_given_back_however_it_ends(desk: Desk, steps: Steps):
    steps.slow_s = 0.005
    going = asyncio.create_task(pieces_of(desk, ask(tokens=100), tab="t"))
    await until(lambda: steps.rows)
    held = desk._memory._spoken["cpu"]
    assert 0 < held < write.cost(tiny.loaded("llama"), ask(tokens=100), LIMITS)
    desk.stop("t")
    await asyncio.gather(going, return_exceptions=True)
    await until(lambda: desk._memory._spoken["cpu"] == 0)
    await text_of(desk, ask(tokens=2))
    assert desk._memory._spoken == {"cpu": 0}


async def test_an_idle_desk_holds_no_model(desk: Desk, shelf: PretendShelf):
    await pieces_of(desk, ask(tokens=3))
    (lane,) = desk._lanes
    assert lane.written == []
    assert lane._worker._written._batch is None
    assert lane._worker._written.works == []
