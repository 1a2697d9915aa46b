"""What the browser needs to draw one head: its figures of every side, and the rest of the answer beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

from frontend.figures.attention import head_map, row_entropy
from frontend.figures.names import token_names
from frontend.pages.sheet import THEMES

SIDES = ("edited", "unedited", "difference")


def drawn(answer: Mapping[str, Any], tokens: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each map travels once, inside its figure; its own place in the answer stays empty."""
    sides = [side for side in SIDES if answer.get(side)]
    return {
        "answer": {**answer, **{side: _without_map(answer[side]) for side in sides}},
        "figures": {side: head_map(answer, tokens, side=side).to_plotly_json() for side in sides},  # type: ignore[arg-type]
        "rows": {theme: row_entropy(answer, tokens, theme=theme).to_plotly_json() for theme in THEMES},
        "names": token_names(tokens, answer["ids"]),
        "tokens": [{"piece": token["piece"], "role": token["role"], "part": token["part"]} for token in tokens],
    }


def _without_map(side: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in side.items() if name != "map"}
