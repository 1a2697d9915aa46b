"""Make a slider: labelled examples, checked first, become a steer or a direction, with its evidence."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from dash import html

from backend.schema import DirectionAsk, MakeAsk
from frontend.figures.making import curve
from frontend.figures.theme import Theme
from frontend.pages.sheet import graph, named
from frontend.parts.following import Following, follow
from frontend.parts.kept_examples import KeptExamples, keeps
from frontend.parts.notice import notice_place

JOB = Following("steer-make")
KEPT = KeptExamples("steer")
SPOKEN: Any = {"aria-live": "polite"}


def panel() -> html.Section:
    """Places; assets/steer_make.js fills them."""
    return html.Section(
        [
            *JOB.stores(),
            *KEPT.stores(),
            html.Header(
                [html.H2("Make a slider", id="make-title"), html.Div(id="make-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.P(id="make-refused", className="note"),
            html.Div(
                [
                    html.Div(id="make-form", className="make-form"),
                    html.Div(
                        [
                            html.Div(id="make-state", className="make-state", **SPOKEN),
                            *(notice_place(name) for name in (JOB.notice, JOB.look_notice, KEPT.notice)),
                            html.Div(id="make-done", **SPOKEN),
                            html.Div(
                                [
                                    html.P(id="make-legend", className="note"),
                                    html.Div(graph(JOB.figure), className="make-curve"),
                                    html.Div(id="make-table"),
                                ],
                                id="make-picture",
                                hidden=True,
                            ),
                        ],
                        className="make-side",
                    ),
                ],
                id="make-body",
                className="make-body",
            ),
        ],
        className="sheet steer-make",
        **named("make-title"),
    )


def draw(answer: Mapping[str, Any], _: Mapping[str, Any], theme: Theme) -> go.Figure:
    """The curve so far."""
    return curve(answer["curve"], answer["best"], theme=theme)


follow(JOB, {"make": MakeAsk, "direction": DirectionAsk}, draw)

keeps(KEPT)
