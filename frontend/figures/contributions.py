"""Contributions drawn: what each part writes towards a prediction, and beside it what its removal does."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from frontend.figures.numbers import digits, opened
from frontend.figures.theme import INK, Theme, empty, template

Parts = Literal["layers", "heads", "values"]
Order = Literal["direct", "effect"]
Side = Literal["edited", "unedited"]
Answer = Mapping[str, Any]
"""`ContributionsAnswer` as JSON."""
Effects = Mapping[str, Mapping[str, Any]]
"""By what was removed (`attention`, `feed_forward`, `heads`, `units`): an `EffectsAnswer` as JSON, perhaps partial."""


@dataclass(frozen=True)
class Part:
    """One row: a layer's attention or feed-forward block, a head, a value, or what is left."""

    name: str
    kind: str
    layer: int | None
    index: int | None
    direct: float | None
    """Logits; None where it is not defined."""
    effect: float | None = None
    """Logits with the part minus without it; None: not measured."""
    disagrees: bool | None = None

    def told(self) -> dict[str, Any]:
        """As JSON, for a table."""
        return asdict(self)


def parts_of(
    answer: Answer, parts: Parts = "layers", effects: Effects | None = None, *, side: Side = "edited",
    order: Order = "direct",
) -> list[Part]:  # fmt: skip
    """Every part, the largest first: by size of its direct contribution, or of its measured effect where it has one."""
    found = answer.get(side) or answer["edited"]
    measured = {kind: _by_place(told) for kind, told in (effects or {}).items()}
    rows = [
        _with_effect(row, measured) for row in {"layers": _layers, "heads": _heads, "values": _values}[parts](found)
    ]

    def size(row: Part) -> float:
        first, second = (row.effect, row.direct) if order == "effect" else (row.direct, None)
        if first is not None:
            return abs(first)
        return -1.0 if second is None else -1.0 / (1.0 + abs(second))

    return sorted(rows, key=size, reverse=True)


def contributions(rows: Sequence[Part], conditions: Mapping[str, Any], *, theme: Theme = "light") -> go.Figure:
    """Two horizontal bars a part, in the order given: direct and measured; hatched where their signs differ."""
    if not rows:
        return empty("No part of this kind can be read here.", theme)
    traces = [_bars(rows, "direct", conditions, theme)]
    if any(row.effect is not None for row in rows):
        traces.append(_bars(rows, "effect", conditions, theme))
    return go.Figure(traces, _layout(rows, len(traces) > 1, theme))


def _layers(found: Mapping[str, Any]) -> list[Part]:
    attention, feed_forward = (opened(found[name]).tolist() for name in ("attention", "feed_forward"))
    rows = [Part("embedding", "embedding", None, None, found["embedding"])]
    for layer, (one, other) in enumerate(zip(attention, feed_forward, strict=True)):
        rows += [
            Part(f"L{layer} attention", "attention", layer, None, _number(one)),
            Part(f"L{layer} feed-forward", "feed_forward", layer, None, _number(other)),
        ]
    return [*rows, *([Part("biases at the end", "rest", None, None, found["rest"])] if found["rest"] else [])]


def _heads(found: Mapping[str, Any]) -> list[Part]:
    heads_LH = opened(found["heads"])
    return [
        Part(f"L{layer} head {head}", "heads", layer, head, float(value))
        for (layer, head), value in np.ndenumerate(heads_LH)
        if np.isfinite(value)
    ]


def _values(found: Mapping[str, Any]) -> list[Part]:
    values = opened(found["values"]).tolist()
    return [
        Part(f"L{unit['layer']}U{unit['unit']}", "units", unit["layer"], unit["unit"], _number(value))
        for unit, value in zip(found["units"], values, strict=True)
    ]


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _by_place(told: Mapping[str, Any]) -> dict[tuple[int, int | None], Mapping[str, Any]]:
    return {(each["layer"], each["index"]): {**each, "noise": told["noise"]} for each in told["parts"]}


def _with_effect(row: Part, measured: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> Part:
    found = measured.get(row.kind, {}).get((row.layer, row.index))
    if found is None or found["effect"] is None:
        return row
    effect, apart = found["effect"], found["disagrees"]
    if apart is None and row.direct is not None:
        apart = row.direct * effect < 0 and min(abs(row.direct), abs(effect)) > found["noise"]
    return Part(row.name, row.kind, row.layer, row.index, row.direct, effect, apart)


LABELS = {"direct": "direct contribution", "effect": "measured effect of removing it"}


def _bars(rows: Sequence[Part], field: str, conditions: Mapping[str, Any], theme: Theme) -> go.Bar:
    ink, figures = INK[theme], digits(conditions)
    colour = ink["first" if field == "direct" else "second"]
    return go.Bar(
        x=[getattr(row, field) for row in rows], y=[row.name for row in rows], orientation="h", name=LABELS[field],
        marker={
            "color": colour,
            "pattern": {"shape": ["/" if row.disagrees else "" for row in rows], "fgcolor": ink["text"],
                        "bgcolor": colour, "size": 7, "solidity": 0.35},
            "line": {"width": 0 if field == "direct" else 1.2, "color": ink["text"]},
        },
        customdata=[" · opposite to the other" if row.disagrees else "" for row in rows],
        hovertemplate=f"<b>%{{y}}</b><br>{LABELS[field]} %{{x:+.{figures}g}} logits%{{customdata}}<extra></extra>",
    )  # fmt: skip


def _layout(rows: Sequence[Part], measured: bool, theme: Theme) -> dict[str, Any]:
    sizes = [abs(value) for row in rows for value in (row.direct, row.effect) if value is not None]
    most = 1.06 * max(sizes, default=1.0) or 1.0
    return {
        "template": template(theme), "barmode": "group", "bargap": 0.25, "bargroupgap": 0.05, "hovermode": "closest",
        "uirevision": "contributions", "showlegend": measured,
        "xaxis": {"title": {"text": "logits towards the target (right) or the foil (left)"}, "range": [-most, most],
                  "zeroline": True, "zerolinecolor": INK[theme]["text"]},
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": [row.name for row in rows],
                  "autorange": "reversed", "showgrid": False, "dtick": 1},
    }  # fmt: skip
