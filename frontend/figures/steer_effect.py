"""What a steer does, drawn for the README: likelihood of both classes, perplexity, and an independent score."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from frontend.figures.sweep import interval_of, likelihood_of, with_interval
from frontend.figures.theme import INK, Theme, template

TITLES = (
    "Held-out snippets become likelier<br>(nats a token, paired)", "Perplexity of neutral text",
    "AFINN score of continuations<br>(change from unsteered, paired)",
)  # fmt: skip


def steer_effect(told: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """A run of `lmscope bench steer_effect` as JSON: three panels over the strength, the random steer dotted."""
    ink, points, control = INK[theme], told["points"], told["control"]
    plus, minus = told["poles"]
    figure = make_subplots(rows=1, cols=3, subplot_titles=TITLES, horizontal_spacing=0.07)
    for name, pole, colour, symbol in (("plus", plus, "first", "circle"), ("minus", minus, "second", "diamond")):
        read = likelihood_of(name)
        figure.add_trace(with_interval(points, read, f"{pole}s", ink[colour], symbol, "nats a token"), 1, 1)
        random = with_interval(control, read, f"random steer: {pole}s", ink[colour], symbol, "nats a token", True)
        figure.add_trace(random, 1, 1)
    for column, name in ((2, "perplexity"), (3, "score")):
        read = interval_of(name)
        steered = with_interval(points, read, "this steer", ink["text"], "circle", "")
        chance = with_interval(control, read, "random steer", ink["quiet"], "circle", "", True)
        for line in (steered, chance):
            figure.add_trace(line.update(showlegend=column == 2), 1, column)
    figure.update_xaxes(title={"text": "strength of the slider"}, tickvals=_ticks(points))
    for column in (1, 3):
        figure.update_yaxes(zeroline=True, zerolinecolor=ink["line"], col=column)
    figure.update_yaxes(type="log", col=2)
    return figure.update_layout(
        template=template(theme), width=1240, height=430, margin={"t": 56, "l": 8, "r": 12, "b": 8},
        legend={"orientation": "h", "y": -0.2, "yanchor": "top"},
    ).update_annotations(font={"size": 13, "color": ink["text"]})  # fmt: skip


def _ticks(points: Sequence[Mapping[str, Any]]) -> list[float]:
    return sorted(point["by"] for point in points)
