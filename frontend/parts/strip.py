"""The token strip's two questions: the tokens at once, how well the model foresaw them when it has run."""

from typing import Any

from backend.schema import TokensAsk, View
from frontend.parts import ids
from frontend.parts.asking import client
from frontend.parts.panel import Asked, asked_by


@asked_by(ids.QUESTION, ids.STRIP_TOKENS, ids.STRIP_NOTICE)
async def show_tokens(question: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """The text as the model sees it."""
    return await _tokens(question, tab, scores=False), None


@asked_by(ids.QUESTION, ids.STRIP_SCORES, ids.SCORES_NOTICE)
async def show_scores(question: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Surprisal, rank, probability and entropy of every token."""
    return await _tokens(question, tab, scores=True), None


async def _tokens(question: Asked, tab: str | None, scores: bool) -> dict[str, Any]:
    return await client(tab).raw(TokensAsk(view=View.model_validate(question), scores=scores))
