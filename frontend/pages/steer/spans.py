"""Evidence in my text: how much likelier the sliders make each word of the view's text, and its best spans."""

from typing import Any

from dash import dcc, html

from backend.schema import EvidenceAsk
from frontend.pages.sheet import busy
from frontend.parts.asking import client
from frontend.parts.notice import notice_place
from frontend.parts.panel import Asked, asked_by, heard

ASK, ANSWER, NOTICE = "steer-spans-ask", "steer-spans-answer", "steer-spans-notice"
"""Stores: {ask, key}, which assets/steer_spans.js derives from the view, and {answer, key}."""
SPOKEN: Any = {"aria-live": "polite"}
READ: Any = {"aria-labelledby": "spans-title"}


def panel() -> html.Section:
    """Places; assets/steer_spans.js fills them."""
    return html.Section(
        [
            dcc.Store(id=ASK),
            dcc.Store(id=ANSWER),
            html.Header(
                [html.H2("Evidence in my text", id="spans-title"), html.Div(id="spans-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="spans-form", className="steer-row"),
            notice_place(NOTICE),
            html.Div(
                [
                    html.P(id="spans-said", className="spans-said", **SPOKEN),
                    html.Div(id="spans-text", className="spans-text", role="region", tabIndex=0, **READ),
                    html.P(id="spans-token", className="spans-token"),
                    html.Div(id="spans-table"),
                ],
                id="spans-body",
                hidden=True,
            ),
        ],
        className="sheet steer-spans",
        **busy(ANSWER, "Weighing every word …", "spans-title"),
    )


@asked_by(ASK, ANSWER, NOTICE)
async def show_spans(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """The evidence of every token; `key` tells the page which question this answers."""
    return {"answer": await client(tab).raw(EvidenceAsk.model_validate(asked["ask"])), "key": asked["key"]}, None


heard("steer", {"spans": ANSWER})
