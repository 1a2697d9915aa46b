"""The left rail: one entry for each instrument that has a page."""

from typing import Any

from dash import html

from frontend.parts.browser import INSTRUMENTS

LABELS = {"attention": "Attention", "heads": "Heads", "trace": "Trace", "weights": "Weights", "steer": "Steer"}


def rail(path: str) -> html.Nav:
    """Icons with labels; assets/rail.js keeps the view in their links."""
    entries = [_entry(path, name) for name in INSTRUMENTS]
    brand = html.Div(
        [html.Span(className="icon icon-brand"), html.Span("LMScope", className="rail-label")], className="brand"
    )
    return html.Nav([brand, *entries], id="rail", className="rail")


def _entry(path: str, name: str) -> html.A:
    data: Any = {"data-instrument": name}
    label = [html.Span(className=f"icon icon-{name}"), html.Span(LABELS[name], className="rail-label")]
    return html.A(label, href=f"{path}{name}", className="rail-entry", title=LABELS[name], **data)
