"""Figure 1 of the lecture: one statistic of every head by layer, with its uniform baseline and each layer's mean."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from frontend.figures.numbers import decimals, opened
from frontend.figures.statistics import find
from frontend.figures.theme import INK, Theme, empty, template

Side = Literal["edited", "unedited", "difference"]
Answer = Mapping[str, Any]
"""`HeadsAnswer` as JSON."""
SPREAD = 0.56
"""How far the dots of one layer are spread, in layers."""


def by_layer(
    answer: Answer,
    *,
    statistic: str = "entropy",
    normalised: bool = False,
    side: Side = "edited",
    chosen: tuple[tuple[int, int], ...] = (),
    theme: Theme = "light",
) -> go.Figure:
    """Every head as a dot above its layer. `normalised` shows entropy divided by ln n of each row instead of nats.

    Where the answer compares, the edited dots stand beside the unedited ones. A dot's `customdata` is (layer, head).
    """
    name = "normalised" if normalised and statistic == "entropy" else statistic
    shown = find(answer.get(side), name)
    if shown is None:
        return empty("There is no comparison: switch on an edit and “compare with unedited”.", theme)
    if not np.isfinite(opened(shown["value"])).any():
        return empty(f"{shown['label']} is not defined here (n/a): {shown['definition']}", theme)
    traces = [_dots(answer, shown, side, chosen, theme), _means(answer, shown, side, theme)]
    before = find(answer.get("unedited"), name) if side == "edited" else None
    if before is not None:
        traces[:0] = [_dots(answer, before, "unedited", (), theme, hollow=True)]
    if side != "difference":
        traces.append(_baseline(answer, shown, theme))
    return go.Figure(traces, _layout(answer, shown, side, theme))


def axis_title(statistic: Mapping[str, Any], side: Side = "edited") -> str:
    """The statistic and its unit, as the axis says it."""
    unit = {"share": "share of attention", "ratio": "ratio"}.get(statistic["unit"], statistic["unit"])
    return ("Edited − unedited: " if side == "difference" else "") + f"{statistic['label']}, {unit}"


def _places(answer: Answer) -> np.ndarray:
    """x of every dot [L, H]: its layer, spread by head so that equal values stay apart."""
    layers, heads = np.asarray(answer["layers"], float), answer["heads"]
    offsets = (np.arange(heads) - (heads - 1) / 2) / max(heads - 1, 1) * SPREAD
    places: np.ndarray = np.add.outer(layers, offsets)
    return places


def _dots(
    answer: Answer, shown: Mapping[str, Any], side: str, chosen: tuple[tuple[int, int], ...], theme: Theme,
    hollow: bool = False,
) -> go.Scatter:  # fmt: skip
    ink, values, uniform = INK[theme], opened(shown["value"]), opened(shown["uniform"])
    names = [(layer, head) for layer in answer["layers"] for head in range(answer["heads"])]
    places = decimals(shown["unit"], answer["conditions"])
    picked = [name in chosen for name in names]
    baseline = "" if side == "difference" else f"<br>uniform %{{customdata[2]:.{places}f}}"
    return go.Scatter(
        x=_places(answer).ravel().tolist(), y=_listed(values), mode="markers", cliponaxis=False,
        name=f"heads, {side}" if answer.get("unedited") else "heads",
        customdata=[[*name, number] for name, number in zip(names, _listed(uniform), strict=True)],
        marker={
            "size": [11 if mark else 7 for mark in picked],
            "color": "rgba(0,0,0,0)" if hollow else [ink["mark"] if mark else ink["first"] for mark in picked],
            "opacity": 0.85, "symbol": "circle",
            "line": {"width": 1.2 if hollow else [2 if mark else 0.5 for mark in picked],
                     "color": ink["quiet"] if hollow else ink["panel"]},
        },
        hovertemplate=f"<b>Layer %{{customdata[0]}} · head %{{customdata[1]}}</b><br>%{{y:.{places}f}} "
        f"{shown['unit']}{baseline}<extra>{side}</extra>",
    )  # fmt: skip


def _means(answer: Answer, shown: Mapping[str, Any], side: str, theme: Theme) -> go.Scatter:
    places = decimals(shown["unit"], answer["conditions"])
    return go.Scatter(
        x=list(answer["layers"]), y=_listed(_layer_means(opened(shown["value"]))), mode="lines+markers",
        name="mean of each layer", line={"color": INK[theme]["second"], "width": 2.5},
        marker={"symbol": "diamond", "size": 6},
        hovertemplate=f"layer %{{x}}: mean %{{y:.{places}f}} {shown['unit']}<extra>{side}</extra>",
    )  # fmt: skip


def _baseline(answer: Answer, shown: Mapping[str, Any], theme: Theme) -> go.Scatter:
    places = decimals(shown["unit"], answer["conditions"])
    return go.Scatter(
        x=list(answer["layers"]), y=_listed(_layer_means(opened(shown["uniform"]))), mode="lines",
        name="uniform attention", line={"color": INK[theme]["quiet"], "width": 1.5, "dash": "dash"},
        hovertemplate=f"uniform attention: %{{y:.{places}f}} {shown['unit']}<extra></extra>",
    )  # fmt: skip


def _layer_means(values: np.ndarray) -> np.ndarray:
    """Mean of each layer over its defined heads; NaN where none is."""
    defined = np.isfinite(values)
    sums = np.where(defined, values, 0).sum(1)
    return np.where(defined.any(1), sums / np.maximum(defined.sum(1), 1), np.nan)


def _listed(values: np.ndarray) -> list[float | None]:
    """Plain numbers for Plotly; what is undefined is a gap."""
    return [float(value) if np.isfinite(value) else None for value in values.ravel()]


def _layout(answer: Answer, shown: Mapping[str, Any], side: Side, theme: Theme) -> dict[str, Any]:
    layers = answer["layers"]
    quiet = side == "difference" and np.nanmax(np.abs(opened(shown["value"]))) < shown["noise"]
    return {
        "template": template(theme), "hovermode": "closest", "uirevision": shown["name"],
        "xaxis": {"title": {"text": "layer"}, "range": [min(layers) - 0.6, max(layers) + 0.6], "showgrid": False,
                  "tickmode": "linear", "tick0": 0, "dtick": max(1, -(-len(layers) // 16))},
        "yaxis": {"title": {"text": axis_title(shown, side)},
                  "rangemode": "normal" if side == "difference" else "tozero", "zeroline": side == "difference",
                  "range": [-shown["noise"], shown["noise"]] if quiet else None},
    }  # fmt: skip
