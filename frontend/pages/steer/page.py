"""The steer page: sliders that move what the model predicts, while they are dragged, and what it writes."""

from typing import Any

import dash
from dash import dcc, html

from frontend.pages import continuation
from frontend.pages.sheet import busy, named
from frontend.pages.steer import callbacks, ids, inside, make, spans, sweep, transfer  # noqa: F401  (they register)
from frontend.parts.notice import notice_place

POLITE: Any = {"aria-live": "polite"}
HIDDEN: Any = {"aria-hidden": "true"}
SCALE = "Log-ratio, the sliders against none: −2 nats or less, 0, +2 nats or more"


def layout(**_: str) -> html.Div:
    """Places; assets/steer*.js fill them."""
    stores = (ids.STARTED, ids.ASK, ids.ANSWER, ids.TEXT_ASK, ids.TEXT, ids.CODE_ASK, ids.CODE)
    notices = ("steer-cannot", ids.NOTICE, ids.TEXT_NOTICE, ids.CODE_NOTICE)
    return html.Div(
        [
            *(dcc.Store(id=name) for name in stores),
            html.Div(id="steer-jumps", className="reading"),
            html.Div([notice_place(name) for name in notices], className="notices"),
            _sliders(),
            _shift(),
            html.Div(_below(), className="steer-below"),
        ],
        id=ids.PAGE,
    )


def _below() -> list[html.Section | html.Div]:
    """Panels of the whole width, one file each; what fills itself when the page opens comes last and moves nothing."""
    return [_write(), make.panel(), sweep.panel(), spans.panel(), transfer.panel(), inside.panel()]


def _head(title: str, id: str, tools: str) -> html.Header:
    return html.Header([html.H2(title, id=id), html.Div(id=tools, className="sheet-tools")], className="sheet-head")


def _sliders() -> html.Section:
    return html.Section(
        [
            _head("Sliders", "steer-sliders-title", "steer-sliders-tools"),
            html.Div(id="steer-empty"),
            html.Ul(id="steer-list", className="sliders"),
            _pad(),
            html.Div(id="steer-unfit"),
            html.P(id="steer-brief", className="steer-brief", **HIDDEN),
        ],
        className="sheet steer-sliders",
        **named("steer-sliders-title"),
    )


def _pad() -> html.Div:
    edges = [html.Span(id=f"steer-pad-{side}", className=f"pad-{side}") for side in ("above", "left", "right", "below")]
    return html.Div(
        [
            html.H3("Two at once", className="small-title"),
            html.Div(id="steer-pad-choice", className="pad-choice"),
            html.Div([*edges, html.Div(id="steer-pad", className="pad")], className="pad-frame"),
            html.P(id="steer-pad-says", className="note"),
        ],
        id="steer-pad-panel",
        hidden=True,
    )


def _shift() -> html.Section:
    facts = (("KL(base ‖ steered), this token", "steer-kl"), ("over the text, a token", "steer-kl-text"))
    return html.Section(
        [
            _head("Next token", "steer-shift-title", "steer-shift-tools"),
            html.Dl(
                [html.Div([html.Dt(term), html.Dd("n/a", id=id)]) for term, id in facts],
                className="steer-facts",
            ),
            html.P(id="steer-said", className="unseen", **POLITE),
            html.P(id="steer-shift-note", className="note"),
            html.Div(
                [
                    html.Div(id="steer-likely"),
                    html.Div([html.Div(id="steer-rose"), html.Div(id="steer-fell")]),
                ],
                className="shift-columns",
            ),
            html.Div(id="steer-shares", className="scrolls"),
        ],
        id="steer-shift-panel",
        className="sheet steer-shift",
        **busy(ids.ANSWER, "Reading the text …", "steer-shift-title"),
    )


def _write() -> html.Section:
    scale = html.Div([html.Span(className="ratio-scale"), html.Span(SCALE)], className="ratio-legend note")
    table = html.Details(
        [html.Summary("Every token with its number"), html.Div(id="write-table", className="scrolls")],
        id="write-table-place",
        hidden=True,
    )
    return continuation.panel(continuation.STEERED, scale, table, html.P(id="steer-attention-note", className="note"))


dash.register_page(__name__, path="/steer", name="Steer", title="Steer · LMScope")
