"""What an edit changes: its tap, and what people call the part."""

from collections.abc import Callable, Sequence
from typing import Any

from backend.schema import Edit

TAPS = {
    "head.scale": "heads", "head.set": "heads", "ffn.scale": "ffn", "ffn.set": "ffn",
    "ffn_out.set": "ffn_out", "residual.add": "residual", "residual.set": "residual", "steer": "unembed",
}  # fmt: skip
"""The tap at which each kind of edit acts."""
PARTS = {"heads": "head", "ffn": "unit"}
"""The field that says which part of a tap is meant; a stream is one part."""

NAMES: dict[str, Callable[[Any], str]] = {
    "heads": lambda edit: f"head {edit.layer}.{edit.head}",
    "ffn": lambda edit: f"unit L{edit.layer}U{edit.unit}",
    "ffn_out": lambda edit: f"what the feed-forward part of block {edit.layer} writes",
    "residual": lambda edit: f"the residual stream after block {edit.layer}",
    "unembed": lambda edit: f"the steer {edit.steer[:8]}…",
}


def tap_of(edit: Edit) -> str:
    """The tap of an edit, with its layer where there is one per layer: `heads.3`, `unembed`."""
    tap = TAPS[edit.kind]
    return tap if edit.kind == "steer" else f"{tap}.{edit.layer}"


def part_of(edit: Edit) -> int:
    """Which part of its tap an edit changes."""
    field = PARTS.get(TAPS[edit.kind])
    return getattr(edit, field) if field else 0


def named(edit: Edit) -> str:
    """The part that an edit changes, in words."""
    return NAMES[TAPS[edit.kind]](edit)


def first_layer(edits: Sequence[Edit], layers: int) -> int:
    """The first block that any of the edits acts in; `layers` when none does. Its attention is still untouched."""
    return min((layers if edit.kind == "steer" else edit.layer for edit in edits), default=layers)
