"""Several people at once: each gets exactly what they would get alone, and nothing of anybody is left behind."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI

from backend.schema import Edit, FfnScale, FfnSet, HeadScale, HeadSet, ResidualSet, View
from lmscope.client import AsyncClient

TEXTS = ("The cat sat on the mat.", "Off with her head! said the Queen.")
EDITS: tuple[tuple[Edit, ...], ...] = (
    (),
    (HeadScale(layer=0, head=1, by=0),),
    (HeadScale(layer=1, head=0, by=-3), HeadSet(layer=2, head=3, to=0.5)),
    (HeadSet(layer=0, head=0, to=-1, at=(1, 2)),),
    (FfnScale(layer=1, unit=3, by=0), FfnSet(layer=0, unit=5, to=2, at=(2,))),
    (ResidualSet(layer=1, to=0.25, at=(3,)), HeadScale(layer=2, head=0, by=2)),
)


@pytest.fixture(autouse=True)
def nothing_kept(app: FastAPI) -> None:
    """Answers and attention inputs are made anew each time: else the first would be compared with itself."""
    app.state.house.desk.answers.budget_bytes = 0


def asks(client: AsyncClient, view: View) -> list[Any]:
    return [
        lambda: client.tokens(view),
        lambda: client.attention(view, cells=8),
        lambda: client.heads(view),
        lambda: client.head(view, (1, 2), token=1),
    ]


async def forget(app: FastAPI, names: list[str]) -> None:
    """Drop the attention inputs that models keep for the next click."""
    for name in names:
        with app.state.house.shelf.lease(name) as loaded:
            loaded.kept.clear()


async def interleaved(app: FastAPI, client: AsyncClient, views: list[View]) -> None:
    """Ask everything alone, then a hundred times at once and mixed, and compare byte for byte."""
    names = sorted({view.model for view in views})
    people = [(view, client.with_tab(str(uuid4()))) for view in views]
    alone: dict[tuple[int, int], str] = {}
    for number, (view, person) in enumerate(people):
        for which, ask in enumerate(asks(person, view)):
            await forget(app, names)
            alone[number, which] = (await ask()).model_dump_json()
    assert len(set(alone.values())) == len(alone), "each asks for something else"
    mix = random.Random(7)
    for _ in range(100 // len(views)):
        await forget(app, names)
        order = [(number, mix.randrange(4)) for number in range(len(people))]
        mix.shuffle(order)
        answers = await asyncio.gather(*(asks(people[n][1], people[n][0])[which]() for n, which in order))
        for key, answer in zip(order, answers, strict=True):
            assert answer.model_dump_json() == alone[key]


async def test_two_people_on_two_models(app: FastAPI, client: AsyncClient, folders: dict[str, Path]) -> None:
    views = [View(model=str(path), text=text) for path, text in zip(folders.values(), TEXTS, strict=True)]
    await interleaved(app, client, [views[0].model_copy(update={"edits": EDITS[2]}), views[1]])


async def test_two_people_on_one_model_with_different_edits(
    app: FastAPI, client: AsyncClient, folders: dict[str, Path]
) -> None:
    view = View(model=str(folders["llama"]), text=TEXTS[0])
    await interleaved(app, client, [view, view.model_copy(update={"edits": EDITS[1]})])


async def test_ten_people_on_everything(app: FastAPI, client: AsyncClient, folders: dict[str, Path]) -> None:
    views = [
        View(model=str(path), text=text, edits=edits, compare=bool(edits) and kind == "llama")
        for kind, path in folders.items()
        for text in TEXTS
        for edits in EDITS
    ]
    await interleaved(app, client, views[:10])


def test_nothing_is_left_after_1000_questions_with_failures_and_cancels_among_them() -> None:
    """In a process of its own: in this one other tests leave things, and threads take memory meanwhile."""
    alone = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(Path(__file__).with_name("remains.py")),
    ]
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(alone, env=surroundings, stdout=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
