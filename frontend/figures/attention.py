"""One head drawn: its map, and the entropy of its rows. The typed arrays of the answer go in unopened."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from frontend.figures.names import Tokens, axis_names, plain, token_names
from frontend.figures.numbers import decimals, digits, opened
from frontend.figures.theme import BLUE_WHITE_RED, INK, LOG_DECADES, Scale, Theme, empty, log_stops, stops, template

Side = Literal["edited", "unedited", "difference"]
Answer = Mapping[str, Any]
"""`HeadAnswer` as JSON."""

GAPS_UP_TO = 48
"""Cells a side up to which a hairline separates them."""
UNIT = {"probability": "attention probability", "norm": "attention × ‖v W<sub>O</sub>‖"}


def head_map(
    answer: Answer, tokens: Tokens = None, *, side: Side = "edited", scale: Scale = "linear", theme: Theme = "light"
) -> go.Figure:
    """Queries down, keys across; hover gives both tokens and the exact value.

    Probabilities share one scale on both sides of a comparison. A difference is symmetric around 0 and never narrower
    than the answer's noise. With `scale="log"` the colours are logarithmic and the values stay as they are.
    `layout.meta` holds both scales, so that a page can change without asking again.
    """
    shown = answer.get(side)
    if shown is None:
        return empty("There is no comparison: switch on an edit and “compare with unedited”.", theme)
    keys, queries = _axes(answer, tokens)
    signed = side == "difference"
    low, high = (-_extent(answer), _extent(answer)) if signed else (0.0, _largest(answer))
    colours = {
        "linear": stops(BLUE_WHITE_RED) if signed else stops(),
        "log": stops(BLUE_WHITE_RED) if signed else log_stops(),
    }
    scale = "linear" if signed else scale
    heat = go.Heatmap(
        z=shown["map"], x=keys, y=queries, zmin=low, zmax=high, colorscale=colours[scale], showscale=scale == "linear",
        hoverongaps=False, hovertemplate=_hover(answer, signed), colorbar={"title": {"text": _title(answer, signed)}},
        xgap=_gap(answer, 1), ygap=_gap(answer, 0),
    )  # fmt: skip
    layout = {
        "template": template(theme), "hovermode": "closest", "uirevision": _revision(answer), "showlegend": False,
        "xaxis": {"type": "category", "title": {"text": "key: is looked at"}, "tickangle": -90, "showspikes": True,
                  "showgrid": False, "constrain": "domain", "range": [-0.5, len(keys) - 0.5]},
        "yaxis": {"type": "category", "title": {"text": "query: looks"}, "showspikes": True, "showgrid": False,
                  "range": [len(queries) - 0.5, -0.5]},
        "meta": {"scales": colours, "signed": signed},
    }  # fmt: skip
    return go.Figure([heat, _log_bar(answer, high, visible=scale == "log")], layout)


def row_entropy(answer: Answer, tokens: Tokens = None, *, side: Side = "edited", theme: Theme = "light") -> go.Figure:
    """Entropy of every query row in nats, beside ln n, the entropy of uniform attention over the keys it may see."""
    shown = answer.get(side)
    if shown is None or shown["entropy"] is None:
        return empty("The entropy of a difference is not defined.", theme)
    names = token_names(tokens, answer["ids"])
    labels = axis_names(names, 0, len(names), len(names))
    places = decimals("nats", answer["conditions"])
    line = go.Scatter(
        x=labels, y=shown["entropy"], mode="lines+markers", name=side, line={"width": 1.5}, marker={"size": 4},
        hovertemplate=f"%{{x}}<br>%{{y:.{places}f}} nats<extra>{side}</extra>",
    )  # fmt: skip
    traces = [line, _uniform_line(answer, labels, places, theme)]
    if side == "edited" and answer.get("unedited"):
        traces.insert(1, _unedited_line(answer["unedited"], labels, places))
    layout = {
        "template": template(theme), "hovermode": "x unified", "uirevision": "rows",
        "xaxis": {"type": "category", "showticklabels": len(labels) <= GAPS_UP_TO, "tickangle": -90, "showgrid": False},
        "yaxis": {"title": {"text": "entropy, nats"}, "rangemode": "tozero"},
    }  # fmt: skip
    return go.Figure(traces, layout)


def _axes(answer: Answer, tokens: Tokens) -> tuple[list[str], list[str]]:
    names, region, (q, k) = token_names(tokens, answer["ids"]), answer["region"], answer["cells"]
    return axis_names(names, region["k0"], region["k1"], k), axis_names(names, region["q0"], region["q1"], q)


def _largest(answer: Answer) -> float:
    """The top of the scale: the largest value of both sides, so that they can be compared by eye."""
    sides = [opened(answer[side]["map"]) for side in ("edited", "unedited") if answer.get(side)]
    top = max((float(np.nanmax(values)) for values in sides if np.isfinite(values).any()), default=1.0)
    return top if top > 0 else 1.0


def _extent(answer: Answer) -> float:
    values = np.abs(opened(answer["difference"]["map"]))
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    return max(top, float(answer.get("noise") or 0.0), 1e-12)


def _title(answer: Answer, signed: bool) -> str:
    pooled = f", {answer['reading']['pool']} of each cell" if answer["pooled"] else ""
    return ("edited − unedited, " if signed else "") + UNIT[answer["unit"]] + pooled


def _hover(answer: Answer, signed: bool) -> str:
    number = f"%{{z:{'+' if signed else ''}.{digits(answer['conditions'])}g}}"
    pooled = f" ({answer['reading']['pool']} of the cell)" if answer["pooled"] else ""
    return f"query <b>%{{y}}</b><br>key <b>%{{x}}</b><br><b>{number}</b>{pooled}<extra></extra>"


def _gap(answer: Answer, axis: int) -> float:
    return 0.5 if max(answer["cells"]) <= GAPS_UP_TO and answer["cells"][axis] > 1 else 0


def _revision(answer: Answer) -> str:
    """A zoom outlives a change of head or colour, and ends with a change of region or text."""
    return f"{answer['region']} {len(answer['ids'])}"


def _log_bar(answer: Answer, top: float, *, visible: bool) -> go.Scatter:
    """An unseen point that carries the logarithmic colour bar: the map itself keeps its linear values."""
    marks = list(range(-LOG_DECADES, 1))
    return go.Scatter(
        x=[None], y=[None], mode="markers", visible=visible, hoverinfo="skip",
        marker={"color": [0], "cmin": -LOG_DECADES, "cmax": 0, "colorscale": stops(), "showscale": True, "colorbar": {
            "title": {"text": _title(answer, False) + " (log)"}, "tickvals": marks,
            "ticktext": [("≤ " if mark == -LOG_DECADES else "") + f"{top * 10.0**mark:.2g}" for mark in marks]}},
    )  # fmt: skip


def _uniform_line(answer: Answer, labels: list[str], places: int, theme: Theme) -> go.Scatter:
    return go.Scatter(
        x=labels, y=answer["uniform_entropy"], mode="lines", name=plain("uniform: ln n"),
        line={"dash": "dash", "width": 1.5, "color": INK[theme]["quiet"]},
        hovertemplate=f"%{{y:.{places}f}} nats<extra>uniform: ln n</extra>",
    )  # fmt: skip


def _unedited_line(unedited: Mapping[str, Any], labels: list[str], places: int) -> go.Scatter:
    return go.Scatter(
        x=labels, y=unedited["entropy"], mode="lines", name="unedited", line={"width": 1.5, "dash": "dot"},
        hovertemplate=f"%{{y:.{places}f}} nats<extra>unedited</extra>",
    )  # fmt: skip
