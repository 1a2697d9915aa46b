"""The heads instrument."""

from fastapi import APIRouter, Response

from backend.models import attention as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import HeadsAnswer, HeadsAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/heads", response_model=HeadsAnswer)
async def heads(ask: HeadsAsk, asker: Asker) -> Response:
    """The statistics of every head, without the maps."""
    return await asker.answered("heads", ask, instrument.heads, instrument.heads_bytes)
