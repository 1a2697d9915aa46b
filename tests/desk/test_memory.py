"""Bytes are estimated first; what does not fit is refused with both numbers, and running out is survived."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import torch

from backend import errors
from backend.desk.desk import Desk
from backend.desk.memory import Memory, available, ran_out
from backend.schema import Limits
from tests.desk.pretend import Gate, PretendShelf, raising, said


def never() -> None:
    """Nobody cancels."""


@pytest.fixture
async def desk(shelf: PretendShelf) -> AsyncIterator[Desk]:
    desk = Desk(shelf, Limits(wait_s=60), Memory(lambda device: 100))
    yield desk
    await desk.close()


async def test_a_question_that_cannot_fit_is_refused_before_it_runs(desk: Desk) -> None:
    gate = Gate()
    with pytest.raises(errors.OutOfMemory) as refused:
        await desk.ask("a", None, gate.question("big", cost=101))
    assert (refused.value.needed, refused.value.available) == (101, 100)
    assert gate.begun == 0
    assert await desk.ask("a", None, said("fits", cost=100)) == b'{"text":"fits"}'


async def test_a_question_waits_for_memory_that_another_model_s_question_holds(desk: Desk) -> None:
    gate = Gate()
    holder = asyncio.create_task(desk.ask("a", None, gate.question("holds", cost=60)))
    await asyncio.to_thread(gate.reached.wait, 60)
    waits = asyncio.create_task(desk.ask("b", None, said("waits", cost=60)))
    await asyncio.sleep(0.1)
    assert not waits.done()
    gate.open.set()
    assert await waits == b'{"text":"waits"}'
    await holder


async def test_waiting_for_memory_ends_when_nobody_waits_for_the_answer(desk: Desk) -> None:
    gate, waits = Gate(), Gate()
    holder = asyncio.create_task(desk.ask("a", None, gate.question("holds", cost=60)))
    await asyncio.to_thread(gate.reached.wait, 60)
    task = asyncio.create_task(desk.ask("b", None, waits.question("waits", cost=60)))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await asyncio.wait_for(desk.ask("b", None, said("next", cost=10)), 60) == b'{"text":"next"}'
    assert waits.begun == 0
    gate.open.set()
    await holder


def test_waiting_for_memory_has_a_ceiling() -> None:
    memory = Memory(lambda device: 100)
    memory.reserve("cpu", 60, 1, never)
    with pytest.raises(errors.OutOfMemory) as refused:
        memory.reserve("cpu", 60, 0.1, never)
    assert (refused.value.needed, refused.value.available) == (60, 40)


def test_devices_are_counted_apart() -> None:
    memory = Memory(lambda device: 100)
    memory.reserve("cpu", 60, 1, never)
    memory.reserve("cuda:0", 60, 1, never)
    assert (memory.free("cpu"), memory.free("cuda:1")) == (40, 100)


def test_what_is_given_back_can_be_had_again() -> None:
    memory = Memory(lambda device: 100)
    memory.reserve("cpu", 100, 1, never)
    threading.Timer(0.05, memory.give_back, ("cpu", 100)).start()
    memory.reserve("cpu", 100, 60, never)
    memory.give_back("cpu", 100)
    assert memory.free("cpu") == 100


def real_failure() -> BaseException:
    """What torch really raises when a CPU has too little."""
    with pytest.raises(RuntimeError) as failure:
        torch.empty(2**60, dtype=torch.uint8)
    return failure.value


@pytest.mark.parametrize("error", [real_failure(), torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
async def test_running_out_frees_what_is_kept_and_the_next_question_is_fine(
    desk: Desk, shelf: PretendShelf, error: BaseException
) -> None:
    with pytest.raises(errors.OutOfMemory) as refused:
        await desk.ask("a", None, raising(error))
    assert refused.value.available == 100
    assert shelf.models["a"].kept.cleared == 1
    assert await desk.ask("a", None, said("fine", cost=100)) == b'{"text":"fine"}'


def test_a_real_failure_tells_how_much_was_wanted() -> None:
    assert ran_out(real_failure())
    assert not ran_out(RuntimeError("shapes do not match"))


def test_there_is_memory_here() -> None:
    assert 2**20 < available("cpu") < 2**62
