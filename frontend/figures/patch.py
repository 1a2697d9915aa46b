"""Patching drawn: by how much the prediction moves when one place takes what another text's run holds there."""

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np
import plotly.graph_objects as go

from frontend.figures.names import Tokens, plain, token_names
from frontend.figures.numbers import digits, opened
from frontend.figures.theme import BLUE_WHITE_RED, Theme, stops, template

LEAST = 1e-4
"""Logits at which the colour scale stops to narrow: smaller changes are rounding."""
CHARACTER_PX = 6.6
LABELS_MOST = 40


def patch_map(
    answer: Mapping[str, Any], tokens: Tokens = None, source_tokens: Tokens = None, *, theme: Theme = "light"
) -> go.Figure:
    """`PatchMap` as JSON: places down, tokens across, the change in logits; a place that was not measured is a gap."""
    logits = opened(answer["logits"])
    change = logits - np.float32(answer["unpatched"])
    names = column_names(answer, tokens, source_tokens)
    most = max(float(np.abs(change[np.isfinite(change)]).max(initial=0.0)), LEAST)
    rows = list(range(len(answer["rows"])))
    return go.Figure(
        go.Heatmap(
            z=change, x=list(range(len(names))), y=rows, zmin=-most, zmax=most, zmid=0,
            colorscale=stops(BLUE_WHITE_RED), colorbar={"title": {"text": "Change of the logits"}}, hoverongaps=False,
            xgap=1, ygap=1, customdata=_hovers(answer, logits, change, names),
            hovertemplate="%{customdata}<extra></extra>",
        ),
        _layout(answer, names, rows, theme),
    )  # fmt: skip


def column_names(answer: Mapping[str, Any], tokens: Tokens, source_tokens: Tokens) -> list[str]:
    """One name a position; where the texts differ, the source's token and this text's."""
    here, there = token_names(tokens, answer["ids"]), token_names(source_tokens, answer["source_ids"])
    same = [one == other for one, other in zip(answer["ids"], answer["source_ids"], strict=True)]
    return [
        f"{place} {plain(one)}" if equal else f"{place} {plain(other)}→{plain(one)}"
        for place, (one, other, equal) in enumerate(zip(here, there, same, strict=True))
    ]


def _hovers(answer: Mapping[str, Any], logits: np.ndarray, change: np.ndarray, names: list[str]) -> list[list[str]]:
    figures = digits(answer["conditions"])
    way = answer["source"] - answer["unpatched"]

    def said(row: int, column: int) -> str:
        if not np.isfinite(change[row, column]):
            return ""
        share = f"<br>{change[row, column] / way:.0%} of the way to the other text" if abs(way) > LEAST else ""
        return (
            f"<b>{plain(answer['rows'][row])}</b> at <b>{names[column]}</b><br>change "
            f"{change[row, column]:+.{figures}g} logits, to {logits[row, column]:+.{figures}g}{share}"
        )

    return [[said(row, column) for column in range(change.shape[1])] for row in range(change.shape[0])]


def _layout(answer: Mapping[str, Any], names: list[str], rows: list[int], theme: Theme) -> dict[str, Any]:
    across, down = max(1, ceil(len(names) / LABELS_MOST)), max(1, ceil(len(rows) / LABELS_MOST))
    return {
        "template": template(theme), "hovermode": "closest", "uirevision": "patch",
        "xaxis": {"side": "top", "tickvals": list(range(0, len(names), across)), "ticktext": names[::across],
                  "tickangle": -45 if sum(map(len, names)) * CHARACTER_PX > 560 else 0, "showgrid": False,
                  "range": [-0.5, len(names) - 0.5]},
        "yaxis": {"tickvals": rows[::down], "ticktext": [plain(row) for row in answer["rows"][::down]],
                  "showgrid": False, "range": [len(rows) - 0.5, -0.5]},
    }  # fmt: skip
