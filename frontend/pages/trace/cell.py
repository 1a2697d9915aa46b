"""The open cell: its words, what the feed-forward block before it moved, and the value vectors that were written."""

from typing import Any

from dash import dcc, html

from backend.schema import CellAsk, SwitchAsk
from frontend.pages.sheet import busy
from frontend.pages.trace import ids
from frontend.parts.asking import client
from frontend.parts.notice import notice_place
from frontend.parts.panel import Asked, asked_by, heard


def panel() -> html.Section:
    """Places; assets/trace_cell.js and assets/trace_values.js fill them."""
    spoken: Any = {"aria-live": "polite"}
    names = (ids.CELL_ASK, ids.CELL, ids.SWITCH_ASK, ids.SWITCH)
    return html.Section(
        [
            *(dcc.Store(id=name) for name in names),
            html.Header(
                [html.H2("Cell", id="trace-cell-title"), html.Div(id="trace-cell-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="trace-cell", **spoken),
            notice_place(ids.CELL_NOTICE),
            notice_place(ids.SWITCH_NOTICE),
            html.Div(id="trace-block"),
            html.Div(id="trace-values-tools", className="values-tools"),
            html.Div(id="trace-values"),
        ],
        className="sheet trace-cell",
        **busy(ids.CELL, "Opening the feed-forward block …", "trace-cell-title"),
    )


@asked_by(ids.CELL_ASK, ids.CELL, ids.CELL_NOTICE)
async def show_cell(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """One cell before and after its block; `key` tells the page which question this answers."""
    answer = await client(tab).raw(CellAsk.model_validate(asked["ask"]))
    return {"answer": answer, "turn": asked["turn"], "key": asked["key"]}, None


@asked_by(ids.SWITCH_ASK, ids.SWITCH, ids.SWITCH_NOTICE)
async def show_switch(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """LM-Debugger's off or on of one value, as the edit that does the same."""
    return {"answer": await client(tab).raw(SwitchAsk.model_validate(asked["ask"])), "turn": asked["turn"]}, None


heard("trace", {"cell": ids.CELL, "switched": ids.SWITCH})
