"""One text under many edits: variants of a view as rows of one batch, and what each does to a prediction.

Axes: B rows (the view as it is, then its variants), T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from backend.models import explain, forward
from backend.models.asking import Asked, ask_model
from backend.models.cost import SCRATCH, forward_bytes
from backend.models.explain import Pair
from backend.models.loaded import Loaded
from backend.models.plan import Row, fold
from backend.models.taps import Cancel
from backend.models.vectors import Beside
from backend.schema import Edit, Explain, Limits, View

ROWS = 32
"""Rows of a batch at most."""
TOKENS_ON_CPU, TOKENS_ON_CARD = 512, 16_384
"""Tokens of a batch, so that a question of somebody else waits for half a second and not for the whole study."""
Variant = tuple[Edit, ...]


@dataclass(frozen=True)
class Base:
    """A view, and the prediction of it that is explained."""

    asked: Asked
    pair: Pair


def base_of(loaded: Loaded, view: View, explained: Explain, limits: Limits, cancel: Cancel | None = None) -> Base:
    """Run the edited side alone and resolve target and foil. Raises as `ask_model` and `explain.resolve`."""
    asked = ask_model(loaded, edited_side(view), limits)
    final_BTD = forward.run(loaded, asked.ids_BT, asked.plan, types_BT=asked.types_BT, cancel=cancel)
    return Base(asked, explain.resolve(loaded, asked, explained, final_BTD))


def edited_side(view: View) -> View:
    """The view without a comparison: one row."""
    return view.model_copy(update={"compare": False})


def differences(
    loaded: Loaded, base: Base, variants: Sequence[Variant], own: Mapping[str, Tensor] | None = None,
    cancel: Cancel | None = None,
) -> Tensor:  # fmt: skip
    """float32 [1 + variants]: the pair's difference of the view itself, and with each variant's edits after its own.

    `own`: vectors that the variants name by made-up ids.
    """
    asked = base.asked
    first = asked.rows[0]
    rows = [first, *(Row(first.edits + variant, first.prompt) for variant in variants)]
    plan = fold(loaded.anatomy, rows, asked.tokens, Beside(loaded.vectors, own or {}))
    types_BT = None if asked.read.token_type_ids is None else [asked.read.token_type_ids] * len(rows)
    final_BTD = forward.run(loaded, [asked.read.ids] * len(rows), plan, types_BT=types_BT, cancel=cancel)
    return explain.differences(loaded, base.pair, final_BTD, plan, cancel)


def at_once(loaded: Loaded, tokens: int) -> int:
    """How many variants of a text of so many tokens make one batch, beside the view itself."""
    most = TOKENS_ON_CPU if loaded.conditions.device == "cpu" else TOKENS_ON_CARD
    return max(1, min(ROWS, most // tokens) - 1)


def batch_bytes(loaded: Loaded, view: View, limits: Limits, variants: int) -> int:
    """Bytes for a batch of the view and its variants. Raises as `tokenise`."""
    return (1 + variants) * forward_bytes(loaded, edited_side(view), limits) + SCRATCH
