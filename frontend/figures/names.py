"""How a token is called on an axis, in a table, in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 14
VISIBLE = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽", "\u200b": "ZWSP", "\u200d": "ZWJ"}

Tokens = Sequence[Mapping[str, Any]] | None
"""`TokensAnswer.tokens`, or None when only the ids are known."""


def token_name(token: Mapping[str, Any]) -> str:
    """The piece without its leading space; what nobody could see gets a sign, a shared character a dotted circle."""
    if token.get("part", 0) > 1:
        return f"◌{token['part']}"
    piece = str(token["piece"])
    bare = piece.strip(" ") or "␣" * len(piece)
    shown = "".join(VISIBLE.get(character, character if character.isprintable() else "·") for character in bare)
    return shown or "∅"


def token_names(tokens: Tokens, ids: Sequence[int]) -> list[str]:
    """One name a token; a plain id where the tokens are not known."""
    if tokens is None:
        return [f"id {number}" for number in ids]
    return [token_name(token) for token in tokens]


def axis_names(names: Sequence[str], first: int, last: int, cells: int) -> list[str]:
    """Category names of tokens [first, last) drawn in `cells` cells: unique, short, and safe for Plotly's own mark-up.

    A cell that stands for several tokens is named after its range.
    """
    edges = cell_edges(first, last, cells)
    return [_axis_name(names, low, high) for low, high in edges]


def cell_edges(first: int, last: int, cells: int) -> list[tuple[int, int]]:
    """Which tokens [low, high) each cell stands for."""
    span = last - first
    return [(first + cell * span // cells, first + (cell + 1) * span // cells) for cell in range(cells)]


def _axis_name(names: Sequence[str], low: int, high: int) -> str:
    name = names[low] if len(names[low]) <= LONGEST else names[low][: LONGEST - 1] + "…"
    place = str(low) if high - low <= 1 else f"{low}–{high - 1}"
    return f"{place} {plain(name)}"


def plain(text: str) -> str:
    """Text that Plotly shows as it is: its labels understand a little HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
