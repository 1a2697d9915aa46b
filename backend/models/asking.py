"""From a view to the rows of one batch: tokens, edits, plan, and what the tokens are.

Axes: B rows (edited, then unedited when they are compared), T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import torch

from backend import errors
from backend.measure.seen import Marks
from backend.models.checks import check_edits, idle
from backend.models.loaded import Loaded
from backend.models.naming import first_layer, named
from backend.models.plan import Plan, Row, fold
from backend.models.tokens import Tokenised, read_tokens
from backend.schema import Limits, View
from backend.schema.view import canonical_json

NOTHING_TO_COMPARE = "No edit is switched on, so there is nothing to compare with the unedited model."
ONLY_STEERS = (
    "Every edit that is on is a steer, which acts on what the output embedding takes, after the last attention: over "
    "this text no map changes, not by a bit, and the maps of both sides are the same. The probabilities of the tokens "
    "change, and with them what is written: continue the text to see other attention."
)
SINKS = (
    "This model gives part of each row to a learned sink, so rows sum to less than one. Maps and shares show the "
    "weights as they are; entropy, effective tokens and distance are those of the part on tokens, divided by its sum; "
    "the sink has a share of its own."
)
STEPS_OF_NOISE = 8
"""Differences of a few float32 steps near 1 are never called a change."""
CLARK_PUNCTUATION = {".", ","}


@dataclass(frozen=True)
class Asked:
    """A view made ready for a forward pass."""

    view: View
    read: Tokenised
    rows: tuple[Row, ...]
    plan: Plan | None
    marks: Marks
    notices: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """T."""
        return len(self.read.ids)

    @property
    def compared(self) -> bool:
        """Whether the unedited model is a second row."""
        return len(self.rows) > 1

    @property
    def ids_BT(self) -> list[tuple[int, ...]]:
        """The same ids in every row."""
        return [self.read.ids] * len(self.rows)

    @property
    def types_BT(self) -> list[tuple[int, ...]] | None:
        """Segment numbers, for models that take them."""
        return None if self.read.token_type_ids is None else [self.read.token_type_ids] * len(self.rows)

    def states_key(self) -> str:
        """Digest of all that decides the states of the model: equal keys, equal states."""
        edits = [edit.model_dump(mode="json") for edit in self.view.active_edits]
        told = [self.read.ids, self.read.token_type_ids, self.read.prompt, edits, len(self.rows)]
        return sha256(canonical_json(told).encode()).hexdigest()


def ask_model(loaded: Loaded, view: View, limits: Limits) -> Asked:
    """Tokenise, check the edits against the anatomy and fold them.

    Raises `BadQuestion`, `TooLong` or `CannotShow`, before any forward pass.
    """
    if view.reading.definitions == "clark" and view.reading.without_first:
        raise errors.BadQuestion(
            "These two readings exclude each other",
            "Clark et al. define their numbers with every key, and `without the first token` takes key 0 away",
            "Choose our definitions, or keep the first token.",
        )
    read = read_tokens(loaded, view, limits)
    check_edits(loaded.anatomy, view.active_edits, len(read.ids), loaded.vectors, loaded.card.edits)
    edited = Row(view.active_edits, read.prompt)
    compared = view.compare and bool(view.active_edits)
    rows = (edited, Row((), read.prompt)) if compared else (edited,)
    notices = read.notices
    if view.compare and not compared:
        notices += (NOTHING_TO_COMPARE,)
    notices += idle(view.active_edits, len(read.ids), read.prompt)
    notices += _after_attention(loaded, view)
    if loaded.anatomy.sinks:
        notices += (SINKS,)
    plan = fold(loaded.anatomy, rows, len(read.ids), loaded.vectors)
    return Asked(view, read, rows, plan, _marks(loaded, view, read), notices)


def _after_attention(loaded: Loaded, view: View) -> tuple[str, ...]:
    """A notice for every edit that acts after the last map is made; one for all where all are steers."""
    shape, edits = loaded.anatomy.shape, view.active_edits
    if edits and all(edit.kind == "steer" for edit in edits):
        return (ONLY_STEERS,)
    last = max(shape.attention_layers)
    return tuple(
        f"The edit of {named(edit)} acts after the last attention of the model, so no map changes; the probabilities "
        "of the tokens do."
        for edit in edits
        if first_layer([edit], shape.layers) >= last
    )


def least_noise(loaded: Loaded) -> float:
    """What a weight may differ by where nothing was edited: as measured at load, and a few steps of float32."""
    return max(loaded.noise, STEPS_OF_NOISE * torch.finfo(torch.float32).eps)


def _marks(loaded: Loaded, view: View, read: Tokenised) -> Marks:
    def mark(flags: list[bool]) -> torch.Tensor:
        return torch.tensor(flags, dtype=torch.bool, device=loaded.anatomy.device)

    every = view.reading.rows == "all"
    clark = view.reading.definitions == "clark"
    return Marks(
        rows_T=mark([every or (t.role in ("text", "continuation") and t.position > 0) for t in read.tokens]),
        separators_S=mark([token.separator for token in read.tokens]),
        punctuation_S=mark(
            [token.piece.strip() in CLARK_PUNCTUATION if clark else token.punctuation for token in read.tokens]
        ),
    )
