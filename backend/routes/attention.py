"""The attention instrument: every head at a glance, and one head exactly."""

from fastapi import APIRouter, Response

from backend.models import attention as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import HeadAnswer, HeadAsk, Overview, OverviewAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/attention", response_model=Overview)
async def attention(ask: OverviewAsk, asker: Asker) -> Response:
    """Every head of a view: a reduced map and all statistics, each beside its value under uniform attention."""
    return await asker.answered("attention", ask, instrument.overview, instrument.overview_bytes)


@router.post("/attention/head", response_model=HeadAnswer)
async def head(ask: HeadAsk, asker: Asker) -> Response:
    """One head, or the mean of several: exact values, strongest links, and the entropy of each row."""
    return await asker.answered("attention/head", ask, instrument.head, instrument.head_bytes)
