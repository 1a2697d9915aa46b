"""What was written, as signed bars: the values of a cell, and every layer's attention and feed-forward part."""

from collections.abc import Mapping
from typing import Any, Literal

import plotly.graph_objects as go

from frontend.figures.names import plain
from frontend.figures.numbers import opened
from frontend.figures.theme import INK, Theme, empty, template

Shown = Literal["edited", "unedited"]
Answer = Mapping[str, Any]
"""`CellAnswer` or `ContributionsAnswer` as JSON."""
WORDS = 4
ROW_PX = 26
NOT_COMPARED = "There is no comparison: switch on an edit and “compare with unedited”."


def values_of_cell(answer: Answer, *, side: Shown = "edited", theme: Theme = "light") -> go.Figure:
    """Coefficient times norm of each listed value, with its sign, and its direct contribution beside it."""
    shown = answer.get(side)
    if shown is None:
        return empty(NOT_COMPARED, theme)
    values = shown["values"]
    names = [f"L{answer['layer']}U{value['unit']}" for value in values]
    words = [_words(answer, value) for value in values]
    size = [value["magnitude"] * (1 if value["coefficient"] >= 0 else -1) for value in values]
    ink = INK[theme]
    traces = [_bars(names, size, "coefficient × norm", ink["first"], words, "x")]
    contributed = [value["contribution"] for value in values]
    if contributed and None not in contributed:
        traces.append(_bars(names, contributed, "direct contribution, logits", ink["second"], words, "x2"))
    layout = {
        "template": template(theme), "height": 120 + ROW_PX * len(names), "barmode": "group", "hovermode": "y",
        "yaxis": {"autorange": "reversed"}, "xaxis": {"title": {"text": "coefficient × norm"}, "zeroline": True},
        "legend": {"orientation": "h", "y": 1.12},
    }  # fmt: skip
    if len(traces) == 2:
        layout["xaxis"] |= {"domain": [0, 0.47]}
        layout["xaxis2"] = {"domain": [0.53, 1], "title": {"text": "direct contribution, logits"}, "zeroline": True}
    return go.Figure(traces, layout)


def parts_by_layer(answer: Answer, *, side: Shown = "edited", theme: Theme = "light") -> go.Figure:
    """Direct contribution of attention and feed-forward of every layer, embedding first and rest last."""
    shown = answer.get(side)
    if shown is None:
        return empty(NOT_COMPARED, theme)
    ink, layers = INK[theme], range(len(opened(shown["attention"])))
    rows = ["embedding", *map(str, layers), "rest"]
    traces = [
        go.Bar(x=rows, y=[ends[0], *opened(shown[name]).tolist(), ends[1]], name=label, marker={"color": colour})
        for name, label, colour, ends in (
            ("attention", "attention", ink["first"], (shown["embedding"], shown["rest"])),
            ("feed_forward", "feed-forward", ink["second"], (None, None)),
        )
    ]  # fmt: skip
    layout = {
        "template": template(theme), "barmode": "group", "xaxis": {"title": {"text": "layer"}, "type": "category"},
        "yaxis": {"title": {"text": "direct contribution, logits"}, "zeroline": True},
        "legend": {"orientation": "h", "y": 1.12},
    }  # fmt: skip
    return go.Figure(traces, layout)


def _words(answer: Answer, value: Mapping[str, Any]) -> str:
    """The first words of both ends, for the hover."""
    up, down = (
        ", ".join(plain(answer["words"][str(id)]) for id in value["ends"][end][:WORDS]) for end in ("highest", "lowest")
    )
    return f"promotes {up}<br>suppresses {down}"


def _bars(names: list[str], sizes: list[float], label: str, colour: str, words: list[str], axis: str) -> go.Bar:
    return go.Bar(
        x=sizes, y=names, name=label, orientation="h", marker={"color": colour}, customdata=words, xaxis=axis,
        hovertemplate="%{y}: %{x:.4g}<br>%{customdata}<extra></extra>",
    )  # fmt: skip
