"""The slider over the API and through the clients; equal questions once, a newer one instead of an older one."""

import asyncio
from uuid import uuid4

import numpy as np
import pytest
from fastapi import FastAPI

from backend.models import steer as instrument
from backend.schema import HeadScale, Steer, View
from backend.settings import Settings
from lmscope import blocking, notebook
from lmscope.client import AsyncClient
from lmscope.refused import Refused
from lmscope.steered import EvidenceInNumpy, InsideInNumpy, SteerInNumpy
from lmscope.storing import steer as packed
from tests.desk.pretend import Gate

TEXT = "The cat sat on the mat."
DICE = np.random.default_rng(1)
LEFT, RIGHT = DICE.normal(size=(32, 2)).astype("f4"), DICE.normal(size=(2, 32)).astype("f4") / 32


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


@pytest.fixture
async def asking(app: FastAPI, shelf, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shelf.tiny["tiny-llama"], "vectors", app.state.house.vectors)
    async with AsyncClient(app=app, tab=str(uuid4())) as client:
        yield client


@pytest.fixture
async def steer(asking: AsyncClient) -> str:
    return (await asking.keep(packed("kind", LEFT, RIGHT, ""))).id


def view(id: str, by: float = 1.0, *before, **options) -> View:
    return View(model="tiny-llama", text=TEXT, edits=(*before, Steer(steer=id, by=by)), **options)


async def test_the_slider_its_evidence_and_its_inside_are_answered(asking: AsyncClient, steer: str):
    answer = await asking.steer(view(steer), top=3, over="text")
    assert len(answer.base.ids) == len(answer.rose) == 3
    assert answer.kl > 0
    assert answer.kl_text is not None
    evidence = await asking.steer_evidence(view(steer), against="base", spans=2, length=3, permutations=99)
    assert evidence.ids == answer.ids
    inside = await asking.steer_inside("tiny-llama", steer, dimensions=1, top=4)
    assert (inside.rank, len(inside.dimensions), len(inside.dimensions[0].writes.highest)) == (2, 1, 4)


async def test_equal_questions_are_answered_once_and_places_are_those_of_the_own_view(
    asking: AsyncClient, steer: str, monkeypatch: pytest.MonkeyPatch
):
    made: list[int] = []
    answer = instrument.Asked.of

    def counting(*args):
        made.append(1)
        return answer(*args)

    monkeypatch.setattr(instrument.Asked, "of", counting)
    first = await asking.steer(view(steer))
    assert await asking.steer(view(steer)) == first
    assert await asking.with_tab(str(uuid4())).steer(view(steer)) == first
    assert len(made) == 1
    off = HeadScale(layer=0, head=1, by=0, on=False)
    behind = await asking.steer(view(steer, 1.0, off))
    assert (first.sliders, behind.sliders) == ((0,), (1,))
    assert behind.model_copy(update={"sliders": (0,), "forward": first.forward}) == first


async def test_a_newer_value_of_the_same_tab_replaces_the_older_one(
    app: FastAPI, asking: AsyncClient, steer: str, monkeypatch: pytest.MonkeyPatch
):
    app.state.house.desk.answers.budget_bytes = 0
    alone = await asking.with_tab(str(uuid4())).steer(view(steer, 1.1))
    gate, answer = Gate(), instrument.steer

    def held(loaded, ask, limits, cancel):
        gate.answer("")(loaded, cancel)
        return answer(loaded, ask, limits, cancel)

    monkeypatch.setattr(instrument, "steer", held)
    older = asyncio.create_task(asking.steer(view(steer, 0.4)))
    assert await asyncio.to_thread(gate.reached.wait, 60)
    newer = asyncio.create_task(asking.steer(view(steer, 1.1)))
    with pytest.raises(Refused) as refused:
        await older
    assert refused.value.problem.type == "replaced"
    gate.open.set()
    assert (await newer).model_copy(update={"forward": alone.forward}) == alone


async def test_two_people_never_see_each_others_sliders(app: FastAPI, asking: AsyncClient, steer: str):
    app.state.house.desk.answers.budget_bytes = 0
    values = [-2.0, 0.0, 0.5, 3.0]
    people = [asking.with_tab(str(uuid4())) for _ in values]
    alone = [await one.steer(view(steer, by)) for one, by in zip(people, values, strict=True)]
    together = await asyncio.gather(*(one.steer(view(steer, by)) for one, by in zip(people, values, strict=True)))
    for one, other in zip(alone, together, strict=True):
        assert one.model_copy(update={"forward": False}) == other.model_copy(update={"forward": False})


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda client, id: client.steer(view("0" * 64)), "stays on the server"),
        (lambda client, id: client.steer(view(id), token=999), "tokens, counted from 0"),
        (lambda client, id: client.steer_inside("tiny-llama", "0" * 64), "stays on the server"),
    ],
)
async def test_what_cannot_be_asked_is_refused_in_words(asking: AsyncClient, steer: str, ask, said: str):
    with pytest.raises(Refused) as refused:
        await ask(asking, steer)
    assert said in refused.value.problem.why
    assert refused.value.problem.instead


async def test_the_blocking_clients_and_the_notebook_answer_the_same(asking: AsyncClient, steer: str):
    answer = await asking.steer(view(steer), top=4)
    evidence = await asking.steer_evidence(view(steer), against="base")
    inside = await asking.steer_inside("tiny-llama", steer, top=3)
    stand_in = FastAPI()
    for path, given in (("", answer), ("/evidence", evidence), ("/inside", inside)):
        stand_in.post(f"/api/v1/steer{path}")(lambda given=given: given)

    def blocked() -> None:
        with blocking.Client(app=stand_in) as client:
            assert client.steer(view(steer), top=4) == answer
            assert client.steer_inside("tiny-llama", steer) == inside
            assert client.steer_evidence(view(steer), against="base").spans == evidence.spans
        with notebook.Client(app=stand_in) as client:
            check_numpy(client.steer(view(steer)), client.steer_evidence(view(steer)), client.steer_inside("m", steer))

    await asyncio.to_thread(blocked)


def check_numpy(slider: SteerInNumpy, evidence: EvidenceInNumpy, inside: InsideInNumpy) -> None:
    """The numbers of tables and figures are those of the answers."""
    assert slider.shares.shape == (len(slider.likely), 1)
    np.testing.assert_allclose(slider.shares[:, 0], slider.logit, atol=1e-4)
    assert (np.diff(slider.base[:4]) <= 0).all()
    assert [row["word"] for row in slider.table()][: len(slider.likely)] == list(slider.likely)
    assert list(slider.figure().data[1].x) == pytest.approx(slider.steered.tolist())
    assert len(slider.shares_figure(theme="dark").data) == 1
    assert evidence.table()[0]["evidence"] is None
    marked = {row["position"] for row in evidence.table() if row["span"] is not None}
    colours = evidence.figure().data[0].marker.color
    assert {place for place, colour in enumerate(colours) if colour != colours[0]} == marked
    assert len(inside.figure().data[0].x) == len(inside.scattered) == len(inside.scatter)
    assert [len(words) for both in inside.writes for words in both] == [3, 3, 3, 3]
    assert "rank 2" in inside._repr_html_()
