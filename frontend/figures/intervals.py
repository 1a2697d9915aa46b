"""A mean with its 95 % interval at each of several places: a line with bars."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from frontend.figures.names import plain


def interval_line(
    x: Sequence[float], intervals: Sequence[Mapping[str, Any]], name: str, *, colour: str, symbol: str = "circle",
    dash: str = "solid", at: str = "%{x}", unit: str = "",
) -> go.Scatter:  # fmt: skip
    """`intervals` are `Interval`s as JSON; `at` says a place in a hover. What is no measurement has open marks."""
    solid = dash == "solid"
    return go.Scatter(
        x=list(x), y=[one["mean"] for one in intervals], name=plain(name), mode="lines+markers",
        line={"color": colour, "width": 2 if solid else 1.2, "dash": dash},
        marker={"symbol": symbol if solid else f"{symbol}-open", "size": 7 if solid else 6},
        error_y={"type": "data", "symmetric": False, "thickness": 1.1, "width": 3,
                 "array": [one["high"] - one["mean"] for one in intervals],
                 "arrayminus": [one["mean"] - one["low"] for one in intervals]},
        customdata=[[one["low"], one["high"], one["n"]] for one in intervals],
        hovertemplate=f"<b>{plain(name)}</b> at {at}: %{{y:.4g}}{f' {unit}' if unit else ''}<br>"
        "95 %: %{customdata[0]:.4g} to %{customdata[1]:.4g} (n = %{customdata[2]})<extra></extra>",
    )  # fmt: skip
