"""What a watched model makes its scores of: the product of query and key times a factor, plus what its place adds.

Axes: B rows, H heads, T queries, S keys, K numbers of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.models.watched import Product

NEAR = 1e-3
"""How far scores may lie from what they are said to be made of, relative to the largest."""
BY_WORDS = "to the product of queries and keys the model adds more than distance alone decides"


def product_BHTS(found: Product) -> Tensor:
    """float64: queries times keys, of heads that share keys too."""
    query_BHTK, key_BGSK = found.query_BHTK.double(), found.key_BGSK.double()
    key_BHSK = key_BGSK.repeat_interleave(query_BHTK.shape[1] // key_BGSK.shape[1], 1)
    return query_BHTK @ key_BHSK.transpose(-1, -2)


def factor(found: Product, rows: slice) -> float | None:
    """By which a layer multiplies its products, from texts of one token; None where that is no one number."""
    given_B = product_BHTS(found)[rows, :, 0, 0].T  # [H, B]
    score_B = found.logits_BHTS[rows, :, 0, 0].double().T
    apart_B, score_apart_B = (each - each.mean(1, keepdim=True) for each in (given_B, score_B))
    scale = float((apart_B * score_apart_B).sum() / apart_B.square().sum())
    left = score_apart_B - scale * apart_B
    return scale if float(left.abs().max()) <= NEAR * (1 + float(score_B.abs().max())) else None


def added_HTS(found: Product, scale: float) -> Tensor:
    """float64: what is added to the scores of the first row."""
    return found.logits_BHTS[0].double() - scale * product_BHTS(found)[0]


def by_distance(added: Tensor, visible_TS: Tensor) -> Tensor | None:
    """float64 [H, T]: what is added at each distance, less what is at none; NaN where no query sees so far.

    None where it is not the distance alone that decides. A number for a whole row changes no weight and is left out.
    """
    count = added.shape[-1]
    apart_HTS = added - added.diagonal(dim1=-2, dim2=-1)[..., None]
    most = NEAR * (1 + float(apart_HTS[:, visible_TS].abs().max()))
    found_HT = torch.full((len(added), count), torch.nan, dtype=torch.float64)
    for distance in range(count):
        seen = visible_TS.diagonal(-distance)
        values_HN = apart_HTS.diagonal(-distance, -2, -1)[:, seen]
        if values_HN.shape[1]:
            if float((values_HN - values_HN[:, :1]).abs().max()) > most:
                return None
            found_HT[:, distance] = values_HN.mean(1)
    return found_HT
