"""Sweep: what a slider, or two, does at every strength, with intervals, a random steer beside it, and sample texts."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from dash import html

from backend.schema import SweepAsk
from frontend.figures.sweep import sweep
from frontend.figures.theme import Theme
from frontend.pages.sheet import graph, named
from frontend.parts.following import Following, follow
from frontend.parts.notice import notice_place

JOB = Following("steer-sweep")
SPOKEN: Any = {"aria-live": "polite"}


def panel() -> html.Section:
    """Places; assets/steer_sweep.js fills them."""
    return html.Section(
        [
            *JOB.stores(),
            html.Header(
                [html.H2("Sweep", id="sweep-title"), html.Div(id="sweep-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.P(
                "What the slider does at every strength: to texts of both poles, to the fluency of neutral text, and "
                "to what is written.",
                className="note",
            ),
            html.Div(id="sweep-form", className="sweep-form"),
            html.Div(id="sweep-state", className="make-state", **SPOKEN),
            *(notice_place(name) for name in (JOB.notice, JOB.look_notice)),
            html.Div(
                [
                    html.P(id="sweep-about", className="note"),
                    html.Div(id="sweep-measure"),
                    html.Div(
                        [
                            html.Div(graph(JOB.figure), id="sweep-place", className="sweep-place"),
                            html.Div(id="sweep-samples", className="sweep-samples"),
                        ],
                        className="sweep-columns",
                    ),
                    html.Div(id="sweep-table"),
                ],
                id="sweep-picture",
                hidden=True,
            ),
        ],
        className="sheet steer-sweep",
        **named("sweep-title"),
    )


def draw(answer: Mapping[str, Any], drawn: Mapping[str, Any], theme: Theme) -> go.Figure:
    """The points so far."""
    poles = (drawn["plus"], drawn["minus"])
    return sweep(answer, poles=poles, measure=drawn["measure"], theme=theme)


follow(JOB, {"sweep": SweepAsk}, draw)
