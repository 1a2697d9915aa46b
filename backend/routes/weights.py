"""The weights instrument: what a model's matrices are in its vocabulary."""

from fastapi import APIRouter, Response

from backend.models import weight_lookup, weight_vectors
from backend.models import weights as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import (
    ConceptAnswer,
    ConceptAsk,
    HeadWeightsAnswer,
    HeadWeightsAsk,
    LineAnswer,
    LineAsk,
    OverlapsAnswer,
    OverlapsAsk,
    PairsAnswer,
    PairsAsk,
    SubheadsAnswer,
    SubheadsAsk,
)

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/weights/pairs", response_model=PairsAnswer)
async def pairs(ask: PairsAsk, asker: Asker) -> Response:
    """The largest entries of a head's W_VO or W_QK, tokens × tokens, exactly."""
    # A page asks for both, and neither replaces the other.
    name = "weights.pairs" if ask.twin is None else "weights.twin"
    return await asker.answered(name, ask, instrument.pairs, instrument.pairs_bytes)


@router.post("/weights/line", response_model=LineAnswer)
async def line(ask: LineAsk, asker: Asker) -> Response:
    """One row or column of W_VO or W_QK: what a head writes when it reads a token, what a token looks for."""
    return await asker.answered("weights.line", ask, instrument.line, instrument.line_bytes)


@router.post("/weights/subheads", response_model=SubheadsAnswer)
async def subheads(ask: SubheadsAsk, asker: Asker) -> Response:
    """The single vectors of a head's W_V, W_O, W_Q or W_K."""
    return await asker.answered("weights.subheads", ask, weight_vectors.subheads, weight_vectors.subheads_bytes)


@router.post("/weights/head", response_model=HeadWeightsAnswer)
async def head(ask: HeadWeightsAsk, asker: Asker) -> Response:
    """One head in numbers: singular values, copying score, and mean score against distance."""
    return await asker.answered("weights.head", ask, instrument.head, instrument.head_bytes)


@router.post("/weights/overlaps", response_model=OverlapsAnswer)
async def overlaps(ask: OverlapsAsk, asker: Asker) -> Response:
    """The feed-forward units of a layer whose key and value have words in common."""
    return await asker.answered("weights.overlaps", ask, weight_vectors.overlaps, weight_vectors.overlaps_bytes)


@router.post("/weights/lookup", response_model=ConceptAnswer)
async def lookup(ask: ConceptAsk, asker: Asker) -> Response:
    """Concept words in; the values, keys and single vectors of heads that are near out, group by group."""
    return await asker.answered("weights.lookup", ask, weight_lookup.lookup, weight_lookup.lookup_bytes)
