"""A layer's vectors made ready to be compared with another model's, and the score of two layers.

Axes: P and Q vectors, D width, R and S directions of the scores, H and G heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from backend.measure.embedding_space import Cast, Heads, Spaces, alike, head_correlations, plainly
from backend.models import vector_groups
from backend.models.circuits import group_of
from backend.models.loaded import Loaded
from backend.models.taps import Cancel
from backend.schema import AlignedGroup, ReadAs, VectorGroup

PARTS: dict[AlignedGroup, tuple[VectorGroup, ...]] = {
    "q": ("q",), "k": ("k",), "v": ("v",), "o": ("o",), "vo": ("v", "o"), "qk": ("q", "k"), "key": ("key",),
    "gate": ("gate",), "up": ("up",), "value": ("value",),
}  # fmt: skip
"""Whose vectors a group has; of whole heads those of the rows and of the columns of their tables."""
WHOLE_HEADS: tuple[AlignedGroup, ...] = ("vo", "qk")


@dataclass(frozen=True)
class Ready:
    """A layer's vectors, ready to be compared: in embedding space, and plainly."""

    projected: Tensor | Heads
    """float32 [P, S], led across the bridge on one side; or heads."""
    plain: Tensor | Heads
    count: int
    constant: int

    @property
    def bytes(self) -> int:
        """What it holds."""
        return sum(
            each.nbytes if isinstance(each, Tensor)
            else sum(part.apart_PR.nbytes for part in (each.rows, each.columns))
            for each in (self.projected, self.plain)
        )  # fmt: skip


def ready_of(
    loaded: Loaded, name: AlignedGroup, layer: int, reading: ReadAs, spaces: Sequence[Spaces], *, lead: bool
) -> Ready:  # fmt: skip
    """A layer's vectors; `lead`: of the first model, led across the bridge. `spaces`: of each of the group's parts."""
    if name in WHOLE_HEADS:
        return _heads(loaded, PARTS[name], layer, reading, spaces, lead=lead)
    own_PD, read_PD = _vectors(loaded, PARTS[name][0], layer, reading)
    unit_PR, constant = (spaces[0].one if lead else spaces[0].other).cast(read_PD).standard()
    if lead:
        unit_PR = unit_PR @ spaces[0].bridge_RS
    return Ready(unit_PR.float(), plainly(own_PD).standard()[0].float(), len(own_PD), constant)


def _heads(
    loaded: Loaded, parts: Sequence[VectorGroup], layer: int, reading: ReadAs, spaces: Sequence[Spaces], *, lead: bool
) -> Ready:  # fmt: skip
    projected, plain = list[Cast](), list[Cast]()
    for part, space in zip(parts, spaces, strict=True):
        own_PD, read_PD = (of_each_head(loaded, part, each) for each in _vectors(loaded, part, layer, reading))
        projected.append((space.one if lead else space.other).cast(read_PD))
        plain.append(plainly(own_PD))
    heads = loaded.anatomy.shape.heads
    made, unprojected = (Heads.of(rows, columns, heads) for rows, columns in (projected, plain))
    constant = int((~made.fit_H).sum())
    if lead:
        made = made.led(spaces[0].bridge_RS, spaces[1].bridge_RS)
    return Ready(made, unprojected, heads, constant)


def _vectors(loaded: Loaded, part: VectorGroup, layer: int, reading: ReadAs) -> tuple[Tensor, Tensor]:
    """float32 [P, D] twice: as they are, and as they meet the embedding."""
    own_PD = vector_groups.rows(loaded, part, layer)
    used = vector_groups.reader_of(loaded, part, layer, reading)
    return own_PD, used.fold(own_PD.to(used.embedding_VD.device))


def of_each_head(loaded: Loaded, part: VectorGroup, vectors_PD: Tensor) -> Tensor:
    """With the vectors of a key/value head repeated for every query head that shares it."""
    heads = vector_groups.heads_of(loaded, part)
    assert heads is not None, "vectors of heads"
    if heads == loaded.anatomy.shape.heads:
        return vectors_PD
    apart_GKD = vectors_PD.view(heads, -1, vectors_PD.shape[1])
    return apart_GKD[[group_of(loaded, head) for head in range(loaded.anatomy.shape.heads)]].flatten(0, 1)


def score_of(
    one: Tensor | Heads, other: Tensor | Heads, score: Literal["mean", "best"], cancel: Cancel | None = None
) -> float:  # fmt: skip
    """How alike two layers are, either way that they were made ready."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        found = alike(one, other, None, cancel=cancel)
        return found.mean if score == "mean" else found.best
    assert isinstance(one, Heads), "both are heads"
    assert isinstance(other, Heads), "both are heads"
    size_HG = head_correlations(one, other).abs()
    if score == "mean":
        return float(size_HG.mean())
    return float(size_HG.amax(1).mean() + size_HG.amax(0).mean()) / 2


def products(ready: Ready, theirs: Ready) -> float:
    """Multiplications that comparing two layers takes, near enough."""
    one, other = (
        each.projected if isinstance(each.projected, Tensor) else each.projected.rows.apart_PR
        for each in (ready, theirs)
    )
    return 4.0 * len(one) * len(other) * other.shape[1] + 2.0 * len(other) * other.shape[1] ** 2
