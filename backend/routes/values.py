"""The values instrument: feed-forward units in the model's vocabulary."""

from fastapi import APIRouter, Response

from backend.models import fires as firing
from backend.models import values as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import (
    FiresAnswer,
    FiresAsk,
    LookupAnswer,
    LookupAsk,
    SearchAnswer,
    SearchAsk,
    ValueAnswer,
    ValueAsk,
)

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/values", response_model=ValueAnswer)
async def value(ask: ValueAsk, asker: Asker) -> Response:
    """One value: its words at both ends, what its unit reads, and values like it."""
    return await asker.answered("values", ask, instrument.value, instrument.value_bytes)


@router.post("/values/fires", response_model=FiresAnswer)
async def fires(ask: FiresAsk, asker: Asker) -> Response:
    """Where one value fires in a text: its coefficient at every token."""
    return await asker.answered("values.fires", ask, firing.fires, firing.fires_bytes)


@router.post("/values/search", response_model=SearchAnswer)
async def search(ask: SearchAsk, asker: Asker) -> Response:
    """Words in, values out: those of all layers that promote or suppress them most."""
    return await asker.answered("values.search", ask, instrument.search, instrument.search_bytes)


@router.post("/values/lookup", response_model=LookupAnswer)
async def lookup(ask: LookupAsk, asker: Asker) -> Response:
    """The values or keys near a concept that some words name."""
    return await asker.answered("values.lookup", ask, instrument.lookup, instrument.lookup_bytes)
