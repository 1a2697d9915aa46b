"""Weights drawn: a head's mean score against distance, and one number of every head."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from frontend.figures.theme import INK, Theme, empty, stops, template

NO_CURVE = {
    "none": "No position acts on the queries and keys of this layer: the score is the same at every distance.",
    "unknown": "How positions act on the scores of this layer is not known, so there is no curve.",
}

UNITS = {"folded": "attention logits", "raw": "dot product"}


def curve(answer: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """Mean score of two tokens by how far the key stands behind the query (`HeadWeightsAnswer` as JSON).

    Distances on a logarithmic axis of distance + 1, so that distance 0 has a place.
    """
    if not answer["curve"] or answer["positions"] in NO_CURVE:
        return empty(NO_CURVE.get(answer["positions"], NO_CURVE["unknown"]), theme)
    distances = [point["distance"] for point in answer["curve"]]
    line = go.Scatter(
        x=[distance + 1 for distance in distances], y=[point["score"] for point in answer["curve"]],
        mode="lines+markers", line={"color": INK[theme]["first"]}, marker={"size": 5}, customdata=distances,
        hovertemplate="distance %{customdata}: %{y:.4g}<extra></extra>",
    )  # fmt: skip
    marks = [mark for mark in (0, 1, 3, 10, 30, 100, 300, 1000, 3000) if mark <= distances[-1]]
    return go.Figure(
        line,
        {"template": template(theme), "height": 260,
         "xaxis": {"title": {"text": "tokens from key to query"}, "type": "log", "tickmode": "array",
                   "tickvals": [mark + 1 for mark in marks], "ticktext": [f"{mark:,}" for mark in marks]},
         "yaxis": {"title": {"text": f"mean score ({UNITS[answer['reading']]})"}, "zeroline": True}},
    )  # fmt: skip


def by_head(
    values: Sequence[Sequence[float]], layers: Sequence[int], measure: str, *, theme: Theme = "light"
) -> go.Figure:  # fmt: skip
    """One number of every head [layers, heads]: layers down, heads across; what is NaN has no colour."""
    heat = go.Heatmap(
        z=values, y=[str(layer) for layer in layers], colorscale=stops(), hoverongaps=False, xgap=1, ygap=1,
        colorbar={"title": {"text": measure}}, hovertemplate="head %{y}.%{x}: %{z:.4g}<extra></extra>",
    )  # fmt: skip
    return go.Figure(
        heat,
        {"template": template(theme), "height": 120 + 14 * len(layers),
         "xaxis": {"title": {"text": "head"}}, "yaxis": {"title": {"text": "layer"}, "autorange": "reversed",
         "type": "category"}},
    )  # fmt: skip
