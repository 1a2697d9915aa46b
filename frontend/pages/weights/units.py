"""Feed-forward keys and values: one unit's, and the units whose key and value are about the same words."""

from dash import html

from frontend.pages.sheet import busy
from frontend.pages.weights import ids
from frontend.pages.weights.parts import POLITE, scrolls, title
from frontend.parts.notice import notice_place

ABOUT = (
    "A unit of the feed-forward block reads with its key and writes its value. Where both are about the same words, "
    "the unit is often one that can be read."
)


def panel() -> html.Section:
    """Places; assets/weights_units.js fills them."""
    return html.Section(
        [
            *ids.OVERLAPS.stores(),
            *ids.UNIT.stores(),
            title("Feed-forward keys and values", "weights-units"),
            html.P(ABOUT, className="note"),
            html.Div(id="weights-units-form", className="weights-filters"),
            html.Div(id="weights-units-state", **POLITE),
            notice_place(ids.OVERLAPS.notice),
            html.P(id="weights-units-note", className="note"),
            scrolls("weights-units-place", "Units whose key and value share words"),
            notice_place(ids.UNIT.notice),
            html.Div(id="weights-unit", **POLITE),
        ],
        className="sheet",
        **busy(ids.OVERLAPS.told, "Comparing the keys and values of a layer …", "weights-units-title"),
    )
