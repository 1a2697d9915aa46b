"""What every sheet of a page has: it waits visibly, and it is named by its heading."""

from typing import Any

import dash_ag_grid as dag
from dash import dcc

from frontend.figures.theme import Theme

THEMES: tuple[Theme, ...] = ("light", "dark")
GRAPH: Any = {"displaylogo": False, "displayModeBar": False, "doubleClick": "reset", "scrollZoom": False}
"""No toolbar: zoom is a drag, its end a double click, and the downloads are named buttons."""
TABLE_LOOK = (
    "themeQuartz.withParams({backgroundColor: 'var(--surface)', foregroundColor: 'var(--text)', "
    "headerBackgroundColor: 'var(--sunken)', headerTextColor: 'var(--text)', borderColor: 'var(--line)', "
    "accentColor: 'var(--accent)', rowHoverColor: 'var(--sunken)', browserColorScheme: 'inherit', "
    "fontFamily: 'var(--font)', fontSize: 13, spacing: 5, wrapperBorderRadius: 6})"
)
"""The theme of a table: our own colours, in either theme."""
EMPTY = {
    "xaxis": {"visible": False}, "yaxis": {"visible": False},
    "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
}  # fmt: skip
"""A figure before the first answer: nothing, on the panel's own ground in either theme."""


def graph(id: str) -> dcc.Graph:
    """A picture that fills its place and is empty until the first answer."""
    return dcc.Graph(id=id, figure={"layout": EMPTY}, config=GRAPH, responsive=True, className="graph")


def table(id: str, **listeners: str) -> dag.AgGrid:
    """An empty table that is filled in the browser; `listeners`: by event, the function of an asset that hears it."""
    return dag.AgGrid(
        id=id,
        columnDefs=[],
        rowData=[],
        defaultColDef={"sortable": True, "filter": True, "resizable": True, "suppressHeaderMenuButton": False},
        columnSize=None,
        dashGridOptions={
            "theme": {"function": TABLE_LOOK}, "animateRows": False, "headerHeight": 30, "rowHeight": 28,
            "suppressFieldDotNotation": True, "enableCellTextSelection": True, "ensureDomOrder": True,
            "tabToNextCell": {"function": "lmscopeTable.leave(params)"},
            "tabToNextHeader": {"function": "lmscopeTable.leave(params)"},
        },
        eventListeners={event: [heard] for event, heard in listeners.items()},
        className="heads-grid",
    )  # fmt: skip


def named(heading: str) -> dict[str, Any]:
    """Attributes of a section that its heading names."""
    return {"aria-labelledby": heading}


def busy(store: str, sentence: str, heading: str) -> dict[str, Any]:
    """Attributes of a section that shows a spinner, then a sentence, while `store` is awaited."""
    return {"data-busy": store, "data-sentence": sentence, **named(heading)}
