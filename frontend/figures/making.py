"""The making of a steer drawn: its loss after every check, on the texts that train and on those that decide."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from frontend.figures.theme import INK, Theme, empty, template

NAMES = {"train": "training", "held_out": "held out, to stop in time"}
LOOKS = {"train": ("solid", "circle"), "held_out": ("dash", "diamond")}
"""Lines differ by dash and mark, too: nothing is said by colour alone."""


def curve(points: Sequence[Mapping[str, Any]], best: int | None = None, *, theme: Theme = "light") -> go.Figure:
    """`MakePoint`s as JSON: both losses in nats a token over the steps; the step that was kept is marked."""
    if not points:
        return empty("The first check has not come yet.", theme)
    ink = INK[theme]
    lines = [
        go.Scatter(
            x=[point["step"] for point in points], y=[point[field] for point in points], name=NAMES[field],
            mode="lines+markers", line={"color": colour, "width": 2, "dash": LOOKS[field][0]},
            marker={"size": 6, "symbol": LOOKS[field][1]},
            hovertemplate="step %{x}: %{y:.4f} nats a token<extra></extra>",
        )
        for field, colour in (("train", ink["first"]), ("held_out", ink["second"]))
    ]  # fmt: skip
    layout = {
        "template": template(theme), "hovermode": "closest", "uirevision": "making",
        "xaxis": {"title": {"text": "steps"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "loss (nats a token)"}},
    }  # fmt: skip
    figure = go.Figure(lines, layout)
    if best is not None:
        figure.add_vline(x=best, line={"color": ink["mark"], "width": 1.5, "dash": "dot"})
        figure.add_annotation(
            x=best, y=1, yref="paper", text="kept", showarrow=False, xanchor="left", yanchor="top", xshift=4,
            font={"color": ink["mark"]},
        )  # fmt: skip
    return figure
