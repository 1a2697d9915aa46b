"""A concept looked up: words in; values, keys and single vectors of heads near their mean embedding out."""

from dash import html

from frontend.pages.sheet import busy
from frontend.pages.weights import ids
from frontend.pages.weights.parts import scrolls, title
from frontend.parts.notice import notice_place


def panel() -> html.Section:
    """Places; assets/weights_lookup.js fills them."""
    return html.Section(
        [
            *ids.LOOKUP.stores(),
            title("Look up a concept", "weights-lookup"),
            html.Div(id="weights-lookup-form"),
            notice_place(ids.LOOKUP.notice),
            html.Div(id="weights-lookup-offer"),
            html.P(id="weights-lookup-note", className="note"),
            scrolls("weights-lookup-place", "Nearest to the concept"),
        ],
        className="sheet",
        **busy(ids.LOOKUP.told, "Searching every layer …", "weights-lookup-title"),
    )
