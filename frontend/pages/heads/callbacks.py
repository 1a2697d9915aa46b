"""The heads page's question: the statistics of every head, as figure 1 and as a table."""

from asyncio import gather
from typing import Any

import plotly.graph_objects as go
from dash import ClientsideFunction, Input, Output, State, clientside_callback

from backend.schema import HeadsAsk, TokensAnswer, TokensAsk, View
from frontend.figures.heads import by_layer
from frontend.pages.heads import ids
from frontend.parts.asking import client
from frontend.parts.client_code import client_call
from frontend.parts.panel import Asked, asked_by, heard, theme_of
from frontend.parts.shelf import card_of
from frontend.parts.transformers_code import transformers_script


@asked_by(ids.ASK, ids.ANSWER, ids.NOTICE, ids.FIGURE)
async def show_heads(asked: Asked, theme: str | None, tab: str | None) -> tuple[go.Figure, dict[str, Any], None]:
    """The figure of the chosen statistic; the table is filled in the browser from the answer."""
    answer = await client(tab).raw(HeadsAsk(view=View.model_validate(asked["view"])))
    chosen = tuple((head["layer"], head["head"]) for head in asked["heads"])
    wanted = {name: asked[name] for name in ("statistic", "normalised", "side")}
    return by_layer(answer, **wanted, chosen=chosen, theme=theme_of(theme)), answer, None


@asked_by(ids.CODE_ASK, ids.CODE, ids.CODE_NOTICE, by_tab=False)
async def show_code(asked: Asked) -> tuple[dict[str, str], None]:
    """The same numbers from Python: by our client, and with plain transformers."""
    ask, asking = HeadsAsk(view=View.model_validate(asked["view"])), client(None)
    answer, shelf = await gather(asking.raw(TokensAsk(view=ask.view, scores=False)), asking.models())
    tokens = TokensAnswer.model_validate(answer)
    card = card_of(shelf, ask.view)
    script = transformers_script(ask.view, tokens, card=card, statistic=asked["statistic"])
    return {"client": client_call(ask, asked["origin"]), "transformers": script}, None


clientside_callback(
    ClientsideFunction("heads", "start"), Output(ids.STARTED, "data"), Input(ids.PAGE, "id"), State(ids.PRINTED, "data")
)
heard("heads", {"answer": ids.ANSWER, "code": ids.CODE})
clientside_callback(ClientsideFunction("heads", "picked"), Input(ids.FIGURE, "clickData"), prevent_initial_call=True)
