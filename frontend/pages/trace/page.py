"""The trace page: the residual stream read as words at every layer and token, and one token followed through it."""

import dash
from dash import dcc, html

from frontend.figures.trace import COLOURS
from frontend.pages import continuation
from frontend.pages.sheet import busy, graph, table
from frontend.pages.trace import callbacks, cell, ids, patch, values, why  # noqa: F401  (they register on import)
from frontend.parts.notice import notice_place

CAUTION = (
    "The lens reads every layer with the model's last read-out. In early layers it may find no word where "
    "the model knows one: what is not on top is not therefore absent."
)


def layout(**_: str) -> html.Div:
    """Places; assets/trace.js fills them."""
    stores = (ids.ASK, ids.ANSWER, ids.COLUMN_ASK, ids.COLUMN, ids.CODE_ASK, ids.CODE, ids.STARTED)
    return html.Div(
        [
            dcc.Store(id=ids.PRINTED, data={"colours": COLOURS}),
            *(dcc.Store(id=name) for name in stores),
            html.Div(
                [html.Div(id="trace-reading"), html.Div(id="trace-examples", className="examples")], className="reading"
            ),
            html.Div(
                [notice_place("trace-cannot"), notice_place(ids.NOTICE), notice_place(ids.CODE_NOTICE)],
                className="notices",
            ),
            _lens(),
            cell.panel(),
            _tracked(),
            html.Div(_below(), className="trace-below"),
        ],
        id=ids.PAGE,
    )


def _below() -> list[html.Section | html.Div]:
    """Panels of the whole width, one file each, in the order of the story: why this word, patch, values, write."""
    return [why.panel(), patch.panel(), values.panel(), continuation.panel()]


def _lens() -> html.Section:
    return html.Section(
        [
            html.Header(
                [
                    html.H2("Lens", id="trace-title"),
                    html.Div(id="trace-tabs", className="tabs", role="tablist"),
                    html.Div(id="trace-tools", className="sheet-tools"),
                ],
                className="sheet-head",
            ),
            html.P(id="trace-note", className="note"),
            html.Div(graph(ids.FIGURE), id="trace-place", tabIndex=0, role="tabpanel"),
            html.Div(
                table(ids.TABLE, cellClicked="lmscopeTrace.clicked(params)", cellKeyDown="lmscopeTrace.keyed(params)"),
                id="trace-table-place",
                role="tabpanel",
            ),
            html.P(CAUTION, className="note"),
        ],
        className="sheet trace-lens",
        **busy(ids.ANSWER, "Reading every layer …", "trace-title"),
    )


def _tracked() -> html.Section:
    return html.Section(
        [
            html.Header(
                [html.H2("Track a token", id="tracked-title"), html.Div(id="tracked-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="tracked-choice"),
            notice_place(ids.COLUMN_NOTICE),
            html.Div(graph(ids.TRACKED), id="tracked-place"),
        ],
        className="sheet trace-tracked",
        **busy(ids.COLUMN, "Following the token …", "tracked-title"),
    )


dash.register_page(__name__, path="/trace", name="Trace", title="Trace · LMScope")
