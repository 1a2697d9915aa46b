"""Write: the text goes on, on two sides beside each other. Tokens come over the tab's websocket, not through Dash."""

from typing import Any

from dash import html

from frontend.pages.sheet import named
from frontend.parts.notice import notice_place

EDITED = (("edited", "Edited"), ("unedited", "Unedited"))
STEERED = (("unedited", "Base"), ("edited", "Steered"))
"""The sides in the order in which they stand, and what they are called."""


def panel(sides: tuple[tuple[str, str], ...] = EDITED, *more: html.Div | html.P | html.Details) -> html.Section:
    """Places, and more of them below; assets/continuation.js fills them."""
    return html.Section(
        [
            html.Header(
                [html.H2("Write", id="write-title"), html.Div(id="write-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.P(id="write-refused", className="note"),
            html.Div(
                [
                    html.Div(id="write-controls", className="write-controls"),
                    notice_place("write-notice"),
                    html.P(id="write-note", className="note"),
                    html.Div([_side(*side) for side in sides], id="write-sides", className="write-sides"),
                    html.P(id="write-token", className="write-token"),
                    *more,
                ],
                id="write-body",
            ),
        ],
        className="sheet trace-write",
        id="write-panel",
        **named("write-title"),
    )


def _side(name: str, title: str) -> html.Div:
    written: Any = {"aria-labelledby": f"write-{name}-title"}
    return html.Div(
        [
            html.H3(title, id=f"write-{name}-title"),
            html.Div(id=f"write-{name}", className="written", role="region", tabIndex=0, **written),
        ],
        id=f"write-{name}-side",
        className="write-side",
    )
