"""Spans: the stretches of a text whose numbers sum to the most, exactly, and how much chance alone would give.

At most n spans of at most l tokens, no two next to each other (two that touch would be one of more than l): so LM-Steer
(Han et al. 2024) picks what in a text shows a steer. Here the search is a dynamic programme over many orders at once.
With C the running sums and S_k[t] the best of at most k spans among the first t tokens,

    S_k[t] = max(S_k[t−1], S_{k−1}[t], C[t] + max over t−l ≤ i < t of (S_{k−1}[max(i−1, 0)] − C[i])),

where i is the first token of a span that ends before t. No span is taken whose sum is not above 0.
Axes: P orders of the same numbers, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, pad

BLOCK_NUMBERS = 1 << 20
"""float64 numbers of one table at a time."""
ROUNDING = 1e-9
"""Sums of the same numbers in another order may lie so far apart, relative to the sum of their sizes."""


@dataclass(frozen=True)
class Best:
    """The spans [first, last) with the greatest sum together, in the order of the text."""

    spans: tuple[tuple[int, int, float], ...]
    """First token, the one behind the last, and the sum."""
    total: float


@dataclass(frozen=True)
class Chance:
    """What random orders of the same numbers give."""

    p: float
    """(1 + orders whose best spans sum to as much) / (1 + orders): Phipson and Smyth 2010."""
    mean: float
    """Of their best sums."""


def best_spans(values_T: Tensor, most: int, longest: int) -> Best:
    """The spans themselves; of equal sums the fewest and shortest, then those that end first."""
    values_T = values_T.double()
    if not len(values_T):
        return Best((), 0.0)
    sums_1C, tables = _running(values_T[None]), []
    for table_1C in _tables(values_T[None], most, longest):
        tables.append(table_1C[0].tolist())
    found = _traced(sums_1C[0].tolist(), tables, longest)
    return Best(tuple(found), sum(sum_ for _, _, sum_ in found))


def best_sums(values_PT: Tensor, most: int, longest: int) -> Tensor:
    """float64 [P]: what the best spans of each row sum to."""
    if not values_PT.shape[1]:
        return torch.zeros(len(values_PT), dtype=torch.float64)
    *_, last_PC = _tables(values_PT.double(), most, longest)
    return last_PC[:, -1]


def by_chance(
    values_T: Tensor, most: int, longest: int, orders: int, *, seed: int = 0, cancel: Callable[[], None] | None = None
) -> Chance:
    """The best sum against those of random orders of the same numbers: the same for the same seed."""
    values_T, dice = values_T.double(), torch.Generator().manual_seed(seed)
    own = float(best_sums(values_T[None], most, longest)[0])
    least = own - ROUNDING * float(values_T.abs().sum())
    as_much, total = 0, 0.0
    rows = max(1, BLOCK_NUMBERS // (len(values_T) + 1))
    for first in range(0, orders, rows):
        if cancel is not None:
            cancel()
        shape = (min(rows, orders - first), len(values_T))
        best_P = best_sums(values_T[torch.rand(shape, generator=dice).argsort(-1)], most, longest)
        as_much += int((best_P >= least).sum())
        total += float(best_P.sum())
    return Chance(p=(1 + as_much) / (1 + orders), mean=total / orders)


def _running(values_PT: Tensor) -> Tensor:
    """C: sums of the first 0, 1, … T numbers."""
    return pad(values_PT.cumsum(-1), (1, 0))


def _tables(values_PT: Tensor, most: int, longest: int) -> Sequence[Tensor]:
    """S_0, S_1, … up to `most`, each [P, T + 1]; fewer where a text has no room for more spans."""
    sums_PC = _running(values_PT)
    tokens = values_PT.shape[1]
    tables = [torch.zeros_like(sums_PC)]
    for _ in range(min(most, (tokens + 1) // 2)):
        before_PC = tables[-1]
        starts_PT = torch.cat([before_PC[:, :1], before_PC[:, : tokens - 1]], 1) - sums_PC[:, :-1]
        reach = min(longest, tokens)
        best_PT = max_pool1d(pad(starts_PT, (reach - 1, 0), value=-torch.inf), reach, stride=1)
        ended_PC = torch.maximum(pad(best_PT + sums_PC[:, 1:], (1, 0)), before_PC)
        tables.append(ended_PC.cummax(-1).values)
    return tables


def _traced(sums: list[float], tables: list[list[float]], longest: int) -> list[tuple[int, int, float]]:
    """The spans of the last table, found from its end."""
    found, spans, end = list[tuple[int, int, float]](), len(tables) - 1, len(sums) - 1
    while spans and end > 0:
        here = tables[spans][end]
        if here == tables[spans][end - 1]:
            end -= 1
        elif here == tables[spans - 1][end]:
            spans -= 1
        else:
            before = tables[spans - 1]
            start = max(range(max(0, end - longest), end), key=lambda i: (before[max(i - 1, 0)] - sums[i], i))
            found.append((start, end, sums[end] - sums[start]))
            spans, end = spans - 1, max(start - 1, 0)
    return found[::-1]
