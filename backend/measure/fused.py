"""Statistics and thumbnails straight from queries and keys, on a graphics card: T x S is never written.

One program takes the rows of one cell of one head: a first walk over the keys finds each row's maximum and sum, a
second one computes the weights again, cell by cell, and adds them up. Products are exact and sums float32 whatever the
model runs in. Only what was seen to equal the maps of the eager function comes this way (`models/promises.py`).
Axes: H heads, G key/value heads, T queries, S keys, D head width, Q and K cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

NAMES = ("entropy", "previous", "self", "next", "first", "sum", "separators", "punctuation", "distance")
"""What is summed row by row, in the order of the kernel's output."""
LONGEST_CELL = 128
"""Tokens of a cell that one program still takes."""
WIDEST_HEAD = 256
ROWS_AT_ONCE = 64
"""Rows of a program where no thumbnail gives cells."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What the weights are the softmax of: cap * tanh(q k scale / cap), or q k scale where `cap` is 0."""

    query_HTD: Tensor
    key_GSD: Tensor
    scale: float
    cap: float = 0.0


def together(layers: Sequence[Scores]) -> Scores:
    """Layers as one, their heads one after the other: query_HTD holds L · H heads, key_GSD L · G. A copy of them all.

    They have one shape, one scale and one cap.
    """
    first = layers[0]
    if len(layers) == 1:
        return first
    query_HTD = torch.cat([layer.query_HTD for layer in layers])
    return Scores(query_HTD, torch.cat([layer.key_GSD for layer in layers]), first.scale, first.cap)


def fits(scores: Scores, cells: int) -> bool:
    """Whether this reduction can run here."""
    query = scores.query_HTD
    widest = -(-query.shape[1] // cells)
    return query.is_cuda and widest <= LONGEST_CELL and query.shape[-1] <= WIDEST_HEAD and _kernel() is not None


def reduce(
    scores: Scores, sees_2T: Tensor, marks_2S: Tensor, cells: int, *, pool: str
) -> tuple[dict[str, Tensor], Tensor]:
    """What is summed over the keys of each row, by name [H, T], and cells_HQK (the largest weight, or for `mean` sums).

    `sees_2T` int32: the first key that each row sees, and the one after the last; it sees all between. `marks_2S`: 1
    where a key is a separator, and where it is punctuation. Cell c of C covers tokens [c·T // C, (c + 1)·T // C).
    """
    query, key = scores.query_HTD, scores.key_GSD
    heads, tokens, width = query.shape
    rows = torch.zeros(len(NAMES), heads, tokens, dtype=torch.float32, device=query.device)
    cells_HQK = torch.zeros(heads, cells, cells, dtype=torch.float32, device=query.device)
    tile = max(16, 1 << (-(-tokens // cells) - 1).bit_length())
    kernel = _kernel()
    assert kernel is not None, "asked only where it fits"
    kernel[(cells, heads)](
        query, key, sees_2T, marks_2S, rows, cells_HQK, *query.stride(), *key.stride(),
        heads, tokens, cells, width, heads // key.shape[0], scores.scale, scores.cap,
        CAPPED=scores.cap != 0, MOST=pool == "max", EXACT=query.dtype == torch.float32,
        TILE=tile, WIDTH=max(16, 1 << (width - 1).bit_length()), num_warps=8 if tile > 64 else 4, num_stages=3,
    )  # fmt: skip
    return dict(zip(NAMES, rows, strict=True)), cells_HQK


@cache
def _kernel() -> Any:
    """The kernel, or None where there is no Triton."""
    try:
        from backend.measure.fused_kernel import reduce_rows
    except ImportError:
        return None
    return reduce_rows
