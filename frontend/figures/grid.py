"""Every head's map in one picture, for a notebook; the page draws its grid on a canvas."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from frontend.figures.numbers import opened
from frontend.figures.theme import BLUE_WHITE_RED, Theme, empty, stops, template

Side = Literal["edited", "unedited", "difference"]
GAP = 1
"""Empty cells between two maps."""


def all_maps(answer: Mapping[str, Any], *, side: Side = "edited", theme: Theme = "light") -> go.Figure:
    """`Overview` as JSON: layers down, heads across, one colour scale for all. Colours follow √p, as the wire does."""
    shown = answer.get(side)
    if shown is None:
        return empty("There is no comparison: switch on an edit and “compare with unedited”.", theme)
    maps = opened(shown["maps"])
    signed = side == "difference"
    layers, heads, q, k = maps.shape
    marks = (0, 0.01, 0.1, 0.25, 0.5, 1)
    most = 127 * float(shown["scale"] or 0)
    bar = {
        "title": {"text": "edited − unedited" if signed else "attention probability"},
        "tickvals": [-127, 0, 127] if signed else [255 * mark**0.5 for mark in marks],
        "ticktext": [f"{-most:.2g}", "0", f"{most:.2g}"] if signed else [f"{mark:g}" for mark in marks],
    }
    heat = go.Heatmap(
        z=montage(maps), zmin=-127 if signed else 0, zmax=127 if signed else 255, hoverinfo="skip", colorbar=bar,
        colorscale=stops(BLUE_WHITE_RED) if signed else stops(),
    )  # fmt: skip
    layout = {
        "template": template(theme),
        "width": 90 + heads * max(20, min(k, 64)), "height": 60 + layers * max(20, min(q, 64)),
        "xaxis": _axis("head", list(range(heads)), k), "yaxis": _axis("layer", answer["layers"], q) | {
            "autorange": "reversed"},
    }  # fmt: skip
    return go.Figure(heat, layout)


def montage(maps: np.ndarray) -> np.ndarray:
    """[L, H, q, k] as one f4 picture with gaps of NaN between the maps."""
    layers, heads, q, k = maps.shape
    framed = np.full((layers, q + GAP, heads, k + GAP), np.nan, "f4")
    framed[:, :q, :, :k] = maps.transpose(0, 2, 1, 3)
    picture: np.ndarray = framed.reshape(layers * (q + GAP), heads * (k + GAP))[:-GAP, :-GAP]
    return picture


def _axis(title: str, names: list[int], cells: int) -> dict[str, Any]:
    centres = [place * (cells + GAP) + (cells - 1) / 2 for place in range(len(names))]
    step = max(1, -(-len(names) // 32))
    return {"title": {"text": title}, "tickvals": centres[::step], "ticktext": [str(name) for name in names[::step]],
            "showgrid": False}  # fmt: skip
