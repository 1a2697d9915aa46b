"""Writing with ratios over the API: streamed and whole say the same; whoever leaves frees every row, followers too."""

import asyncio
import time
from contextlib import aclosing
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from fastapi import FastAPI

from backend.models import forward
from backend.schema import ResidualAdd, Sampling, Steer, View
from backend.settings import Settings
from lmscope.client import AsyncClient
from lmscope.refused import Refused
from lmscope.storing import direction
from lmscope.storing import steer as packed

DICE = np.random.default_rng(2)


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


@pytest.fixture
async def asking(app: FastAPI, shelf, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shelf.tiny["tiny-llama"], "vectors", app.state.house.vectors)
    async with AsyncClient(app=app, tab=str(uuid4())) as client:
        yield client


@pytest.fixture
async def view(asking: AsyncClient) -> View:
    """A steer and a direction: two sides, each with a line that follows it."""
    steer = await asking.keep(packed("kind", DICE.normal(size=(32, 2)), DICE.normal(size=(2, 32)) / 32, ""))
    up = await asking.keep(direction("up", DICE.normal(size=32), ""))
    edits = (Steer(steer=steer.id, by=1), ResidualAdd(layer=1, vector=up.id, by=2))
    return View(model="tiny-llama", text="The cat sat", edits=edits, compare=True, sampling=Sampling(tokens=110))


def short(view: View, **how) -> View:
    return view.model_copy(update={"sampling": Sampling(tokens=6, **how)})


async def test_streamed_and_whole_say_the_same(asking: AsyncClient, view: View):
    whole = await asking.write(short(view), ratio=True)
    told = [event async for event in asking.write_stream(short(view), ratio=True)]
    for name, side in (("edited", whole.edited), ("unedited", whole.unedited)):
        streamed = [event.token.ratio for event in told if event.kind == "token" and event.side == name]
        assert streamed == [token.ratio for token in side.tokens]
        assert None not in streamed
    plain = await asking.write(short(view))
    assert {token.ratio for token in plain.edited.tokens} == {None}


async def freed(lane: Any, steps: list[int]) -> int:
    """Waits until the lane writes nothing; how many steps it took from now."""
    before = len(steps)
    for _ in range(3000):
        if not lane.written:
            return len(steps) - before
        await asyncio.sleep(0.01)
    raise AssertionError("it is still writing")


async def stopped(asking: AsyncClient, view: View) -> None:
    """Press Stop at the second token."""
    async for event in asking.write_stream(view, ratio=True):
        if event.kind == "token":
            await asking.stop()


async def test_whoever_leaves_frees_every_row(
    app: FastAPI, asking: AsyncClient, view: View, monkeypatch: pytest.MonkeyPatch
):
    """A closed tab and a stopped one: long before the 110 tokens are written, the lane writes nothing any more."""
    run, steps = forward.run, list[int]()

    def counted(loaded, ids, *args, **options):
        steps.append(len(ids))
        time.sleep(0.02)  # as long as a real model: who leaves has time to be heard before the text ends
        return run(loaded, ids, *args, **options)

    monkeypatch.setattr(forward, "run", counted)
    async with aclosing(asking.write_stream(view, ratio=True)) as events:
        for _ in range(4):
            await anext(events)
        (lane,) = app.state.house.desk._lanes
        assert [work.question.rows for work in lane.written] == [4]
    await freed(lane, steps)
    assert len(steps) < 100
    assert set(steps) == {4}, "both sides, and a line that follows each"
    steps.clear()
    with pytest.raises(Refused) as refused:
        await stopped(asking, view)
    assert refused.value.problem.type == "cancelled"
    assert await freed(lane, steps) < 50
    assert len(steps) < 100
    assert (await asking.write(short(view), ratio=True)).unedited is not None
