"""Look inside: a steer's singular directions as lists of words, and the plane of the first two."""

from typing import Any

import plotly.graph_objects as go
from dash import dcc, html

from backend.schema import InsideAsk
from frontend.figures.inside import plane
from frontend.pages.sheet import busy, graph
from frontend.parts.asking import client
from frontend.parts.notice import notice_place
from frontend.parts.panel import Asked, asked_by, heard, theme_of

ASK, ANSWER, NOTICE, FIGURE = "steer-inside-ask", "steer-inside-answer", "steer-inside-notice", "steer-inside-figure"
"""Stores: {ask, key}, which assets/steer_inside.js derives from the chosen steer, and {answer, key}."""


def panel() -> html.Section:
    """Places; assets/steer_inside.js fills them."""
    return html.Section(
        [
            dcc.Store(id=ASK),
            dcc.Store(id=ANSWER),
            html.Header(
                [html.H2("Look inside", id="inside-title"), html.Div(id="inside-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="inside-form", className="steer-row"),
            notice_place(NOTICE),
            html.P(id="inside-note", className="note"),
            html.Div(
                [html.Div(id="inside-table"), html.Div(graph(FIGURE), className="inside-place")],
                id="inside-body",
                className="inside-body",
                hidden=True,
            ),
        ],
        className="sheet steer-inside",
        **busy(ANSWER, "Taking the steer apart …", "inside-title"),
    )


@asked_by(ASK, ANSWER, NOTICE, FIGURE)
async def show_inside(asked: Asked, theme: str | None, tab: str | None) -> tuple[go.Figure, dict[str, Any], None]:
    """One steer taken apart; `key` tells the page which question this answers."""
    answer = await client(tab).raw(InsideAsk.model_validate(asked["ask"]))
    figure = plane(answer, theme=theme_of(theme))
    return figure, {"answer": answer, "key": asked["key"]}, None


heard("steer", {"inside": ANSWER})
