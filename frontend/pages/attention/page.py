"""The attention page: every head at a glance on the left, one head exactly on the right."""

import dash
from dash import dcc, html
from dash.development.base_component import Component

from frontend.figures.statistics import LABELS
from frontend.figures.theme import template
from frontend.pages.attention import callbacks, ids  # noqa: F401  (the callbacks register on import)
from frontend.pages.sheet import GRAPH, THEMES, busy, named
from frontend.parts.notice import notice_place


def layout(**_: str) -> html.Div:
    """Places; assets/attention.js and its neighbours fill them."""
    return html.Div([*_stores(), html.Div(id="reading", className="reading"), _grid(), _head()], id=ids.PAGE)


def _stores() -> list[dcc.Store]:
    looks = {theme: template(theme).to_plotly_json() for theme in THEMES}
    printed = {"looks": looks, "statistics": LABELS}
    names = (ids.OVERVIEW, ids.ASK, ids.HEAD, ids.CODE_ASK, ids.CODE, ids.STARTED)
    return [dcc.Store(id=ids.PRINTED, data=printed), *(dcc.Store(id=name) for name in names)]


def _grid() -> html.Section:
    return html.Section(
        [
            html.Header(
                [html.H2("Heads", id="grid-title"), html.Div(id="grid-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="grid-controls", className="grid-controls"),
            notice_place(ids.OVERVIEW_NOTICE),
            html.Div(id="grid-legend", className="grid-legend"),
            html.Div(id="grid", className="grid-place"),
            html.P(
                "Arrow keys move, Enter opens, Shift+Enter or Space adds to the selection, + and − change the size.",
                id="grid-keys",
                className="unseen",
            ),
        ],
        id="grid-panel",
        className="sheet grid-panel",
        **busy(ids.OVERVIEW, "Computing every head …", "grid-title"),
    )


def _head() -> html.Section:
    return html.Section(
        [
            html.Header(
                [
                    html.H2("One head", id="head-title"),
                    html.Div(id="head-actions", className="head-actions"),
                    html.Div(id="head-tools", className="sheet-tools"),
                ],
                className="sheet-head",
            ),
            html.Div(id="head-statistics"),
            html.Div(
                [html.Div(id="head-tabs", className="tabs", role="tablist"), html.Div(id="head-weighted")],
                id="head-tab-row",
                className="tab-row",
            ),
            notice_place(ids.HEAD_NOTICE),
            notice_place(ids.CODE_NOTICE),
            html.Div(
                _map(), id="head-map", className="head-tab", role="tabpanel", hidden=True, **named("head-tab-map")
            ),
            *(
                html.Div(
                    id=f"head-{name}", className="head-tab", role="tabpanel", hidden=True, **named(f"head-tab-{name}")
                )
                for name in ("lines", "text", "table")
            ),
            html.Div(id="head-empty", className="empty"),
        ],
        id="head-panel",
        className="sheet head-panel",
        **busy(ids.HEAD, "Computing this head …", "head-title"),
    )


def _map() -> list[Component]:
    return [
        html.Div(id="head-map-note", className="note"),
        html.Div(dcc.Graph(id=ids.MAP, config=GRAPH, responsive=True, className="graph"), className="map-place"),
        html.Div(id="head-map-read", className="readout"),
        html.H3("Entropy of each row", className="small-title"),
        html.Div(dcc.Graph(id=ids.ROWS, config=GRAPH, responsive=True, className="graph"), className="rows-place"),
    ]


dash.register_page(__name__, path="/attention", name="Attention", title="Attention · LMScope")
