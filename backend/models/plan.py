"""Plan: the edits of every row of a batch folded into tables, and which table row acts on which token.

Axes: B rows of the batch, T tokens, R rows of the tables (row 0 is the identity), N edited parts of a tap (heads,
units; a stream is one part), W numbers of a part, D width, K ranks of all steers together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.models.anatomy import Anatomy
from backend.models.naming import named, part_of, tap_of
from backend.models.vectors import NO_VECTORS, Stored
from backend.schema import At, Edit, ResidualAdd, Steer

STRONGEST = 1e6
"""What the edits of one part may amount to together: as much as one edit may ask for."""


@dataclass(frozen=True, slots=True)
class Table:
    """What happens to the edited parts of one tap: x becomes scale * x + shift."""

    parts_N: Tensor
    """Which heads or units."""
    scale_RN: Tensor
    shift_RNW: Tensor
    """W is 1 where every component is shifted alike."""


@dataclass(frozen=True, slots=True)
class Steering:
    """LM-Steer at the output embedding: c becomes c + ((c left) * amount) right."""

    left_DK: Tensor
    right_KD: Tensor
    amount_RK: Tensor
    """The strength of each steer, repeated over its ranks."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Edits as tensors. Nothing in a tap depends on anything else."""

    tables: Mapping[str, Table]
    """By tap, such as `heads.3`, `ffn.0`, `ffn_out.0` or `residual.11`."""
    row_BT: Tensor
    """int64: the table row that acts on each token."""
    steering: Steering | None = None
    edits: tuple[tuple[Edit, ...], ...] = ((),)
    """What each table row holds."""

    def part(self, first: int, last: int | None = None) -> Plan:
        """The same edits for the tokens [first, last) alone, such as those of one step of a cached decoding."""
        return replace(self, row_BT=self.row_BT[:, first:last])

    def row(self, place: int) -> Plan:
        """The same edits for one row of the batch."""
        return replace(self, row_BT=self.row_BT[place : place + 1])


@dataclass(frozen=True, slots=True)
class Row:
    """The edits of one text of a batch."""

    edits: tuple[Edit, ...]
    prompt: int
    """How many of its tokens are prompt; the later ones are generated."""
    tokens: int | None = None
    """How many tokens it has; None: all that are left of its row. What is missing to the left is padding."""


Fold = Callable[..., tuple[Any, Any]]


def _scaled(edit: Any, scale: Any, shift: Any, stored: Stored) -> tuple[Any, Any]:
    return scale * edit.by, shift * edit.by


def _set(edit: Any, scale: Any, shift: Any, stored: Stored) -> tuple[Any, Any]:
    return 0.0, stored.direction(edit.to).vector_D if isinstance(edit.to, str) else edit.to


def _added(edit: ResidualAdd, scale: Any, shift: Any, stored: Stored) -> tuple[Any, Any]:
    return scale, shift + edit.by * stored.direction(edit.vector).vector_D


FOLDS: dict[str, Fold] = {
    "head.scale": _scaled, "head.set": _set, "ffn.scale": _scaled, "ffn.set": _set,
    "ffn_out.set": _set, "residual.add": _added, "residual.set": _set,
}  # fmt: skip
"""How each kind of edit changes the scale and shift that stand so far; `steer` has no order and adds up instead."""


def fold(
    anatomy: Anatomy, rows: Sequence[Row | Sequence[Row]], tokens: int, stored: Stored = NO_VECTORS
) -> Plan | None:
    """One plan for a batch; None when no row has an edit. Edits act in the order listed.

    Each of `rows` is one text, padded on the left when it has fewer than `tokens`, or several texts packed one after
    the other. Raises `CannotShow` when edits are too strong together, `UnknownVector` when a stored one is not here.
    """
    combinations: dict[tuple[Edit, ...], int] = {(): 0}
    row_BT = torch.stack([_row(row, tokens, combinations) for row in rows])
    if len(combinations) == 1:
        return None
    listed = list(combinations)
    taps = dict.fromkeys(tap_of(edit) for edits in listed for edit in edits if not isinstance(edit, Steer))
    return Plan(
        tables={tap: _table(anatomy, tap, listed, stored) for tap in sorted(taps)},
        row_BT=row_BT.to(anatomy.device),
        steering=_steering(anatomy, listed, stored),
        edits=tuple(listed),
    )


def identity(anatomy: Anatomy, batch: int, tokens: int) -> Plan:
    """A plan that visits every tap of a model and changes nothing."""
    shape = anatomy.shape
    sizes = {f"heads.{layer}": shape.heads for layer in anatomy.projections}
    sizes |= {f"ffn.{layer}": anatomy.units or 0 for layer in anatomy.write}
    sizes |= {f"ffn_out.{layer}": 1 for layer in anatomy.feeds}
    sizes |= {f"residual.{layer}": 1 for layer in range(shape.layers if anatomy.stream else 0)}
    tables = {}
    for tap, parts in sizes.items():
        device = _device(anatomy, tap)
        ones, zeros = torch.ones(1, parts, device=device), torch.zeros(1, parts, 1, device=device)
        tables[tap] = Table(torch.arange(parts, device=device), ones, zeros)
    return Plan(tables, torch.zeros(batch, tokens, dtype=torch.int64, device=anatomy.device))


def _row(row: Row | Sequence[Row], tokens: int, combinations: dict[tuple[Edit, ...], int]) -> Tensor:
    """int64 [T]: the table row of each token of one row of the batch."""
    texts = [row] if isinstance(row, Row) else row
    lengths = [tokens if text.tokens is None else text.tokens for text in texts]
    found = [_table_rows(text, length, combinations) for text, length in zip(texts, lengths, strict=True)]
    padding = torch.zeros(tokens - sum(lengths), dtype=torch.int64)
    return torch.cat([padding, *found])


def _table_rows(row: Row, tokens: int, combinations: dict[tuple[Edit, ...], int]) -> Tensor:
    """int64 [T]: the table row of each token of a text; combinations of edits not met before are numbered on."""
    if not row.edits:
        return torch.zeros(tokens, dtype=torch.int64)
    acts_ET = torch.stack([acts_on(edit.at, tokens, row.prompt) for edit in row.edits])
    kinds_EK, kind_T = acts_ET.unique(dim=1, return_inverse=True)
    numbers = [
        combinations.setdefault(tuple(compress(row.edits, kind)), len(combinations)) for kind in kinds_EK.T.tolist()
    ]
    return torch.tensor(numbers)[kind_T]


def acts_on(at: At, tokens: int, prompt: int) -> Tensor:
    """Which tokens `at` names, as bool [T]."""
    positions_T = torch.arange(tokens)
    if at == "all":
        return torch.ones(tokens, dtype=torch.bool)
    if at == "prompt":
        return positions_T < prompt
    if at == "generated":
        return positions_T >= prompt
    return torch.isin(positions_T, torch.tensor(at))


def _table(anatomy: Anatomy, tap: str, combinations: list[tuple[Edit, ...]], stored: Stored) -> Table:
    """The edits of one tap, folded for every combination."""
    acting = [[edit for edit in edits if tap_of(edit) == tap] for edits in combinations]
    parts = sorted({part_of(edit) for edits in acting for edit in edits})
    scale_RN = torch.ones(len(combinations), len(parts))
    shifts: dict[tuple[int, int], Tensor] = {}
    for row, edits in enumerate(acting):
        for edit in edits:
            place = parts.index(part_of(edit))
            shift_W = shifts.get((row, place), torch.zeros(1))
            scale, shift = FOLDS[edit.kind](edit, scale_RN[row, place].item(), shift_W, stored)
            shift_W = torch.as_tensor(shift, dtype=torch.float32).reshape(-1)
            _check_strength(edit, max(abs(scale), float(shift_W.abs().max())))
            scale_RN[row, place], shifts[row, place] = scale, shift_W
    width = max((len(shift_W) for shift_W in shifts.values()), default=1)
    shift_RNW = torch.zeros(len(combinations), len(parts), width)
    for (row, place), shift_W in shifts.items():
        shift_RNW[row, place] = shift_W
    device = _device(anatomy, tap)
    return Table(torch.tensor(parts).to(device), scale_RN.to(device), shift_RNW.to(device))


def _device(anatomy: Anatomy, tap: str) -> torch.device:
    layer = int(tap.partition(".")[2])
    return next(anatomy.blocks[layer].parameters()).device


def _steering(anatomy: Anatomy, combinations: list[tuple[Edit, ...]], stored: Stored) -> Steering | None:
    """Every steer met, side by side along the ranks, with its strength for every combination."""
    ids = list(dict.fromkeys(edit.steer for edits in combinations for edit in edits if isinstance(edit, Steer)))
    if not ids or anatomy.unembedding is None:
        return None
    matrices = [stored.steer(id) for id in ids]
    amount_RS = torch.zeros(len(combinations), len(ids))
    for row, edits in enumerate(combinations):
        for edit in edits:
            if isinstance(edit, Steer):
                amount_RS[row, ids.index(edit.steer)] += edit.by
                _check_strength(edit, float(amount_RS[row].abs().max()))
    ranks_S = torch.tensor([len(matrix.right_KD) for matrix in matrices])
    device = anatomy.unembedding.get_parameter("weight").device
    return Steering(
        torch.cat([matrix.left_DK for matrix in matrices], dim=1).to(device),
        torch.cat([matrix.right_KD for matrix in matrices]).to(device),
        amount_RS.repeat_interleave(ranks_S, dim=1).to(device),
    )


def _check_strength(edit: Edit, strength: float) -> None:
    if not strength <= STRONGEST:  # NaN, too
        raise errors.CannotShow(
            f"The edits of {named(edit)} are too strong",
            f"taken together they multiply or set it by {strength:.3g}, and beyond {STRONGEST:.0e} the model's own "
            "numbers would overflow and every answer would be meaningless",
            "Take some of them out, or choose smaller strengths.",
            needed=strength,
            available=STRONGEST,
        )
