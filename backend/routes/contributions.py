"""The contributions instrument."""

from fastapi import APIRouter, Response

from backend.models import contributions as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import ContributionsAnswer, ContributionsAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/trace/contributions", response_model=ContributionsAnswer)
async def contributions(ask: ContributionsAsk, asker: Asker) -> Response:
    """What every part of the model writes towards target minus foil, directly."""
    return await asker.answered("contributions", ask, instrument.contributions, instrument.contributions_bytes)
