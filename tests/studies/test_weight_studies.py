"""Every family that opens answers the studies of weights, or says in words why it does not."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch

from backend import errors
from backend.measure import circuits as measure
from backend.measure import intervals, keep
from backend.models import circuits, weight_vectors
from backend.models.kept_answers import KeptAnswers
from backend.models.matrices import VectorsOf, vectors_of
from backend.models.sets import Sets
from backend.schema import (
    ActiveAsk,
    ActiveStudy,
    HeadSummaries,
    HeadTables,
    KeepAsk,
    KeepStudy,
    Limits,
    SetAsk,
    SimilarityAsk,
    SimilarityStudy,
    SubheadsAsk,
    SummariesAsk,
    TablesAsk,
)
from backend.studies import active, head_tables, keeping, similarity
from lmscope.answers import numbers
from tests import families, tiny
from tests.studies.direct import Direct, Reported, Shelves

TEXTS = ("The cat sat on the mat, and the dog barked at the cat.", "Off with her head! said the Queen.")


@pytest.fixture
def shelves(tmp_path, monkeypatch) -> Shelves:
    for module in (intervals, keep):
        monkeypatch.setattr(module, "RESAMPLES", 20)
    sets = Sets(tmp_path)
    return Shelves(sets=sets, kept=KeptAnswers(tmp_path), small=sets.keep(SetAsk(name="small", texts=TEXTS)).id)


async def told(check: Any, study: Any, form: Any, kind: str, ask: Any, shelves: Shelves) -> Any:
    """The answer, or the refusal, which comes before any number is measured and says why."""
    loaded = families.opened(kind)
    try:
        check(loaded, ask, shelves, lambda: None)
    except errors.CannotShow as refusal:
        assert refusal.what and refusal.why  # noqa: PT017, PT018 - any refusal will do, if it speaks
        return refusal
    return form.model_validate(await study(Direct(loaded), ask, shelves, Reported()))


def within(kind: str, name: str, found: Any) -> None:
    """All means are shares with their intervals around them."""
    for point in found.points:
        for each in (point.own, getattr(point, "random", None) or point.shuffled):
            assert 0 <= each.low <= each.mean <= each.high <= 1, (kind, name, point)


@pytest.mark.parametrize("kind", families.OPENED)
async def test_a_family_answers_or_refuses_in_words(kind, shelves):
    name = f"tiny-{kind}"
    layers = families.opened(kind).anatomy.shape.layers
    reading = "raw" if families.FAMILIES[kind].reads_both_ways else "folded"
    asked = SimilarityAsk(model=name, reading=reading, k=9, count=8)
    found = await told(similarity.check, similarity.study, SimilarityStudy, kind, asked, shelves)
    if not isinstance(found, errors.CannotShow):
        within(kind, reading, found)
        measured = {f"{point.pairing} {point.layer}" for point in found.points}
        for pairing in asked.pairings:
            at = range(layers) if pairing == "keys_values" else families.FAMILIES[kind].layers
            assert all({pairing, f"{pairing} {layer}"} & (measured | set(found.why)) for layer in at)
    ask = ActiveAsk(model=name, reading=reading, k=9, active=2, set=shelves.small)
    found = await told(active.check, active.study, ActiveStudy, kind, ask, shelves)
    if not isinstance(found, errors.CannotShow):
        within(kind, reading, found)
        assert {point.group for point in found.points} | set(found.why) == set(ask.groups)
    tables = TablesAsk(model=name, reading=reading, top=5)
    found = await told(head_tables.check_tables, head_tables.tables, HeadTables, kind, tables, shelves)
    refused = isinstance(found, errors.CannotShow)
    summed = SummariesAsk(model=name, reading=reading, top=5)
    heads = await told(head_tables.check_summaries, head_tables.summaries, HeadSummaries, kind, summed, shelves)
    assert isinstance(heads, errors.CannotShow) == refused
    if not refused:
        _numbers_are_those_of_each_head(kind, found, heads)
    ask = KeepAsk(model=name, count=8, ks=(9,), set=shelves.small)
    found = await told(keeping.check, keeping.study, KeepStudy, kind, ask, shelves)
    if not isinstance(found, errors.CannotShow):
        assert {curve.vectors for curve in found.curves} | set(found.why) == set(ask.vectors)
        assert all(0 < curve.points[0].cosine.mean <= 1 for curve in found.curves)


def _numbers_are_those_of_each_head(kind: str, tables: HeadTables, heads: HeadSummaries) -> None:
    """By the whole map of the stream, the vectors of all tokens, and the tables' lists of pairs."""
    loaded = families.opened(kind)
    layer, head, same = (numbers(part) for part in (tables.layer, tables.head, tables.same))
    assert set(map(str, heads.layers)) == set(map(str, layer.tolist())) | set(tables.why)
    for place in (0, len(layer) - 1):
        at = heads.layers.index(layer[place]), head[place]
        made = circuits.table(loaded, "vo", layer[place].item(), head[place].item(), heads.reading)
        map_DD = made.rows.map_KD.double().T @ made.columns.map_KD.double()
        values = np.linalg.svd(map_DD, compute_uv=False)
        copying = measure.copying(made.rows.vectors(), made.columns.vectors())
        assert numbers(heads.largest)[at] == pytest.approx(values[0], rel=1e-5)
        assert numbers(heads.first)[at] == pytest.approx(values[0] ** 2 / (values**2).sum(), rel=1e-5)
        assert numbers(heads.copying)[at] == pytest.approx(copying, abs=1e-4)
        assert numbers(heads.same)[at] == pytest.approx(same[place] / 5)


PARTS: dict[str, VectorsOf] = {
    "v": "attention_values", "o": "attention_outputs", "q": "queries", "k": "attention_keys",
}  # fmt: skip


@pytest.mark.parametrize("kind", families.OPENED)
def test_the_words_of_a_heads_vectors_are_those_of_its_coordinates(kind):
    loaded, layer = families.opened(kind), families.FAMILIES[kind].layers[-1]
    heads = loaded.anatomy.shape.heads
    for part, name in PARTS.items():
        for reading in ("raw", "folded"):
            with suppress(errors.CannotShow):
                vectors = vectors_of(loaded, name, layer, reading)
                each = len(vectors.rows_ND) // heads
                for head in (0, heads - 1):
                    ask = SubheadsAsk(model="x", layer=layer, head=head, part=part, reading=reading, count=each, top=6)
                    expected = [one.ends.highest for one in weight_vectors.subheads(loaded, ask, Limits()).subheads]
                    words_Nk = vectors.words("promoted", 6, torch.arange(head * each, (head + 1) * each))
                    assert list(map(tuple, words_Nk.tolist())) == expected, (part, reading, head)


class Counting(Direct):
    """Keeps how many vectors each question read in words."""

    def __init__(self, loaded: Any) -> None:
        super().__init__(loaded)
        self.asked = 0

    async def ask(self, answer: Any, cost: Any) -> Any:
        self.asked += 1
        return await super().ask(answer, cost)


@pytest.mark.parametrize(
    ("study", "ask", "questions"),
    [
        (keeping.study, KeepAsk(model="x", vectors=("normal", "values"), ks=(9,), count=30), 60),
        (similarity.study, SimilarityAsk(model="x", k=9, count=30), 200),
        (active.study, ActiveAsk(model="x", k=9, active=2), 60),
    ],
)
async def test_a_study_s_step_is_parted_into_questions_with_the_same_numbers(
    study, ask, questions, shelves, monkeypatch, tmp_path
):  # fmt: skip
    """Five vectors a question, so that another person's question gets in between, whatever the study's count is."""
    loaded, more = tiny.loaded("gpt2"), {} if isinstance(ask, SimilarityAsk) else {"set": shelves.small}
    ask = ask.model_copy(update=more)
    whole, once = await study(counting := Counting(loaded), ask, shelves, Reported()), counting.asked
    for module in ("keeping", "similarity", "active"):
        monkeypatch.setattr(f"backend.models.{module}.rows_in", lambda block_bytes, vocabulary: 5)
    monkeypatch.setattr(keeping, "MULTIPLIED", 5 * 30 * loaded.anatomy.shape.vocabulary)
    shelves.kept = KeptAnswers(tmp_path / "other")
    parted = await study(counting := Counting(loaded), ask, shelves, Reported())
    assert counting.asked >= questions > once
    assert _near(parted, whole)


def _near(one: Any, other: Any) -> bool:
    """Equal, but for the last bits of numbers: tiny products of other shapes are added up in another order."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_near, one, other))
    return bool(one == (pytest.approx(other, rel=1e-5) if isinstance(one, float) else other))
