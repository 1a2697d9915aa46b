"""The trace page's questions: the lens (first its last row and focused column), a tracked token, the same as Python."""

from asyncio import gather
from typing import Any

import plotly.graph_objects as go
from dash import ClientsideFunction, Input, Output, State, clientside_callback

from backend.schema import TokensAsk, TraceAsk
from frontend.figures.trace import lens_grid, tracked
from frontend.pages.trace import ids
from frontend.parts.asking import client
from frontend.parts.client_code import CALLS, client_call, client_calls
from frontend.parts.panel import Asked, asked_by, heard, theme_of


@asked_by(ids.ASK, ids.ANSWER, ids.NOTICE, ids.FIGURE)
async def show_lens(asked: Asked, theme: str | None, tab: str | None) -> tuple[go.Figure, dict[str, Any], None]:
    """The grid as far as it was asked for, and the answer for the table and the open cell."""
    ask = TraceAsk.model_validate(asked["ask"])
    # The strip asks for the same tokens in the name of the tab; asked by nobody, neither takes the other's place.
    answer, tokens = await gather(client(tab).raw(ask), client(None).raw(TokensAsk(view=ask.view, scores=False)))
    figure = lens_grid(answer, tokens["tokens"], **asked["drawn"], theme=theme_of(theme))
    return figure, {"answer": answer, "part": ask.part, "turn": asked["turn"]}, None


@asked_by(ids.COLUMN_ASK, ids.COLUMN, ids.COLUMN_NOTICE, ids.TRACKED)
async def show_tracked(asked: Asked, theme: str | None, tab: str | None) -> tuple[go.Figure, dict[str, Any], None]:
    """One token through the rows of the focused column; the others of the question can be chosen next."""
    answer = await client(tab).raw(TraceAsk.model_validate(asked["ask"]))
    figure = tracked(answer, asked["id"], theme=theme_of(theme))
    return figure, {"answer": answer, "turn": asked["turn"]}, None


@asked_by(ids.CODE_ASK, ids.CODE, ids.CODE_NOTICE, by_tab=False)
async def show_code(asked: Asked) -> tuple[dict[str, str], None]:
    """The same numbers from Python, by our client: the lens, or what another panel asked, in order."""
    if trace := asked["asks"].get("trace"):
        return {"client": client_call(TraceAsk.model_validate(trace[0]), asked["origin"])}, None
    asks = [CALLS[name].form.model_validate(each) for name, given in asked["asks"].items() for each in given]
    return {"client": client_calls(asks, asked["origin"])}, None


clientside_callback(
    ClientsideFunction("trace", "start"), Output(ids.STARTED, "data"), Input(ids.PAGE, "id"), State(ids.PRINTED, "data")
)
heard("trace", {"answer": ids.ANSWER, "column": ids.COLUMN, "code": ids.CODE})
clientside_callback(ClientsideFunction("trace", "picked"), Input(ids.FIGURE, "clickData"), prevent_initial_call=True)
