"""The weights page's questions: a head and its tables, single vectors, keys and values, a concept; all as Python."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from dash import ClientsideFunction, Input, Output, clientside_callback

from backend.schema import (
    ConceptAsk,
    HeadWeightsAsk,
    LineAsk,
    OverlapsAsk,
    PairsAsk,
    SubheadsAsk,
    ValueAsk,
)
from frontend.figures.theme import Theme
from frontend.figures.weights import curve
from frontend.pages.weights import ids
from frontend.parts.answering import answer
from frontend.parts.client_code import CALLS, client_calls
from frontend.parts.panel import Asked, asked_by, heard


def _curve(found: Mapping[str, Any], theme: Theme) -> go.Figure:
    return curve(found, theme=theme)


answer(ids.HEAD, {"ask": HeadWeightsAsk}, _curve)
for question, form in (
    (ids.PAIRS, PairsAsk), (ids.TWIN, PairsAsk), (ids.OTHER, PairsAsk), (ids.LINE, LineAsk),
    (ids.VECTORS, SubheadsAsk), (ids.OVERLAPS, OverlapsAsk), (ids.UNIT, ValueAsk), (ids.LOOKUP, ConceptAsk),
):  # fmt: skip
    answer(question, {"ask": form})


@asked_by(ids.CODE_ASK, ids.CODE, ids.CODE_NOTICE, by_tab=False)
async def show_code(asked: Asked) -> tuple[dict[str, str], None]:
    """What a panel asked, as calls of our client."""
    asks = [CALLS[name].form.model_validate(given) for name, given in asked["asks"]]
    return {"client": client_calls(asks, asked["origin"])}, None


clientside_callback(ClientsideFunction("weights", "start"), Output(ids.STARTED, "data"), Input(ids.PAGE, "id"))
heard("weights", {"code": ids.CODE})
