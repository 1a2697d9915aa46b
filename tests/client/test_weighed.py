"""Weights through every client: the typed one, the blocking one, and in numpy with tables and figures."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backend.models import weight_lookup, weight_vectors, weights
from backend.schema import (
    ConceptAsk,
    Filters,
    HeadWeightsAsk,
    Limits,
    LineAsk,
    OverlapsAsk,
    PairsAsk,
    SubheadsAsk,
)
from lmscope import blocking, notebook
from lmscope.client import AsyncClient
from tests import tiny
from tests.client.stand_in import StandIn

LOADED = tiny.Once()


def answer(method: Callable[..., Any], ask: Any) -> Any:
    return method(LOADED["llama"], ask, Limits())


@pytest.fixture
def server() -> StandIn:
    server = StandIn()

    @server.app.post("/api/v1/weights/pairs")
    async def pairs(ask: PairsAsk) -> Any:
        return answer(weights.pairs, ask)

    @server.app.post("/api/v1/weights/line")
    async def line(ask: LineAsk) -> Any:
        return answer(weights.line, ask)

    @server.app.post("/api/v1/weights/subheads")
    async def subheads(ask: SubheadsAsk) -> Any:
        return answer(weight_vectors.subheads, ask)

    @server.app.post("/api/v1/weights/head")
    async def head(ask: HeadWeightsAsk) -> Any:
        return answer(weights.head, ask)

    @server.app.post("/api/v1/weights/overlaps")
    async def overlaps(ask: OverlapsAsk) -> Any:
        return answer(weight_vectors.overlaps, ask)

    @server.app.post("/api/v1/weights/lookup")
    async def lookup(ask: ConceptAsk) -> Any:
        return weight_lookup.lookup(LOADED["llama"], ask, Limits())

    return server


@pytest.fixture
def numpy(server: StandIn) -> Iterator[notebook.Client]:
    with notebook.Client(app=server.app) as client:
        yield client


async def test_each_question_is_one_method_with_a_typed_answer(server: StandIn) -> None:
    head = {"model": "m", "layer": 1, "head": 2}
    async with AsyncClient(app=server.app) as client:
        filters = Filters(letters=True, apart="words")
        found = await client.pairs("m", "1.2", "qk", filters=filters, top=7, distance=3, sign="lowest")
        ask = PairsAsk(**head, circuit="qk", filters=filters, top=7, distance=3, sign="lowest")
        assert found == answer(weights.pairs, ask)
        assert await client.line("m", (1, 2), 30, line="column") == answer(
            weights.line, LineAsk(**head, token=30, line="column")
        )
        assert await client.subheads("m", "1.2", "o", top=3) == answer(
            weight_vectors.subheads, SubheadsAsk(**head, part="o", top=3)
        )
        assert await client.head_weights("m", "1.2") == answer(weights.head, HeadWeightsAsk(**head))
        assert await client.overlaps("m", 1, k=9) == answer(
            weight_vectors.overlaps, OverlapsAsk(model="m", layer=1, k=9)
        )
        ask_concept = ConceptAsk(model="m", words=("the", "cat"), limit=3, among=("o", "k"))
        assert await client.concept("m", ["the", "cat"], limit=3, among=["o", "k"]) == weight_lookup.lookup(
            LOADED["llama"], ask_concept, Limits()
        )
        assert await client.raw(ask) == found.model_dump(mode="json")


def test_the_blocking_client_answers_the_same(server: StandIn) -> None:
    with blocking.Client(app=server.app) as client:
        assert client.pairs("m", "1.2", twin=4).twin == 4
        assert len(client.line("m", "1.2", "the").lines) >= 1
        assert client.subheads("m", "1.2").of == 8
        assert client.head_weights("m", "1.2").groups == 2
        assert client.overlaps("m", 0).units == 48
        assert len(client.concept("m", ["the"]).groups) == 6


def test_weights_in_numpy_have_arrays_tables_and_figures(numpy: notebook.Client) -> None:
    pairs = numpy.pairs("m", "1.2", top=6)
    assert pairs.score.tolist() == [pair.score for pair in pairs.answer.pairs]
    assert pairs.table()[0]["column"] == pairs.columns[0] == pairs.answer.words[str(pairs.column_ids[0])]
    assert len(pairs.figure().data[0].x) == 6
    line = numpy.line("m", "1.2", 30, top=4)
    assert (len(line.table()), len(line.figure().data[0].x)) == (8, 8)
    assert line.highest[0][0] == line.table()[0]["word"]
    subheads = numpy.subheads("m", "1.2", count=3)
    assert len(subheads.table()) == len(subheads.figure().data[0].x) == 3
    head = numpy.head_weights("m", "1.2")
    assert head.singular_vo.shape == (8,)
    np.testing.assert_allclose(head.figure().data[0].y, head.score)
    overlaps = numpy.overlaps("m", 1, k=20, least=0.0, limit=5)
    assert overlaps.jaccard.shape == (48,)
    assert overlaps.overlap[0] == overlaps.jaccard.max()
    assert len(overlaps.table()) == len(overlaps.figure().data[0].x) == 5
    concept = numpy.concept("m", ["the"], limit=2)
    assert len(concept.table()) == len(concept.vectors) == len(concept.figure().data[0].x) == 12
    assert (concept.table()[4]["among"], concept.vectors[4][:3], concept.vectors[6][:3]) == ("v", "W_V", "W_O")
    assert concept.vectors[0].startswith("L")
