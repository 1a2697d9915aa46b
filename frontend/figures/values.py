"""Values drawn as signed bars: the words at both ends of one, where it fires in a text, and lists of values."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from frontend.figures.names import LONGEST, VISIBLE, plain
from frontend.figures.numbers import opened
from frontend.figures.theme import INK, Theme, empty, template

ROW_PX = 20
AXIS_PX = 48


def ends(answer: Mapping[str, Any], *, words: int = 15, theme: Theme = "light") -> go.Figure:
    """The words that a value (`ValueAnswer` as JSON) promotes and suppresses most, the most promoted on top."""
    found = answer["ends"]
    high = list(zip(found["highest"], found["highest_logit"], strict=True))[:words]
    low = list(zip(found["lowest"], found["lowest_logit"], strict=True))[:words]
    shown = high + [pair for pair in reversed(low) if pair[0] not in {id for id, _ in high}]
    labels = [word_name(answer["words"][str(id)]) for id, _ in shown]
    return bars(labels, [logit for _, logit in shown], "Logit per unit of the coefficient", theme=theme)


def fires(answer: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """The coefficient of a unit (`FiresAnswer` as JSON) at every token, as bars; edited beside unedited."""
    words = [plain(word_name(answer["words"][str(id)])) for id in answer["ids"]]
    sides = [side for side in ("edited", "unedited") if answer.get(side)]
    colours = {"edited": INK[theme]["first"], "unedited": INK[theme]["second"]}
    drawn = [
        go.Bar(x=list(range(len(words))), y=opened(answer[side]), name=side, customdata=words,
               marker={"color": colours[side]}, hovertemplate="%{customdata}: %{y:.4g}<extra>" + side + "</extra>")
        for side in sides
    ]  # fmt: skip
    axis = {"tickmode": "array", "tickvals": list(range(len(words))), "ticktext": words}
    return go.Figure(
        drawn,
        {"template": template(theme), "xaxis": axis, "yaxis": {"title": {"text": "Coefficient"}, "zeroline": True},
         "barmode": "group", "showlegend": len(sides) > 1},
    )  # fmt: skip


def bars(labels: Sequence[str], values: Sequence[float], title: str, *, theme: Theme = "light") -> go.Figure:
    """One signed bar a row, the first on top; rows may bear the same label."""
    if not labels:
        return empty("Nothing was found.", theme)
    ink, rows = INK[theme], list(range(len(labels)))
    bar = go.Bar(
        x=list(values), y=rows, orientation="h", hovertemplate="%{customdata}: %{x:.4g}<extra></extra>",
        customdata=[plain(label) for label in labels],
        marker={"color": [ink["first"] if value >= 0 else ink["second"] for value in values]},
    )  # fmt: skip
    axis = {"tickmode": "array", "tickvals": rows, "ticktext": [plain(label) for label in labels],
            "range": [len(rows) - 0.5, -0.5]}  # fmt: skip
    return go.Figure(
        bar,
        {"template": template(theme), "xaxis": {"title": {"text": title}, "zeroline": True}, "yaxis": axis,
         "height": AXIS_PX + ROW_PX * len(rows), "bargap": 0.25},
    )  # fmt: skip


def word_name(word: str) -> str:
    """A word of the vocabulary on an axis: its space and what nobody could see are visible, and it is short."""
    seen = "".join(VISIBLE.get(character, character if character.isprintable() else "·") for character in word)
    marked = seen.replace(" ", "␣", len(seen) - len(seen.lstrip(" "))) if seen else "∅"
    return marked if len(marked) <= LONGEST else marked[: LONGEST - 1] + "…"
