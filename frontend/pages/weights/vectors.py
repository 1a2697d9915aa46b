"""Single vectors of a head: columns of W_V, W_Q and W_K, rows of W_O, each read as words."""

from dash import html

from frontend.pages.sheet import busy
from frontend.pages.weights import ids
from frontend.pages.weights.parts import scrolls, title
from frontend.parts.notice import notice_place


def panel() -> html.Section:
    """Places; assets/weights_vectors.js fills them."""
    return html.Section(
        [
            *ids.VECTORS.stores(),
            title("Single vectors of the head", "weights-vectors"),
            html.Div(id="weights-vectors-form", className="weights-filters"),
            notice_place(ids.VECTORS.notice),
            html.P(id="weights-vectors-note", className="note"),
            scrolls("weights-vectors-place", "Single vectors"),
        ],
        className="sheet",
        **busy(ids.VECTORS.told, "Reading the vectors …", "weights-vectors-title"),
    )
