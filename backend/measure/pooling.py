"""Maps reduced to the cells of a picture.

Cell c of C over T tokens covers tokens [c·T // C, (c + 1)·T // C): sizes differ by one at most, none overlap.
Axes: H heads, T queries, S keys, Q and K cells.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pool = Literal["max", "mean"]


def edges(tokens: int, cells: int) -> list[int]:
    """The cells + 1 borders; fewer cells than asked when there are fewer tokens."""
    cells = min(tokens, cells)
    return [cell * tokens // cells for cell in range(cells + 1)]


def pool_last(values: Tensor, borders: list[int], pool: Pool) -> Tensor:
    """Reduce the last axis to cells; `mean` gives sums here, which the caller divides by what was visible."""
    cells, tokens = len(borders) - 1, borders[-1]
    if cells == tokens:
        return values
    if tokens % cells == 0:
        split = values.unflatten(-1, (cells, tokens // cells))
        return split.amax(-1) if pool == "max" else split.sum(-1)
    starts = torch.tensor(borders[:-1], device=values.device)
    widths = torch.tensor(borders[1:], device=values.device) - starts
    most = int(widths.max())
    places = starts[:, None] + torch.arange(most, device=values.device)
    if pool == "max":  # a short cell repeats its last token, which changes no maximum
        places = torch.minimum(places, (starts + widths - 1)[:, None])
        return values[..., places].amax(-1)
    inside = torch.arange(most, device=values.device) < widths[:, None]
    return (values[..., places.clamp(max=tokens - 1)] * inside).sum(-1)


def pool_rows(block: Tensor, borders: list[int], pool: Pool, out: Tensor) -> None:
    """Reduce axis -2 of a block of query rows to cells, into `out`; borders start at 0."""
    if block.is_cuda:  # few large steps
        out.copy_(pool_last(block.transpose(-1, -2), borders, pool).transpose(-1, -2))
        return
    cells, rows = len(borders) - 1, borders[-1]
    if cells and rows % cells == 0 and borders == [cell * (rows // cells) for cell in range(cells + 1)]:
        split = block.unflatten(-2, (cells, rows // cells))
        out.copy_(split.amax(-2) if pool == "max" else split.sum(-2))
        return
    for cell in range(cells):
        rows_of_cell = block[..., borders[cell] : borders[cell + 1], :]
        out[..., cell, :] = rows_of_cell.amax(-2) if pool == "max" else rows_of_cell.sum(-2)


def pool_map(values_TS: Tensor, query_borders: list[int], key_borders: list[int], pool: Pool) -> Tensor:
    """Reduce a whole map, or several; `mean` gives sums."""
    rows = values_TS.new_empty(*values_TS.shape[:-2], len(query_borders) - 1, values_TS.shape[-1])
    pool_rows(values_TS, query_borders, pool, rows)
    return pool_last(rows, key_borders, pool)


def strongest_change(values_TS: Tensor, query_borders: list[int], key_borders: list[int]) -> Tensor:
    """Of each cell the value that is farthest from 0, with its sign."""
    most = pool_map(values_TS, query_borders, key_borders, "max")
    least = -pool_map(-values_TS, query_borders, key_borders, "max")
    return torch.where(most >= -least, most, least)
