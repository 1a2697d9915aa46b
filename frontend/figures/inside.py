"""A steer taken apart, drawn: the words at the ends of its first two singular directions, in their plane."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from frontend.figures.names import plain
from frontend.figures.numbers import opened
from frontend.figures.theme import INK, Theme, empty, template
from frontend.figures.values import word_name

CHARACTER = 0.016
"""Width of a character of a label as a share of the picture's width."""
LINE = 0.045
"""Height of a label as a share of the picture's height."""

EDGE, ROOM = 0.06, 0.25
"""Free shares of the width at the left, and at the right for the labels that stand beside their marks."""


def plane(answer: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """`InsideAnswer` as JSON: tokens by their logits along the first two directions; words where they have room."""
    points_N2 = opened(answer["scatter"])
    if not len(points_N2):
        return empty("This steer has no direction.", theme)
    across, up = points_N2[:, 0], np.nan_to_num(points_N2[:, 1])
    words = [word_name(answer["words"].get(str(id), f"id {id}")) for id in answer["scatter_ids"]]
    shown = labelled(across, up, words)
    ink, second = INK[theme], len(answer["dimensions"]) > 1
    marks = go.Scatter(
        x=across, y=up, mode="markers+text",
        text=[plain(word) if show else "" for word, show in zip(words, shown, strict=True)],
        textposition="middle right", textfont={"color": ink["text"], "size": 11}, cliponaxis=False,
        marker={"color": ink["first"], "size": 5, "opacity": 0.8}, customdata=[plain(word) for word in words],
        hovertemplate="<b>%{customdata}</b><br>first %{x:+.4g}"
        + (", second %{y:+.4g}" if second else "") + " logits<extra></extra>",
    )  # fmt: skip
    lines = {"zeroline": True, "zerolinecolor": ink["line"]}
    low, high = float(across.min()), float(across.max())
    room = [low - EDGE * (high - low), high + ROOM * (high - low)] if high > low else None
    return go.Figure(
        marks,
        {"template": template(theme), "hovermode": "closest", "uirevision": "inside", "showlegend": False,
         "xaxis": {"title": {"text": "logits along the first direction"}, "range": room, **lines},
         "yaxis": {"title": {"text": "logits along the second direction"}, "visible": second, **lines}},
    )  # fmt: skip


def labelled(across: np.ndarray, up: np.ndarray, words: Sequence[str]) -> list[bool]:
    """Whether each word has room beside its mark; the furthest from the middle are asked first."""
    x, y = _share(across), _share(up)
    taken: list[tuple[float, float, float, float]] = []
    shown = [False] * len(words)
    for place in np.argsort(-np.hypot(x - 0.5, y - 0.5), kind="stable"):
        box = (x[place], y[place], x[place] + CHARACTER * (len(words[place]) + 1), y[place] + LINE)
        if all(not _meet(box, other) for other in taken):
            taken.append(box)
            shown[place] = True
    return shown


def _share(values: np.ndarray) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    return (values - low) / ((high - low) or 1.0)


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
