"""How the model read each token: a bar a token."""

from collections.abc import Mapping
from typing import Any, Literal

import plotly.graph_objects as go

from frontend.figures.names import axis_names, token_names
from frontend.figures.numbers import decimals
from frontend.figures.theme import Theme, empty, template

Score = Literal["surprisal", "entropy", "probability"]
UNITS = {"surprisal": "nats", "entropy": "nats", "probability": "probability"}


def by_token(answer: Mapping[str, Any], *, score: Score = "surprisal", theme: Theme = "light") -> go.Figure:
    """`TokensAnswer` as JSON. Position 0 has no left context and no bar; a compared view has two bars a token."""
    if answer["scores"] is None:
        return empty(answer["scores_why"] or "This answer has no scores: it was asked for without them.", theme)
    names = token_names(answer["tokens"], answer["ids"])
    labels = axis_names(names, 0, len(names), len(names))
    unit = UNITS[score]
    places = decimals(unit, answer["conditions"])
    bars = [
        go.Bar(x=labels, y=answer[side][score], name=name,
               hovertemplate=f"%{{x}}<br>%{{y:.{places}f}} {unit}<extra>{name}</extra>")
        for side, name in (("scores", "edited"), ("unedited", "unedited"))
        if answer[side] is not None
    ]  # fmt: skip
    layout = {
        "template": template(theme), "showlegend": len(bars) > 1, "barmode": "group",
        "xaxis": {"type": "category", "tickangle": -90, "showgrid": False},
        "yaxis": {"title": {"text": f"{score}, {unit}" if unit != score else score}},
    }  # fmt: skip
    return go.Figure(bars, layout)
