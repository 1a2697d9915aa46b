"""The token strip's two questions: the tokens at once, how well the model foresaw them when it has run."""

from typing import Any

from dash import Input, Output, State, callback

from backend.schema import TokensAsk, View
from frontend.parts import ids
from frontend.parts.asking import client
from frontend.parts.panel import Asked


@callback(
    Output(ids.STRIP_TOKENS, "data"),
    Output(ids.STRIP_NOTICE, "children"),
    Input(ids.QUESTION, "data"),
    State(ids.TAB, "data"),
    prevent_initial_call=True,
)
async def show_tokens(question: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """The text as the model sees it."""
    return await _tokens(question, tab, scores=False), None


@callback(
    Output(ids.STRIP_SCORES, "data"),
    Output(ids.SCORES_NOTICE, "children"),
    Input(ids.QUESTION, "data"),
    State(ids.TAB, "data"),
    prevent_initial_call=True,
)
async def show_scores(question: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Surprisal, rank, probability and entropy of every token."""
    return await _tokens(question, tab, scores=True), None


async def _tokens(question: Asked, tab: str | None, scores: bool) -> dict[str, Any]:
    return await client(tab).raw(TokensAsk(view=View.model_validate(question), scores=scores))
