"""What every panel of the weights page has: a title with its tools, places that scroll."""

from typing import Any

from dash import html

POLITE: Any = {"aria-live": "polite"}


def title(words: str, name: str) -> html.Header:
    """The head of a panel: its title and the place of its buttons."""
    return html.Header(
        [html.H2(words, id=f"{name}-title"), html.Div(id=f"{name}-tools", className="sheet-tools")],
        className="sheet-head",
    )


def scrolls(id: str, label: str) -> html.Div:
    """A place that scrolls, by keyboard too."""
    named: Any = {"aria-label": label}
    return html.Div(id=id, className="scrolls", tabIndex=0, role="region", **named)
