"""The weights page: any parameter of a model read in its vocabulary. No text is needed."""

import dash
from dash import dcc, html

from frontend.pages.sheet import busy, graph
from frontend.pages.weights import callbacks, heads, ids, lookup, studies, two, units, vectors  # noqa: F401
from frontend.pages.weights.parts import POLITE, scrolls, title
from frontend.parts.notice import notice_place

TWIN = (
    "The same table of a random matrix with the same singular values between the same embeddings: what stands there is "
    "chance."
)


def layout(**_: str) -> html.Div:
    """Places; assets/weights*.js fill them."""
    asked = (ids.HEAD, ids.PAIRS, ids.TWIN, ids.OTHER, ids.LINE)
    names = (ids.CODE_ASK, ids.CODE, ids.STARTED)
    return html.Div(
        [
            *(store for one in asked for store in one.stores()),
            *(dcc.Store(id=name) for name in names),
            html.Div(id="weights-choice", className="reading"),
            html.Div([notice_place("weights-cannot"), notice_place(ids.CODE_NOTICE)], className="notices"),
            html.Div(
                [heads.panel(), _line(), html.Div([_pairs(), _twin()], className="weights-tables"), _head()],
                className="weights-first",
            ),
            *(panel() for panel in (vectors.panel, units.panel, lookup.panel, studies.panel, two.panel)),
        ],
        id=ids.PAGE,
    )


def _head() -> html.Section:
    return html.Section(
        [
            title("Head", "weights-head"),
            notice_place(ids.HEAD.notice),
            html.Div(id="weights-facts", **POLITE),
            html.P("Mean score of W_QK over all pairs of tokens, by distance:", className="note"),
            html.Div(graph(ids.HEAD.figure), className="weights-curve"),
            html.Div(id="weights-curve-table"),
        ],
        className="sheet weights-head",
        **busy(ids.HEAD.told, "Reading the head …", "weights-head-title"),
    )


def _pairs() -> html.Section:
    return html.Section(
        [
            title("Top pairs", "weights-pairs"),
            html.Div(id="weights-filters", className="weights-filters"),
            notice_place(ids.PAIRS.notice),
            notice_place(ids.OTHER.notice),
            html.P(id="weights-said", className="note", **POLITE),
            scrolls("weights-pairs-place", "Top pairs"),
        ],
        className="sheet",
        **busy(ids.PAIRS.told, "Searching all pairs of tokens …", "weights-pairs-title"),
    )


def _twin() -> html.Section:
    return html.Section(
        [
            title("Random twin", "weights-twin"),
            html.P(TWIN, className="note"),
            notice_place(ids.TWIN.notice),
            scrolls("weights-twin-place", "Pairs of the random twin"),
        ],
        className="sheet",
        **busy(ids.TWIN.told, "Searching the twin …", "weights-twin-title"),
    )


def _line() -> html.Section:
    return html.Section(
        [
            title("Ask a head", "weights-line"),
            html.Div(id="weights-line-form"),
            notice_place(ids.LINE.notice),
            html.Div(id="weights-line-place", **POLITE),
        ],
        className="sheet weights-ask",
        **busy(ids.LINE.told, "Reading the line …", "weights-line-title"),
    )


dash.register_page(__name__, path="/weights", name="Weights", title="Weights · LMScope")
