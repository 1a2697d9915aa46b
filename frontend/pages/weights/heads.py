"""The map of heads: layers down, heads across, coloured by what a job finds out about every head."""

from dash import html

from backend.schema import SummariesAsk, TablesAsk
from frontend.pages.sheet import named
from frontend.pages.weights.parts import POLITE, title
from frontend.parts.knowing import Knowing, know
from frontend.parts.notice import notice_place

JOB = Knowing("weights-heads")
TABLES = Knowing("weights-tables")


def panel() -> html.Section:
    """Places; assets/weights_map.js fills them."""
    return html.Section(
        [
            *JOB.stores(),
            *TABLES.stores(),
            title("Heads", "weights-map"),
            html.P("Layers down, heads across. Choose one, or move with the arrow keys.", className="note"),
            html.Div(id="weights-map-choice", className="weights-filters"),
            html.Div(id="weights-map-place", className="weights-map"),
            html.Div(id="weights-map-legend", className="weights-legend"),
            html.Div(id="weights-map-state", **POLITE),
            *(notice_place(name) for name in (JOB.notice, JOB.look_notice, TABLES.notice, TABLES.look_notice)),
            html.Div(id="weights-map-table"),
        ],
        className="sheet weights-heads",
        **named("weights-map-title"),
    )


know(JOB, {"heads": SummariesAsk})
know(TABLES, {"tables": TablesAsk})
