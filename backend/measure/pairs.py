"""The top pairs of a product A Bᵀ that is never held: exact, filtered inside the search, in memory that grows with V.

Blocks of A Bᵀ are made in float32 and compared, row maxima first, with the score of the worst pair that is kept. Rows
and columns are taken by falling length, and |a · b| ≤ ‖a‖ ‖b‖ ends the search where no pair can be kept any more. What
may be kept is scored again in float64, so that the answer does not depend on the blocks or the device; a pair counts as
out only when float32's rounding cannot have hidden it. Of equal scores the lower row is first, then the lower column.
Source: the tables are those of Dar et al. 2023, "Analyzing transformers in embedding space", §4.
Axes: V vocabulary, K numbers of a head, R rows and C columns of a block, N pairs, M candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

Cancel = Callable[[], None]
ROUNDING = 2.0**-24
"""Relative error of one float32 operation."""
TILES = {"cpu": (512, 2048), "cuda": (4096, 65536)}
"""Rows and columns of a block: one that stays in a processor's cache, or one that fills a GPU."""
AT_ONCE = 1 << 16
"""Candidates that are scored again at a time."""


def nobody() -> None:
    """Somebody waits for the answer."""


@dataclass(frozen=True)
class Pairs:
    """The best pairs, the best first; on the CPU."""

    row_N: Tensor
    """int64."""
    column_N: Tensor
    score_N: Tensor
    """float64."""
    allowed: int
    """Pairs that the filters let through."""
    made: float
    """Share of the allowed rows × columns whose product had to be made."""


def top_pairs(
    a_VK: Tensor, b_VK: Tensor, top: int, *, rows: Tensor | None = None, columns: Tensor | None = None,
    group_V: Tensor | None = None, lowest: bool = False, cancel: Cancel = nobody, tile: tuple[int, int] | None = None,
) -> Pairs:  # fmt: skip
    """The `top` largest, or `lowest`, entries of A Bᵀ (float32 in) among some rows and columns (ids; None: all).

    `group_V`: a row and a column of the same group are no pair. Fewer pairs come back where fewer are allowed.
    """
    rows = torch.arange(len(a_VK)) if rows is None else rows
    columns = torch.arange(len(b_VK)) if columns is None else columns
    one = _Side.of(-a_VK if lowest else a_VK, rows.to(a_VK.device))
    other = _Side.of(b_VK, columns.to(a_VK.device))
    tile = tile or TILES[a_VK.device.type]
    left_out = _LeftOut.of(one, other, group_V, tile)
    best = _Best.empty(top, max(len(a_VK), len(b_VK)), a_VK.device)
    made = 0
    for block_RC, first_row, first_column, rounding in _blocks(one, other, left_out, best, tile, cancel):
        made += block_RC.numel()
        best.take(one, other, block_RC, first_row, first_column, rounding)
    score_N = best.score_N.cpu()
    every_pair = len(one.id_X) * len(other.id_X)
    return Pairs(
        best.row_N.cpu(), best.column_N.cpu(), -score_N if lowest else score_N, every_pair - left_out.pairs,
        made / every_pair if every_pair else 0.0,
    )  # fmt: skip


@dataclass(frozen=True)
class _Side:
    """The rows of A, or of B, that may take part: the longest first, of equally long ones the lower id."""

    id_X: Tensor
    vector_XK: Tensor
    length_X: Tensor
    """float64, and on the CPU."""

    @classmethod
    def of(cls, vector_VK: Tensor, id_X: Tensor) -> _Side:
        vector_XK = vector_VK[id_X]
        length_X = torch.linalg.vector_norm(vector_XK, dim=1, dtype=torch.float64)
        order_X = length_X.argsort(descending=True, stable=True)
        return cls(id_X[order_X], vector_XK[order_X], length_X[order_X].cpu())


@dataclass(frozen=True)
class _LeftOut:
    """Pairs of one group, by the block in which they lie."""

    pairs: int
    starts: list[int]
    row_P: Tensor
    column_P: Tensor
    across: int
    """Blocks side by side."""

    @classmethod
    def of(cls, one: _Side, other: _Side, group_V: Tensor | None, tile: tuple[int, int]) -> _LeftOut:
        across, down = -(-len(other.id_X) // tile[1]), -(-len(one.id_X) // tile[0])
        if group_V is None:
            nothing = one.id_X[:0]
            return cls(0, [0] * (across * down + 1), nothing, nothing, across)
        group_V = group_V.to(one.id_X.device)
        row_P, column_P = _same(group_V[one.id_X], group_V[other.id_X])
        block_P = row_P // tile[0] * across + column_P // tile[1]
        order_P = block_P.argsort(stable=True)
        starts = torch.searchsorted(block_P[order_P], torch.arange(across * down + 1, device=block_P.device)).tolist()
        return cls(len(row_P), starts, row_P[order_P], column_P[order_P], across)

    def strike(self, block_RC: Tensor, number: int, first_row: int, first_column: int) -> None:
        """Make the pairs of one block impossible."""
        here = slice(self.starts[number], self.starts[number + 1])
        if here.start < here.stop:
            block_RC[self.row_P[here] - first_row, self.column_P[here] - first_column] = -torch.inf


def _same(group_R: Tensor, group_C: Tensor) -> tuple[Tensor, Tensor]:
    """Every place of one list with every place of the other that is of the same group."""
    order_C = group_C.argsort(stable=True)
    sorted_C = group_C[order_C]
    first_R = torch.searchsorted(sorted_C, group_R)
    count_R = torch.searchsorted(sorted_C, group_R, right=True) - first_R
    row_P = torch.repeat_interleave(torch.arange(len(group_R), device=group_R.device), count_R)
    within_P = torch.arange(len(row_P), device=row_P.device) - (count_R.cumsum(0) - count_R)[row_P]
    return row_P, order_C[first_R[row_P] + within_P]


def _blocks(
    one: _Side, other: _Side, left_out: _LeftOut, best: _Best, tile: tuple[int, int], cancel: Cancel
) -> Iterator[tuple[Tensor, int, int, float]]:
    """Blocks in which a pair may be found, where each begins, and how far its numbers may be off."""
    held_X = one.vector_XK.new_empty(min(tile[0], len(one.id_X)) * min(tile[1], len(other.id_X)))
    rounding = ROUNDING * one.vector_XK.shape[1]
    for row in range(0, len(one.id_X), tile[0]):
        for column in range(0, len(other.id_X), tile[1]):
            cancel()
            longest = float(one.length_X[row] * other.length_X[column])
            if longest * (1 + rounding) < best.least:
                break  # nor can any column behind it
            a_RK, b_CK = one.vector_XK[row : row + tile[0]], other.vector_XK[column : column + tile[1]]
            block_RC = held_X[: len(a_RK) * len(b_CK)].view(len(a_RK), len(b_CK))
            torch.mm(a_RK, b_CK.T, out=block_RC)
            left_out.strike(block_RC, row // tile[0] * left_out.across + column // tile[1], row, column)
            yield block_RC, row, column, rounding * longest


@dataclass
class _Best:
    """The best pairs so far, the best first."""

    top: int
    vocabulary: int
    row_N: Tensor
    column_N: Tensor
    score_N: Tensor
    least: float = -torch.inf
    """What a pair must reach; below it nothing is kept any more."""

    @classmethod
    def empty(cls, top: int, vocabulary: int, device: torch.device) -> _Best:
        ids = torch.empty(0, dtype=torch.int64, device=device)
        return cls(top, vocabulary, ids, ids, torch.empty(0, dtype=torch.float64, device=device))

    def take(self, one: _Side, other: _Side, block_RC: Tensor, row: int, column: int, rounding: float) -> None:
        """Keep what is better in a block, whose numbers may be off by `rounding`."""
        if not rounding:  # all are equal to 0: the first in order are enough
            self._take_zeros(one, other, block_RC, row, column)
            return
        least = self.least - rounding
        most_R = block_RC.amax(1)
        reach_M = (most_R >= least).nonzero()[:, 0]
        if not len(reach_M):
            return
        if self.least == -torch.inf or len(reach_M) > len(most_R) // 8:
            least = max(least, self._least_of(block_RC, most_R) - 2 * rounding)
            reach_M = (most_R >= least).nonzero()[:, 0]
        found_MC = block_RC[reach_M]
        place_M, column_M = ((found_MC >= least) & (found_MC > -torch.inf)).nonzero(as_tuple=True)
        self._take(one, other, reach_M[place_M] + row, column_M + column, rounding)

    def _least_of(self, block_RC: Tensor, most_R: Tensor) -> float:
        """The score of the block's worst pair that may be kept, judged by this block alone."""
        if block_RC.numel() <= self.top:
            return -torch.inf
        if len(most_R) > self.top:  # a row's best is a pair: as many pairs lie above the last of them
            rough = most_R.topk(self.top).values[-1]
            block_RC = block_RC[most_R >= rough]
        return float(block_RC.flatten().topk(self.top).values[-1])

    def _take(self, one: _Side, other: _Side, row_M: Tensor, column_M: Tensor, rounding: float) -> None:
        for first in range(0, len(row_M), AT_ONCE):
            r_M, c_M = row_M[first : first + AT_ONCE], column_M[first : first + AT_ONCE]
            score_M = (one.vector_XK[r_M].double() * other.vector_XK[c_M].double()).sum(1)
            self._merge(one.id_X[r_M], other.id_X[c_M], score_M)

    def _take_zeros(self, one: _Side, other: _Side, block_RC: Tensor, row: int, column: int) -> None:
        row_R, column_C = one.id_X[row : row + block_RC.shape[0]], other.id_X[column : column + block_RC.shape[1]]
        row_order, column_order = row_R.argsort(), column_C.argsort()
        left = self.top
        for place in row_order.tolist():
            kept_M = column_order[block_RC[place, column_order] > -torch.inf][:left]
            self._merge(row_R[place].expand(len(kept_M)), column_C[kept_M], torch.zeros_like(kept_M).double())
            left -= len(kept_M)
            if left <= 0:
                return

    def _merge(self, row_M: Tensor, column_M: Tensor, score_M: Tensor) -> None:
        row_M, column_M = torch.cat([self.row_N, row_M]), torch.cat([self.column_N, column_M])
        score_M = torch.cat([self.score_N, score_M])
        by_id_M = (row_M * self.vocabulary + column_M).argsort()
        kept_N = by_id_M[score_M[by_id_M].argsort(descending=True, stable=True)][: self.top]
        self.row_N, self.column_N, self.score_N = row_M[kept_N], column_M[kept_N], score_M[kept_N]
        if len(kept_N) == self.top:
            self.least = float(self.score_N[-1])
