"""What a thousand questions leave behind, failures and cancels among them; `test_people` gives it a process."""

import asyncio
import gc
import random
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
import torch
from fastapi import FastAPI

from backend import errors
from backend.models import attention, tokens
from backend.models.memory import give_back
from backend.schema import View
from lmscope.client import AsyncClient
from lmscope.refused import Refused
from tests.whole.test_people import EDITS, TEXTS, asks, forget, nothing_kept  # noqa: F401  (a fixture)


class Fault(Exception):
    """What a bug raises."""


def hooks_of(model: torch.nn.Module) -> list[tuple[str, int]]:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [(name, sum(len(getattr(module, kind)) for kind in kinds)) for name, module in model.named_modules()]


def bits_of(model: torch.nn.Module) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


async def idle(app: FastAPI) -> None:
    """Until no question waits or runs, those included that nobody waits for."""
    desk = app.state.house.desk
    while desk.asking() or any(lane._busy for lane in desk._lanes):
        await asyncio.sleep(0.005)


async def left(app: FastAPI, name: str) -> tuple[Counter[str], int]:
    """What is there when nobody asks: things of ours by kind with bytes of tensors, and the process's bytes."""
    await idle(app)
    await forget(app, [name])
    give_back()
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, torch.Tensor):
            found["bytes of tensors"] += thing.nbytes
        elif str(kind.__module__).startswith(("backend.desk.", "backend.models.", "lmscope.")):
            found[f"{kind.__module__}.{kind.__qualname__}"] += 1
    return found, int(psutil.Process().memory_info().rss)


def failing(cancel: Any, fault: Exception, after: int) -> Any:
    """A cancel check that fails in the middle of the model's layers."""
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise fault
        cancel()

    return check


async def test_nothing_is_left_after_1000_questions_with_failures_and_cancels_among_them(
    app: FastAPI, client: AsyncClient, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mix, name, house = random.Random(11), str(folders["llama"]), app.state.house
    await client.tokens(View(model=name, text=TEXTS[0]))
    with house.shelf.lease(name) as loaded:
        ids = torch.tensor([[0, 5, 6, 7]])
        with torch.inference_mode():
            before = loaded.model(ids).logits.numpy().tobytes()
        hooks, bits = hooks_of(loaded.model), bits_of(loaded.model)
    faults: list[Exception] = []

    def faulty(answer: Any) -> Any:
        def run(loaded: Any, ask: Any, limits: Any, cancel: Any) -> Any:
            fault = faults.pop() if faults else None
            return answer(loaded, ask, limits, cancel if fault is None else failing(cancel, fault, mix.randrange(4)))

        return run

    for module, instrument in ((tokens, "answer"), (attention, "overview"), (attention, "heads"), (attention, "head")):
        monkeypatch.setattr(module, instrument, faulty(getattr(module, instrument)))

    async def one(number: int) -> str:
        view = View(model=name, text=f"{mix.choice(TEXTS)} {number % 10}", edits=mix.choice(EDITS))
        ask = mix.choice(asks(client.with_tab(str(uuid4())), view))
        what = number % 5
        if what == 0:
            faults.append(MemoryError() if number % 50 == 0 else mix.choice([Fault(), RuntimeError("shape")]))
        task = asyncio.create_task(ask())
        if what == 1:
            await asyncio.sleep(mix.random() * 0.004)
            task.cancel()
        (answer,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(answer, Refused):
            return str(answer.problem.type)
        return type(answer).__name__

    outcomes: list[str] = []
    memory = []
    for round in range(100):
        outcomes += await asyncio.gather(*(one(round * 10 + number) for number in range(10)))
        if round in (29, 99):
            memory.append(await left(app, name))
    assert {"broken", "out-of-memory", "CancelledError"} <= set(outcomes)
    assert len(outcomes) == 1000
    faults.clear()
    with house.shelf.lease(name) as loaded:
        with torch.inference_mode():
            assert loaded.model(ids).logits.numpy().tobytes() == before
        assert hooks_of(loaded.model) == hooks
        assert bits_of(loaded.model) == bits
    (things, early), (more, late) = memory
    assert more - things == Counter(), "things that were not there after 300 questions"
    assert late - early < 0.01 * early, (early, late)
    card = next(card for card in (await client.models()).models if card.name == name)
    assert card.in_use == 0
    assert errors.Broken.type in outcomes
