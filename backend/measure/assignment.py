"""Layers matched one to one so that the sum of their scores is as large as can be.

Source: Kuhn 1955 (the Hungarian algorithm), as Dar et al. 2023, §5.1, match layers; the algorithm is scipy's (Crouse
2016). Axes: L layers of one model, M of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def assigned(score_LM: Tensor) -> list[tuple[int, int]]:
    """Pairs (row, column) by rising row, as many as the shorter side has. Raises `ValueError` for a NaN."""
    from scipy.optimize import linear_sum_assignment  # half a second, which no start of the server need wait for

    rows, columns = linear_sum_assignment(score_LM.double().cpu().numpy(), maximize=True)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def same_by_chance(rows: Sequence[int], columns: Sequence[int]) -> float:
    """How many pairs are of equal number, on average over all ways to match as many as the shorter side has.

    Each of these layers meets every layer of the longer side equally often.
    """
    return len(set(rows) & set(columns)) / max(len(rows), len(columns))


def order(pairs: list[tuple[int, int]]) -> float | None:
    """Spearman correlation of rows and columns over the pairs; None below three, for two are always in or out of order.

    All rows differ and so do all columns, so ranks have no ties.
    """
    if len(pairs) < 3:
        return None
    ranks_2N = torch.tensor(pairs).T.argsort(1).argsort(1).double()
    return float(torch.corrcoef(ranks_2N)[0, 1])
