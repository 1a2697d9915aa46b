"""The desk: a bounded queue and one thread a model; what is replaced, stopped or left never runs on."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from backend import errors
from backend.desk.desk import Desk
from backend.schema import Limits, TabEvent
from tests.desk.pretend import Gate, PretendShelf, Said, raising, said, states


def text_of(body: bytes) -> str:
    return Said.model_validate_json(body).text


async def reached(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.reached.wait, 60)


async def until(condition: Any) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


@pytest.fixture
async def gate(desk: Desk) -> AsyncIterator[Gate]:
    """Work on model a that has begun and holds its thread."""
    gate = Gate()
    task = asyncio.create_task(desk.ask("a", None, gate.question("holds the thread"), tab="holder"))
    await reached(gate)
    yield gate
    gate.open.set()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_comes_as_json(desk: Desk) -> None:
    assert text_of(await desk.ask("a", None, said("hello"))) == "hello"


async def test_each_model_has_one_thread_of_its_own(desk: Desk, shelf: PretendShelf) -> None:
    questions = [desk.ask(name, None, said(f"{name}{n}")) for n in range(3) for name in "ab"]
    await asyncio.gather(*questions)
    threads = [shelf.models[name].threads for name in "ab"]
    assert [len(ids) for ids in threads] == [1, 1]
    assert threads[0] != threads[1]
    assert threading.get_ident() not in threads[0] | threads[1]


async def test_what_the_card_alone_refuses_is_refused_before_it_waits(desk: Desk, gate: Gate) -> None:
    """The thread is held, and stays so: no answer could come before the refusal."""

    def check(_: Any) -> None:
        raise errors.CannotShow("There is no layer 9", "it has 3", "Choose another")

    with pytest.raises(errors.CannotShow, match="no layer 9"):
        await desk.ask("a", None, replace(said("never asked"), check=check))
    assert not gate.open.is_set()


async def test_a_full_queue_turns_away_with_both_numbers(desk: Desk, gate: Gate) -> None:
    waiting = [asyncio.create_task(desk.ask("a", None, said(f"{n}"))) for n in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(errors.Busy) as refused:
        await desk.ask("a", None, said("one too many"))
    assert (refused.value.needed, refused.value.available) == (4, 3)
    assert text_of(await desk.ask("b", None, said("elsewhere"))) == "elsewhere"
    gate.open.set()
    assert [text_of(body) for body in await asyncio.gather(*waiting)] == ["0", "1", "2"]


async def test_a_newer_question_of_a_tab_and_instrument_replaces_the_waiting_one(desk: Desk, gate: Gate) -> None:
    never = Gate()
    older = asyncio.create_task(desk.ask("a", None, never.question("older"), tab="t"))
    other_instrument = asyncio.create_task(desk.ask("a", None, said("heads", "heads"), tab="t"))
    other_tab = asyncio.create_task(desk.ask("a", None, said("u"), tab="u"))
    await asyncio.sleep(0)
    newer = asyncio.create_task(desk.ask("a", None, said("newer"), tab="t"))
    with pytest.raises(errors.Replaced):
        await older
    gate.open.set()
    bodies = await asyncio.gather(newer, other_instrument, other_tab)
    assert [text_of(body) for body in bodies] == ["newer", "heads", "u"]
    assert never.begun == 0


async def test_a_newer_question_cancels_the_running_one_at_its_next_layer(desk: Desk) -> None:
    older = Gate()
    task = asyncio.create_task(desk.ask("a", None, older.question("older"), tab="t"))
    await reached(older)
    assert text_of(await desk.ask("a", None, said("newer"), tab="t")) == "newer"
    with pytest.raises(errors.Replaced):
        await task
    assert (older.stopped, older.finished) == (1, 0)


async def test_questions_without_a_tab_replace_nothing(desk: Desk, gate: Gate) -> None:
    tasks = [asyncio.create_task(desk.ask("a", None, said(f"{n}"))) for n in range(3)]
    await asyncio.sleep(0)
    gate.open.set()
    assert [text_of(body) for body in await asyncio.gather(*tasks)] == ["0", "1", "2"]


async def test_work_of_a_caller_who_left_never_starts(desk: Desk, gate: Gate) -> None:
    never = Gate()
    task = asyncio.create_task(desk.ask("a", None, never.question("left"), tab="t"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gate.open.set()
    assert text_of(await desk.ask("a", None, said("after"))) == "after"
    assert never.begun == 0


async def test_running_work_of_a_caller_who_left_stops_at_its_next_layer(desk: Desk, shelf: PretendShelf) -> None:
    gate = Gate()
    task = asyncio.create_task(desk.ask("a", None, gate.question("left")))
    await reached(gate)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: gate.stopped == 1)
    assert text_of(await desk.ask("a", None, said("after"))) == "after"
    assert shelf.leases == {"a": 0}


async def test_stop_cancels_everything_of_one_tab_and_nothing_of_others(desk: Desk, gate: Gate) -> None:
    never = Gate()
    mine = [asyncio.create_task(desk.ask("a", None, never.question(i, i), tab="t")) for i in ("attention", "heads")]
    theirs = asyncio.create_task(desk.ask("a", None, said("theirs"), tab="u"))
    await asyncio.sleep(0)
    desk.stop("t")
    assert [type(error) for error in await asyncio.gather(*mine, return_exceptions=True)] == [errors.Cancelled] * 2
    gate.open.set()
    assert text_of(await theirs) == "theirs"
    assert never.begun == 0


async def test_tabs_take_turns(desk: Desk, gate: Gate) -> None:
    order: list[str] = []

    async def ask(tab: str, name: str) -> None:
        await desk.ask("a", None, said(name, instrument=name), tab=tab)
        order.append(name)

    tasks = [asyncio.create_task(ask(tab, name)) for tab, name in (("t", "t1"), ("t", "t2"), ("u", "u1"))]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(*tasks)
    assert order == ["t1", "u1", "t2"]


async def test_a_position_is_what_will_happen(desk: Desk, gate: Gate) -> None:
    tasks = [
        asyncio.create_task(desk.ask("a", None, said(name, instrument=name), tab=tab))
        for tab, name in (("t", "t1"), ("t", "t2"), ("u", "u1"))
    ]
    await asyncio.sleep(0)
    assert states(desk.situation("holder").questions) == [("running", 0)]
    assert states(desk.situation("t").questions) == [("waiting", 1), ("waiting", 3)]
    assert states(desk.situation("u").questions) == [("waiting", 2)]
    gate.open.set()
    await asyncio.gather(*tasks)
    assert desk.situation("t").questions == ()


@pytest.mark.parametrize("limits", [Limits(queue=3, wait_s=0.1)])
async def test_nobody_waits_longer_than_the_ceiling(desk: Desk, gate: Gate) -> None:
    never = Gate()
    with pytest.raises(errors.Waited) as refused:
        await desk.ask("a", None, never.question("waits"))
    assert "0.1 s" in refused.value.why
    gate.open.set()
    await until(lambda: not desk.asking())  # with a thread that is free nobody waits
    assert text_of(await desk.ask("a", None, said("after"))) == "after"
    assert never.begun == 0


@pytest.mark.parametrize("limits", [Limits(queue=3, wait_s=0.1)])
async def test_running_work_may_take_longer_than_the_waiting_ceiling(desk: Desk) -> None:
    assert text_of(await desk.ask("a", None, said("slow", pause_s=0.3))) == "slow"


async def test_after_any_failure_the_next_question_is_answered(desk: Desk, shelf: PretendShelf) -> None:
    for error, expected in (
        (ValueError("secret text"), errors.Broken),
        (errors.CannotShow("It cannot", "it has none", "Ask another"), errors.CannotShow),
        (KeyError("x"), errors.Broken),
    ):
        with pytest.raises(expected) as refused:
            await desk.ask("a", None, raising(error))
        assert "secret" not in str(refused.value)
        assert text_of(await desk.ask("a", None, said("fine"))) == "fine"
    assert shelf.leases == {"a": 0}


async def test_a_failure_keeps_nothing_of_the_thread_alive(desk: Desk) -> None:
    error = errors.CannotShow("It cannot", "it has none", "Ask another")
    with pytest.raises(errors.CannotShow) as refused:
        await desk.ask("a", None, raising(error))
    assert refused.value is not error
    assert refused.value.__context__ is None


async def test_the_thread_ends_when_the_model_is_unloaded(desk: Desk, shelf: PretendShelf) -> None:
    before = set(threading.enumerate())
    await desk.ask("a", None, said("hello"))
    (thread,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "model a"]
    shelf.unload("a")
    gc.collect()
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()


async def test_a_model_in_use_is_leased_while_its_question_waits(desk: Desk, gate: Gate, shelf: PretendShelf) -> None:
    task = asyncio.create_task(desk.ask("a", None, said("waits")))
    await asyncio.sleep(0)
    assert shelf.leases == {"a": 2}
    with pytest.raises(errors.Busy):
        shelf.unload("a")
    gate.open.set()
    await task
    await until(lambda: shelf.leases == {"a": 0})


async def test_a_model_that_is_not_loaded_is_loaded_once_for_all_who_wait(desk: Desk, shelf: PretendShelf) -> None:
    bodies = await asyncio.gather(*(desk.ask("c", None, said(f"{n}")) for n in range(3)))
    assert [text_of(body) for body in bodies] == ["0", "1", "2"]
    assert shelf.loads == 1
    assert desk.jobs.all()[0].result == {"model": "c", "revision": ""}


@pytest.mark.parametrize("limits", [Limits(queue=3, wait_s=0.3)])
async def test_who_waits_too_long_for_a_load_is_told_the_job(desk: Desk, shelf: PretendShelf) -> None:
    shelf.held_at = 0
    with pytest.raises(errors.Loading) as refused:
        await desk.ask("c", None, said("early"))
    (job,) = desk.jobs.all()
    assert job.id in refused.value.instead
    shelf.open.set()
    assert (await desk.jobs.ended(job.id)).state == "done"
    assert text_of(await desk.ask("c", None, said("later"))) == "later"


async def test_a_failed_load_is_everybodys_error(desk: Desk, shelf: PretendShelf) -> None:
    shelf.failure = errors.DiskFull("The disk is full", "it has 0 bytes left", "Make room", needed=2, available=0)
    asked = (desk.ask("c", None, said(f"{n}")) for n in range(2))
    refused = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in refused] == [errors.DiskFull] * 2
    assert refused[0] is not refused[1]


async def test_who_waits_for_a_load_has_a_place_and_can_stop(desk: Desk, shelf: PretendShelf) -> None:
    shelf.held_at = 0
    first = asyncio.create_task(desk.ask("c", None, said("1"), tab="t"))
    await until(lambda: desk.jobs.all())
    second = asyncio.create_task(desk.ask("c", None, said("2"), tab="u"))
    await until(lambda: states(desk.situation("u").questions) == [("waiting", 2)])  # once it is known for which load
    assert states(desk.situation("t").questions) == [("waiting", 1)]
    desk.stop("t")
    with pytest.raises(errors.Cancelled):
        await first
    shelf.open.set()
    assert text_of(await second) == "2"


async def test_an_unknown_model_is_said_at_once(desk: Desk) -> None:
    with pytest.raises(errors.UnknownModel):
        await desk.ask("unknown", None, said("hello"))


async def next_event(events: AsyncIterator[TabEvent]) -> TabEvent:
    return await asyncio.wait_for(anext(events), 60)


async def test_a_tab_hears_its_situation_and_every_change(desk: Desk, gate: Gate) -> None:
    events = desk.tabs.events("t")
    assert (await next_event(events)).questions == ()
    task = asyncio.create_task(desk.ask("a", None, said("hello"), tab="t"))
    assert states((await next_event(events)).questions) == [("waiting", 1)]
    gate.open.set()
    seen = [states((await next_event(events)).questions)]
    while seen[-1]:
        seen.append(states((await next_event(events)).questions))
    assert seen in ([[("running", 0)], []], [[]])
    await task
    await events.aclose()


async def test_a_tab_hears_nothing_while_nothing_changes_for_it(desk: Desk) -> None:
    events = desk.tabs.events("t")
    await next_event(events)
    await desk.ask("a", None, said("somebody else's"), tab="u")
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_tab_whose_last_stream_closes_has_left(desk: Desk, gate: Gate) -> None:
    streams = [desk.tabs.events("t"), desk.tabs.events("t")]
    for stream in streams:
        await next_event(stream)
    task = asyncio.create_task(desk.ask("a", None, said("hello"), tab="t"))
    await asyncio.sleep(0)
    await streams[0].aclose()
    await asyncio.sleep(0.02)
    assert not task.done()
    await streams[1].aclose()
    with pytest.raises(errors.Cancelled):
        await task


async def test_a_closed_desk_turns_everybody_away_and_leaves_no_thread(shelf: PretendShelf, limits: Limits) -> None:
    before, desk, gate = set(threading.enumerate()), Desk(shelf, limits), Gate()
    tasks = [asyncio.create_task(desk.ask("a", None, gate.question(f"{n}"))) for n in range(2)]
    await reached(gate)
    await desk.close()
    assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [errors.NotNow] * 2
    with pytest.raises(errors.NotNow):
        await desk.ask("a", None, said("late"))
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith(("model", "job"))]
