"""The heads page: figure 1 of the lecture, live, and the table behind it."""

from typing import Any

import dash
from dash import dcc, html

from frontend.figures.statistics import LABELS
from frontend.pages.heads import callbacks, ids, weights  # noqa: F401  (the callbacks register on import)
from frontend.pages.sheet import EMPTY, GRAPH, busy, named, table
from frontend.parts.notice import notice_place

POLITE: Any = {"aria-live": "polite"}
NOTICES = (ids.NOTICE, ids.CODE_NOTICE, weights.JOB.notice, weights.JOB.look_notice)
ANECDOTE = (
    "One sentence is an anecdote: what a head does on this text need not be what it does on others. "
    "Run other texts before you believe it."
)


def layout(**_: str) -> html.Div:
    """Places; assets/heads.js fills them."""
    stores = (ids.ASK, ids.ANSWER, ids.CODE_ASK, ids.CODE, ids.STARTED)
    return html.Div(
        [
            dcc.Store(id=ids.PRINTED, data={"statistics": LABELS}),
            *(dcc.Store(id=name) for name in stores),
            *weights.JOB.stores(),
            html.Div(id="heads-reading", className="reading"),
            html.Div([notice_place(name) for name in NOTICES], className="notices"),
            _figure(),
            _table(),
        ],
        id=ids.PAGE,
    )


def _figure() -> html.Section:
    return html.Section(
        [
            html.Header(
                [html.H2("Heads by layer", id="heads-title"), html.Div(id="heads-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.P(id="heads-note", className="note"),
            html.Div(
                dcc.Graph(
                    id=ids.FIGURE,
                    figure={"layout": EMPTY},
                    config=GRAPH,
                    responsive=True,
                    className="graph",
                ),
                className="heads-place",
            ),
            html.P([html.Strong("n = 1 text. "), ANECDOTE], className="anecdote"),
        ],
        className="sheet",
        **busy(ids.ANSWER, "Computing every head …", "heads-title"),
    )


def _table() -> html.Section:
    grid = table(
        ids.TABLE,
        cellClicked="lmscopeHeads.clicked(params)",
        cellKeyDown="lmscopeHeads.keyed(params)",
        filterChanged="lmscopeHeads.counted(params)",
    )
    return html.Section(
        [
            html.Header(
                [
                    html.H2("Every head, every statistic", id="heads-count"),
                    html.Div(id="table-tools", className="sheet-tools"),
                ],
                className="sheet-head",
            ),
            html.P(
                "Each value beside its value under uniform attention. A click on a name sorts, the funnel filters; "
                "Enter or a click on a head opens it.",
                className="note",
            ),
            html.Div(id="heads-weights", className="heads-weights", **POLITE),
            grid,
        ],
        className="sheet",
        **named("heads-count"),
    )


dash.register_page(__name__, path="/heads", name="Heads", title="Heads · LMScope")
