"""Steering drawn: the next token with and without the sliders, what each adds, and what in a text shows them."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from frontend.figures.names import plain
from frontend.figures.theme import INK, Theme, empty, template
from frontend.figures.values import AXIS_PX, ROW_PX, word_name

BAR_PX = 2 * ROW_PX


def distribution(answer: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """The likeliest next tokens (`SteerAnswer` as JSON), two bars each: without the sliders and with them."""
    ink, shifts = INK[theme], answer["likely"]
    names = {"base": "without the sliders", "steered": "with them"}
    return _rows(
        [_word(answer, shift["id"]) for shift in shifts],
        [
            _bar([shift[side] for shift in shifts], name, ink[colour], "%{x:.4g}")
            for (side, name), colour in zip(names.items(), ("line", "first"), strict=True)
        ],
        "Probability", theme,
    )  # fmt: skip


def shares(answer: Mapping[str, Any], names: Mapping[int, str] | None = None, *, theme: Theme = "light") -> go.Figure:
    """By how much each slider moved the logit of the tokens that rose and fell most; `names` of sliders by place."""
    moved = [*answer["rose"], *reversed(answer["fell"])]
    sliders = [(names or {}).get(place, f"slider {place}") for place in answer["sliders"]]
    bars = [
        _bar([shift["shares"][place] for shift in moved], plain(name), None, "%{x:.4g}")
        for place, name in enumerate(sliders)
    ]
    if any(abs(shift["rest"]) > 1e-3 * (1 + abs(shift["logit"])) for shift in moved):
        bars.append(_bar([shift["rest"] for shift in moved], "rest", INK[theme]["line"], "%{x:.4g}"))
    return _rows([_word(answer, shift["id"]) for shift in moved], bars, "Logits", theme)


def evidence(answer: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """ln P(token | sliders) − ln P(token | against) of every token (`EvidenceAnswer` as JSON, opened), spans marked."""
    ink, values, ids = INK[theme], answer["evidence"], answer["ids"]
    places = list(range(len(ids)))
    words = [_word(answer, id) for id in ids]
    best = [any(span["first"] <= place < span["last"] for span in answer["spans"]) for place in places]
    bar = go.Bar(
        x=places, y=values, customdata=words, hovertemplate="%{customdata}: %{y:.3g} nats<extra></extra>",
        marker={"color": [ink["mark"] if marked else ink["line"] for marked in best]},
    )  # fmt: skip
    title = f"best spans {answer['best']:.3g} nats, by chance {answer['chance']:.3g}, p = {answer['p']:.3g}"
    axis = {"tickmode": "array", "tickvals": places, "ticktext": words, "tickangle": -90, "showgrid": False}
    layout = {
        "template": template(theme), "xaxis": axis, "yaxis": {"title": {"text": "nats"}}, "title": {"text": title},
        "showlegend": False,
    }  # fmt: skip
    return go.Figure(bar, layout)


def scatter(answer: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """The words at the ends of the first two directions of a steer (`InsideAnswer` as JSON, opened)."""
    if not answer["scatter_ids"]:
        return empty("This steer is 0: it has no direction.", theme)
    points = list(zip(*answer["scatter"], strict=True))
    across, up = points[0], [0.0 if value is None or value != value else value for value in points[1]]
    dots = go.Scatter(
        x=across, y=up, mode="markers+text", text=[_word(answer, id) for id in answer["scatter_ids"]],
        textposition="top center", marker={"color": INK[theme]["first"], "size": 6},
        hovertemplate="%{text}: %{x:.3g}, %{y:.3g}<extra></extra>",
    )  # fmt: skip
    layout = {
        "template": template(theme), "xaxis": {"title": {"text": "First direction, logits"}, "zeroline": True},
        "yaxis": {"title": {"text": "Second direction, logits"}, "zeroline": True},
    }  # fmt: skip
    return go.Figure(dots, layout)


def _word(answer: Mapping[str, Any], id: int) -> str:
    return plain(word_name(answer["words"][str(id)]))


def _bar(values: list[float], name: str, colour: str | None, shown: str) -> go.Bar:
    return go.Bar(
        x=values, y=list(range(len(values))), orientation="h", name=name, marker={"color": colour},
        hovertemplate=f"%{{y}}: {shown}<extra>{name}</extra>",
    )  # fmt: skip


def _rows(labels: list[str], bars: list[go.Bar], title: str, theme: Theme) -> go.Figure:
    """Groups of bars, the first word on top."""
    if not labels:
        return empty("Nothing moved.", theme)
    rows = list(range(len(labels)))
    axis = {"tickmode": "array", "tickvals": rows, "ticktext": labels, "range": [len(rows) - 0.5, -0.5]}
    layout = {
        "template": template(theme), "xaxis": {"title": {"text": title}, "zeroline": True}, "yaxis": axis,
        "height": AXIS_PX + BAR_PX * len(rows), "barmode": "group", "bargap": 0.25,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    }  # fmt: skip
    return go.Figure(bars, layout)
