"""One map exactly: entropy of its rows, strongest pairs, what one token looks at and who looks at it.

Axes: T queries, S keys, N strongest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend.measure.statistics import CLARK_KEPT, smoothed_uniform

ROWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Strongest:
    """The strongest keys of each row."""

    keys_TN: Tensor
    """int64, strongest first; −1 where a row has no more keys with any weight."""
    weights_TN: Tensor
    undrawn_T: Tensor
    """Share of the row's total (of its absolute values) that is not in `weights_TN`; NaN for an empty row."""


def row_entropy(map_TS: Tensor, n_T: Tensor, clark: bool = False, sinks: bool = False) -> Tensor:
    """−Σ p ln p of each row in nats; NaN for rows that see nothing, or that have no weight on what they see.

    `clark`: smoothed over all T keys. `sinks`: each row is divided by its weight on keys first.
    """
    tokens = map_TS.shape[1]
    found, mass = [], []
    for block_TS in map_TS.split(ROWS_AT_ONCE):
        wide = block_TS.double()
        mass.append(wide.sum(-1))
        if clark:
            wide = CLARK_KEPT * wide + (1 - CLARK_KEPT) / tokens
        elif sinks:
            wide = wide / mass[-1][:, None]
        found.append(torch.special.entr(wide).sum(-1))
    return torch.where((n_T > 0) & (torch.cat(mass) > 0), torch.cat(found), torch.nan).float()


def uniform_entropy(n_T: Tensor, tokens: int, clark: bool = False) -> Tensor:
    """The entropy of uniform attention over n keys: ln n; NaN where n is 0."""
    wide = n_T.double()
    plain_T = smoothed_uniform(wide, tokens) if clark else wide.log()
    return torch.where(n_T > 0, plain_T, torch.nan).float()


def strongest(values_TS: Tensor, most: int) -> Strongest:
    """The `most` values of each row that are farthest from 0."""
    count = min(most, values_TS.shape[1])
    keys, weights, undrawn = [], [], []
    for block_TS in values_TS.split(ROWS_AT_ONCE):
        total_T = block_TS.abs().sum(-1)
        size_TN, keys_TN = block_TS.abs().topk(count, dim=-1)
        weights_TN = block_TS.gather(1, keys_TN)
        keys.append(torch.where(size_TN > 0, keys_TN, -1))
        weights.append(weights_TN)
        undrawn.append((1 - size_TN.sum(-1) / total_T).clamp(min=0))
    absent = (0, most - count)
    return Strongest(
        torch.nn.functional.pad(torch.cat(keys), absent, value=-1),
        torch.nn.functional.pad(torch.cat(weights), absent),
        torch.cat(undrawn),
    )


def strongest_of(values_S: Tensor, most: int) -> list[tuple[int, float]]:
    """(place, value) of the `most` values of one row or column that are farthest from 0, zeros left out."""
    _, places = values_S.abs().topk(min(most, len(values_S)))
    return [(place, float(values_S[place])) for place in places.tolist() if float(values_S[place]) != 0.0]
