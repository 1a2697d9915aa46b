"""The tokens instrument."""

from fastapi import APIRouter, Response

from backend.models import tokens as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import TokensAnswer, TokensAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/tokens", response_model=TokensAnswer)
async def tokens(ask: TokensAsk, asker: Asker) -> Response:
    """The text as the model sees it, and how well the model foresaw each token."""
    # Names and scores are asked for side by side: the one must not take the other's place.
    name = "tokens" if ask.scores else "tokens.names"
    return await asker.answered(name, ask, instrument.answer, instrument.answer_bytes)
