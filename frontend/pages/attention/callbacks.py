"""The attention page's three questions: all heads, one head, and the same as Python."""

from asyncio import gather
from typing import Any

from dash import ClientsideFunction, Input, Output, State, clientside_callback

from backend.schema import HeadAsk, OverviewAsk, TokensAnswer, TokensAsk, View
from frontend.pages.attention import ids
from frontend.pages.attention.drawn import drawn
from frontend.parts import ids as shell
from frontend.parts.asking import client
from frontend.parts.client_code import client_call
from frontend.parts.panel import Asked, asked_by, heard
from frontend.parts.shelf import card_of
from frontend.parts.transformers_code import transformers_script


@asked_by(shell.QUESTION, ids.OVERVIEW, ids.OVERVIEW_NOTICE, at_once=True)
async def show_grid(question: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Every head of the view; the answer goes to the canvas as it came."""
    return await client(tab).raw(OverviewAsk(view=View.model_validate(question))), None


@asked_by(ids.ASK, ids.HEAD, ids.HEAD_NOTICE)
async def show_head(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """One head, or the mean of several, and the tokens that name its axes."""
    ask = HeadAsk.model_validate(asked)
    # The strip asks for the same tokens in the name of the tab; asked by nobody, neither takes the other's place.
    answer, tokens = await gather(client(tab).raw(ask), client(None).raw(TokensAsk(view=ask.view, scores=False)))
    return drawn(answer, tokens["tokens"]), None


@asked_by(ids.CODE_ASK, ids.CODE, ids.CODE_NOTICE, by_tab=False)
async def show_code(asked: Asked) -> tuple[dict[str, str], None]:
    """The same numbers from Python: by our client, and with plain transformers."""
    ask, asking = HeadAsk.model_validate(asked["ask"]), client(None)
    answer, shelf = await gather(asking.raw(TokensAsk(view=ask.view, scores=False)), asking.models())
    tokens = TokensAnswer.model_validate(answer)
    card = card_of(shelf, ask.view)
    wanted = {"heads": ask.heads, "statistic": asked["statistic"], "query": asked["query"]}
    script = transformers_script(ask.view, tokens, card=card, **wanted)
    return {"client": client_call(ask, asked["origin"]), "transformers": script}, None


clientside_callback(
    ClientsideFunction("attention", "start"),
    Output(ids.STARTED, "data"),
    Input(ids.PAGE, "id"),
    State(ids.PRINTED, "data"),
)
heard("attention", {"grid": ids.OVERVIEW, "head": ids.HEAD, "code": ids.CODE})
clientside_callback(
    ClientsideFunction("attention", "zoomed"), Input(ids.MAP, "relayoutData"), prevent_initial_call=True
)
clientside_callback(ClientsideFunction("attention", "picked"), Input(ids.MAP, "clickData"), prevent_initial_call=True)
