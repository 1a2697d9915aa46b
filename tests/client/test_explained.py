"""A cell, contributions and the switch in a notebook: arrays, words, tables and figures of real answers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI

from backend.models import cell, contributions, switch
from backend.schema import CellAsk, ContributionsAsk, Explain, FfnSet, HeadScale, Limits, SwitchAsk, View
from lmscope.blocking import Client as Typed
from lmscope.notebook import CellInNumpy, Client, ContributionsInNumpy
from tests import tiny

VIEW = View(model="tiny-gpt2", text="The cat sat on the mat, and the dog barked.")
EDITED = VIEW.model_copy(update={"edits": (HeadScale(layer=0, head=1, by=-3.0),), "compare": True})


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """The three routes over one tiny model."""
    app, loaded = FastAPI(), tiny.loaded("gpt2")

    @app.post("/api/v1/trace/cell")
    async def asked_cell(ask: CellAsk) -> Any:
        return cell.cell(loaded, ask, Limits())

    @app.post("/api/v1/trace/contributions")
    async def asked_contributions(ask: ContributionsAsk) -> Any:
        return contributions.contributions(loaded, ask, Limits())

    @app.post("/api/v1/trace/switch")
    async def asked_switch(ask: SwitchAsk) -> Any:
        return switch.switch(loaded, ask, Limits())

    return app


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[Client]:
    with Client(app=app) as client:
        yield client


def test_a_cell_comes_as_arrays_and_words(client: Client) -> None:
    answer = client.cell(VIEW, 1, 4, values=6, ends=3, top=5)
    assert isinstance(answer, CellInNumpy)
    assert (answer.answer.layer, answer.answer.token) == (1, 4)
    assert answer.coefficients.shape == (6, len(answer.ids))
    assert np.array_equal(answer.coefficients[:, 4], answer.coefficient)
    assert np.allclose(answer.magnitude, np.abs(answer.coefficient) * answer.norm)
    assert np.isfinite(answer.contribution).all()
    assert [len(words) for words in (*answer.promotes, *answer.suppresses)] == [3] * 12
    assert list(answer.before.values()) == sorted(answer.before.values(), reverse=True)
    assert len(answer.after) == 5
    assert answer.unedited is None


def test_what_is_not_defined_is_nan_in_arrays_and_empty_in_tables(client: Client) -> None:
    answer = client.cell(VIEW, 1, 2, explain=Explain(token=5), ranked="contribution", reading="raw")
    assert np.isnan(answer.contribution).all()
    assert {row["contribution"] for row in answer.table()} == {None}
    assert answer.answer.reading == "raw"


def test_contributions_come_as_arrays_that_add_up(client: Client) -> None:
    answer = client.contributions(EDITED, Explain(against="rest"), values=7)
    assert isinstance(answer, ContributionsInNumpy)
    for side in (answer.edited, answer.unedited):
        assert side is not None
        total = side.embedding + side.attention.sum() + side.feed_forward.sum() + side.rest
        assert total == pytest.approx(side.logits, abs=1e-4)
        assert (side.heads.shape, side.values.shape, len(side.units)) == ((3, 4), (7,), 7)
    assert answer.units[0].startswith("L")
    assert answer.explained.against == "rest"


def test_tables_have_a_row_for_each_part_and_each_side(client: Client) -> None:
    rows = client.contributions(EDITED, values=7).table()
    parts = [row["part"] for row in rows if row["side"] == "edited"]
    assert len(rows) == 2 * len(parts)
    assert len(parts) == 1 + 3 + 3 + 1 + 12 + 7
    assert {"embedding", "attention 0", "feed-forward 2", "rest", "head 2.3"} <= set(parts)
    cells = client.cell(EDITED, 0, values=2)
    assert [row["side"] for row in cells.table()] == ["edited"] * 2 + ["unedited"] * 2
    assert cells.csv().splitlines()[0].startswith("side,value,coefficient")


def test_each_has_its_figure(client: Client) -> None:
    opened, written = client.cell(EDITED, 1, values=4), client.contributions(EDITED)
    bars, beside = opened.figure("unedited").data
    assert len(bars.x) == len(beside.x) == 4
    assert opened.unedited is not None
    signed = opened.unedited.magnitude * np.sign(opened.unedited.coefficient)
    assert np.allclose(bars.x, signed)
    assert np.allclose(beside.x, opened.unedited.contribution)
    (alone,) = client.cell(VIEW, 1, 2, explain=Explain(token=5)).figure(theme="dark").data
    assert "promotes" in alone.customdata[0]
    attention, feed_forward = written.figure().data
    assert np.allclose(attention.y[1:-1], written.attention)
    assert np.allclose(feed_forward.y[1:-1], written.feed_forward)
    assert (attention.y[0], attention.y[-1]) == (written.embedding, written.rest)
    for answer in (client.cell(VIEW, 1), client.contributions(VIEW)):
        assert "There is no comparison" in answer.figure("unedited").to_json()  # type: ignore[attr-defined]


def test_the_switch_gives_the_edit_that_a_view_takes(client: Client, app: FastAPI) -> None:
    on, off = client.switch(VIEW, 1, 3, True), client.switch(VIEW, 1, 3, False)
    assert off.edit == FfnSet(layer=1, unit=3, to=0)
    switched = VIEW.model_copy(update={"edits": (on.edit,)})
    opened = client.cell(switched, 1, values=100)
    assert opened.coefficient[opened.units.tolist().index(3)] == pytest.approx(on.edit.to)
    with Typed(app=app) as typed:
        assert typed.switch(VIEW, 1, 3, True) == on
        assert typed.cell(VIEW, 1, values=1) == client.cell(VIEW, 1, values=1).answer
        assert typed.contributions(VIEW) == client.contributions(VIEW).answer
