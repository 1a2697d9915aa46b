"""The sliders of a view: its active steers and directions, and the final states of its text with and without them.

A steer acts on what the output embedding takes, so it changes no final state: these are kept by the text and all other
edits, and a new value of a steer needs no forward pass. A direction (`residual.add`) changes them, and its strength is
part of what they are kept by.
Axes: T tokens, N chosen tokens, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import torch
from torch import Tensor

from backend import errors
from backend.models import forward
from backend.models.checks import check_edits, idle
from backend.models.cost import SCRATCH, forward_bytes
from backend.models.loaded import Loaded
from backend.models.plan import Plan, Row, fold
from backend.models.taps import Cancel
from backend.models.tokens import Tokenised, read_tokens
from backend.schema import SLIDERS, Ability, Edit, Limits, ResidualAdd, Steer, View
from backend.schema.view import canonical_json

NO_SLIDER = "No slider is on, so nothing is compared: both sides are the same model."
HALF = (
    "This model runs in {dtype}: its states and logits are rounded, so neighbouring logits lie up to {step:.2g} apart "
    "here and a small move of a slider may show as none. What each slider adds is computed in float32."
)
FEW_BITS = ("float16", "bfloat16")


def is_slider(edit: Edit) -> bool:
    """Whether an edit is a slider."""
    return edit.kind in SLIDERS


def places(view: View) -> tuple[int, ...]:
    """Where the active sliders stand in `view.edits`."""
    return tuple(place for place, edit in enumerate(view.edits) if edit.on and is_slider(edit))


def without(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """All edits that are no sliders."""
    return tuple(edit for edit in edits if not is_slider(edit))


def turned(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The same with the strength of every slider negated."""
    return tuple(
        edit.model_copy(update={"by": -edit.by}) if isinstance(edit, Steer | ResidualAdd) else edit for edit in edits
    )


def ability(loaded: Loaded) -> Ability:
    """Whether there is a next token that a slider could move."""
    if loaded.anatomy.unembedding is None or not loaded.anatomy.shape.causal:
        return Ability(can=False, why="it predicts no token from those to its left")
    taps = [loaded.card.edits[tap] for tap in ("unembed", "residual") if tap in loaded.card.edits]
    can = any(tap.can for tap in taps)
    return Ability(can=can, why="" if can else "; ".join(dict.fromkeys(tap.why for tap in taps)))


def check_offered(loaded: Loaded) -> None:
    """Raise `CannotShow` where there is none."""
    offered = ability(loaded)
    if not offered.can:
        raise errors.CannotShow(
            "This model cannot be steered", offered.why,
            "Choose a model that predicts the next token; attention can be looked at in this one.",
        )  # fmt: skip


@dataclass
class Asked:
    """A view whose sliders are asked about. For the model's thread."""

    loaded: Loaded
    view: View
    read: Tokenised
    notices: tuple[str, ...]
    cancel: Cancel | None = None
    ran: bool = field(default=False, init=False)
    """Whether a forward pass was needed so far."""

    @classmethod
    def of(cls, loaded: Loaded, view: View, limits: Limits, cancel: Cancel | None = None) -> Asked:
        """Tokenise and check the edits. Raises `CannotShow` where nothing can be steered, and as `tokenise`."""
        check_offered(loaded)
        read, edits = read_tokens(loaded, view, limits), view.active_edits
        check_edits(loaded.anatomy, edits, len(read.ids), loaded.vectors, loaded.card.edits)
        notices = read.notices + idle(edits, len(read.ids), read.prompt)
        return cls(loaded, view, read, notices + (() if places(view) else (NO_SLIDER,)), cancel)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The active edits."""
        return self.view.active_edits

    @property
    def sliders(self) -> tuple[Edit, ...]:
        """The active sliders, in order."""
        return tuple(filter(is_slider, self.edits))

    def states(self, edits: Iterable[Edit]) -> Tensor:
        """The final states_TD of the text under some edits, whose steers do not matter; kept for the next question."""
        acting = tuple(edit for edit in edits if edit.kind != "steer" and not _is_nothing(edit))
        key = self._key(acting)
        kept: Tensor | None = self.loaded.kept.find(key)
        if kept is not None:
            return kept
        self.ran, read = True, self.read
        plan = fold(self.loaded.anatomy, [Row(acting, read.prompt)], len(read.ids), self.loaded.vectors)
        types_BT = None if read.token_type_ids is None else [read.token_type_ids]
        states_TD = forward.run(self.loaded, [read.ids], plan, types_BT=types_BT, cancel=self.cancel)[0]
        self.loaded.kept.keep(key, states_TD, states_TD.nbytes)
        return states_TD

    def steers(self, *sides: Iterable[Edit]) -> list[Plan | None]:
        """For each side the plan of its steers alone, over the tokens of the text; one set of tables for all sides."""
        rows = [Row(tuple(edit for edit in side if edit.kind == "steer"), self.read.prompt) for side in sides]
        plan = fold(self.loaded.anatomy, rows, len(self.read.ids), self.loaded.vectors)
        return [None if plan is None else plan.row(place) for place in range(len(rows))]

    def _key(self, edits: Sequence[Edit]) -> str:
        told = [self.read.ids, self.read.token_type_ids, self.read.prompt,
                [edit.model_dump(mode="json") for edit in edits]]  # fmt: skip
        return f"final {sha256(canonical_json(told).encode()).hexdigest()}"


def _is_nothing(edit: Edit) -> bool:
    """A direction at 0 changes nothing, so it needs no pass of its own."""
    return edit.kind == "residual.add" and edit.by == 0


def read_sides(
    loaded: Loaded,
    sides: Sequence[tuple[Tensor, Plan | None]],
    tokens: slice | Sequence[int],
    read: Mapping[str, Callable[[Tensor], None]] | None = None,
) -> list[Tensor]:
    """float32 logits_NV of each side at some tokens, all in one read-out: its final states_TD, and its steers.

    Raises `CannotShow` where they are no numbers any more, as under strong steers in half precision.
    """
    states_ND = torch.cat([states_TD[tokens] for states_TD, _ in sides])
    plan = next((plan for _, plan in sides if plan is not None), None)
    if plan is not None:
        rows = [torch.zeros_like(plan.row_BT) if steers is None else steers.row_BT for _, steers in sides]
        plan = Plan({}, torch.cat([row_BT[:, tokens] for row_BT in rows], 1), plan.steering)
    logits_NV = forward.read_out(loaded, states_ND, plan, read=read).float()
    if not bool(logits_NV.amax(-1).isfinite().all()):
        raise forward.breaks_down(loaded.model.dtype, edited=plan is not None)
    return list(logits_NV.chunk(len(sides)))


def sliders_bytes(loaded: Loaded, view: View, limits: Limits, read: int) -> int:
    """Bytes for the forward pass, the states that are kept, and `read` rows of logits with their float64 copies."""
    alone = view.model_copy(update={"compare": False})
    tokens = len(read_tokens(loaded, view, limits).ids)
    directions = sum(edit.kind == "residual.add" for edit in view.active_edits)
    states = (2 + directions) * tokens * loaded.anatomy.shape.width * loaded.model.dtype.itemsize
    return forward_bytes(loaded, alone, limits) + states + read * loaded.anatomy.shape.vocabulary * 8 * 6 + SCRATCH


def half(loaded: Loaded, step: float) -> tuple[str, ...]:
    """What half precision means here."""
    dtype = loaded.conditions.dtype
    return (HALF.format(dtype=dtype, step=step),) if dtype in FEW_BITS else ()


def step_of(loaded: Loaded, most: float) -> float:
    """How far neighbouring numbers of the model's dtype lie apart at a size."""
    eps = torch.finfo(loaded.model.dtype).eps
    return float(eps * 2.0 ** torch.tensor(max(abs(most), 1e-30)).log2().floor())
