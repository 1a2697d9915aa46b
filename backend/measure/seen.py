"""What each query may see: counts and places under the mask that was really used.

Axes: T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

OFFSETS = {"previous": -1, "self": 0, "next": 1}
"""Key minus query of the statistics that look at one diagonal."""
CELLS_AT_ONCE = 1 << 20
"""Of a mask that is read: enough to fill a graphics card, few enough for the processor's cache."""


@dataclass(frozen=True)
class Marks:
    """What the tokens are."""

    rows_T: Tensor
    """bool: the query rows that statistics are averaged over."""
    separators_S: Tensor
    """bool."""
    punctuation_S: Tensor
    """bool."""

    def to(self, device: torch.device) -> Marks:
        """The same marks on a device."""
        return Marks(self.rows_T.to(device), self.separators_S.to(device), self.punctuation_S.to(device))


@dataclass(frozen=True)
class Seen:
    """Facts about one mask, all float32 [T] unless said otherwise."""

    n_T: Tensor
    """How many keys each query sees: n_i."""
    low: tuple[int, ...]
    high: tuple[int, ...]
    """Each query sees keys of [low, high) only."""
    targets: dict[str, Tensor]
    """How many keys of each kind it sees: previous, self, next, first (0 or 1), separators, punctuation."""
    distance_T: Tensor
    """Mean |query − key| over the keys it sees."""
    backward: bool
    """No query sees a later key."""
    between: bool
    """Every query sees all keys of its [low, high)."""


def seen(mask_TS: Tensor | None, tokens: int, marks: Marks, without_first: bool = False) -> Seen:
    """Read a mask (True: visible; None: everything is). `without_first` takes key 0 away from every query."""
    device = marks.rows_T.device
    keys_S = torch.arange(tokens, device=device, dtype=torch.float32)
    kinds_SK = torch.stack([torch.ones_like(keys_S), marks.separators_S.float(), marks.punctuation_S.float()], 1)
    counts, distances, low, high = [], [], [], []
    at_once = max(1, CELLS_AT_ONCE // tokens)
    for start in range(0, tokens, at_once):
        block_TS = _visible(mask_TS, start, min(start + at_once, tokens), tokens, device, without_first)
        counts.append(block_TS.float() @ kinds_SK)
        queries_T = torch.arange(start, start + len(block_TS), device=device)
        distances.append(((queries_T[:, None] - keys_S).abs() * block_TS).sum(1))
        low.append(torch.where(block_TS.any(1), block_TS.int().argmax(1), 0))
        high.append(torch.where(block_TS.any(1), tokens - block_TS.flip(1).int().argmax(1), 0))
    counts_TK = torch.cat(counts)
    n_T = counts_TK[:, 0]
    low_T, high_T, here_T = torch.stack(
        [torch.cat(low), torch.cat(high), n_T.long()]
    ).cpu()  # the card is waited for once
    targets = {name: _diagonal(mask_TS, tokens, offset, device, without_first) for name, offset in OFFSETS.items()}
    targets["first"] = _first(mask_TS, tokens, device, without_first)
    targets |= {"separators": counts_TK[:, 1], "punctuation": counts_TK[:, 2]}
    return Seen(
        n_T=n_T, low=tuple(low_T.tolist()), high=tuple(high_T.tolist()), targets=targets,
        distance_T=torch.cat(distances) / n_T, backward=bool((high_T <= torch.arange(1, tokens + 1)).all()),
        between=bool((here_T == high_T - low_T).all()),
    )  # fmt: skip


def _visible(
    mask_TS: Tensor | None, start: int, end: int, tokens: int, device: torch.device, without_first: bool
) -> Tensor:
    if mask_TS is None:
        block = torch.ones(end - start, tokens, dtype=torch.bool, device=device)
    else:
        block = mask_TS[start:end].to(device, copy=True)
    if without_first:
        block[:, 0] = False
    return block


def _diagonal(mask_TS: Tensor | None, tokens: int, offset: int, device: torch.device, without_first: bool) -> Tensor:
    """Whether query i sees key i + offset."""
    sees_T = torch.zeros(tokens, device=device)
    start = max(0, -offset)
    length = tokens - abs(offset)
    if length > 0:
        sees_T[start : start + length] = 1.0 if mask_TS is None else mask_TS.diagonal(offset).to(sees_T)
    if without_first and -offset in range(tokens):
        sees_T[-offset] = 0.0
    return sees_T


def _first(mask_TS: Tensor | None, tokens: int, device: torch.device, without_first: bool) -> Tensor:
    if without_first:
        return torch.zeros(tokens, device=device)
    return torch.ones(tokens, device=device) if mask_TS is None else mask_TS[:, 0].to(device, torch.float32)
