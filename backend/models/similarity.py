"""How many words two vectors that belong together share, against pairs at random and against random directions.

Source: Dar et al. 2023, "Analyzing transformers in embedding space", Appendix B.1 (figure 6).
Axes: N pairs, D width, k words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend import errors
from backend.measure import circuits as measure
from backend.measure.active import shuffled
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models.loaded import Loaded
from backend.models.matrices import Vectors, VectorsOf, vectors_of
from backend.models.taps import Cancel
from backend.schema import Pairing, SimilarityAsk

SIDES: dict[Pairing, tuple[VectorsOf, VectorsOf]] = {
    "keys_values": ("keys", "values"),
    "values_outputs": ("attention_values", "attention_outputs"),
    "queries_keys": ("queries", "attention_keys"),
}
COMPARED = 16_000_000
"""Pairs of words that are compared at once."""


@dataclass(frozen=True)
class Overlaps:
    """Jaccard overlaps of one pairing of a layer, float64 [N] each."""

    own_N: Tensor
    random_N: Tensor
    twin_N: Tensor


def layers_of(loaded: Loaded, pairing: Pairing) -> tuple[int, ...]:
    """The layers that may have such vectors."""
    if pairing == "keys_values":
        return tuple(range(loaded.anatomy.shape.layers))
    return tuple(loaded.anatomy.shape.attention_layers)


def sides_of(loaded: Loaded, pairing: Pairing, layer: int, ask: SimilarityAsk) -> tuple[Vectors, Vectors]:
    """Both kinds of vectors, one after the other as they belong together. Raises as `vectors_of`."""
    one, other = (vectors_of(loaded, kind, layer, ask.reading) for kind in SIDES[pairing])
    if len(one.rows_ND) != len(other.rows_ND):
        raise errors.CannotShow(
            f"The vectors of layer {layer} do not belong together one by one",
            f"there are {len(one.rows_ND)} of one kind and {len(other.rows_ND)} of the other",
            "Look at another pairing.",
        )
    size = min(len(one.reader.embedding_VD), len(other.reader.embedding_VD))
    if ask.k > size:
        raise errors.CannotShow(
            f"No vector has {ask.k:,} words to compare", f"the vocabulary has {size:,}",
            f"Choose a k of {size:,} at most.", needed=ask.k, available=size,
        )  # fmt: skip
    return one, other


@dataclass(frozen=True)
class Drawn:
    """Which pairs of a layer are compared, and random directions beside them."""

    which_N: Tensor
    random_ND: tuple[Tensor, Tensor]
    at_once: tuple[int, int]
    """Of each kind, vectors that one question reads in words."""


def drawn(loaded: Loaded, pairing: Pairing, layer: int, ask: SimilarityAsk) -> Drawn:
    """Raises as `sides_of`, and `CannotShow` where there is but one pair."""
    sides = sides_of(loaded, pairing, layer, ask)
    dice = torch.Generator().manual_seed(ask.seed + layer)
    which_N = torch.randperm(len(sides[0].rows_ND), generator=dice)[: ask.count]
    if len(which_N) < 2:
        raise errors.CannotShow(
            "Chance cannot be measured", "there is but one pair, and no other partner", "Choose another model."
        )
    one, other = (_random(side, len(which_N), dice) for side in sides)
    rows = (rows_in(BLOCK_BYTES, len(side.reader.embedding_VD)) for side in sides)
    return Drawn(which_N, (one, other), (next(rows), next(rows)))


def words(
    loaded: Loaded, pairing: Pairing, layer: int, ask: SimilarityAsk, place: int, given: Tensor, cancel: Cancel | None
) -> Tensor:  # fmt: skip
    """int64 [M, k] of one kind: of vectors by number [M], or of directions [M, D]."""
    side = sides_of(loaded, pairing, layer, ask)[place]
    if given.ndim == 1:
        return side.words(ask.end, ask.k, given, cancel)
    return side.words_of(given, ask.end, ask.k, cancel)


def overlaps(own: tuple[Tensor, Tensor], random: tuple[Tensor, Tensor], seed: int) -> Overlaps:
    """From the words [N, k] of both kinds of vectors, and of random directions."""
    partner_N = shuffled(len(own[0]), seed)
    return Overlaps(_jaccard(*own), _jaccard(own[0], own[1][partner_N]), _jaccard(*random))


def _jaccard(one_Nk: Tensor, other_Nk: Tensor) -> Tensor:
    """float64 [N], block by block: words are compared with words."""
    rows = max(1, COMPARED // one_Nk.shape[1] ** 2)
    blocks = zip(one_Nk.split(rows), other_Nk.split(rows), strict=True)
    return torch.cat([measure.jaccard(one, other).double() for one, other in blocks])


def _random(side: Vectors, count: int, dice: torch.Generator) -> Tensor:
    """Random directions [N, D]: which words a direction moves most does not depend on its length."""
    return torch.randn(count, side.rows_ND.shape[1], generator=dice)


def similarity_bytes(loaded: Loaded, ask: SimilarityAsk) -> int:
    """Bytes for blocks of logits, two kinds of vectors, their words, and words compared with words."""
    shape = loaded.anatomy.shape
    vectors = max(loaded.anatomy.units or 0, shape.heads * shape.head_width)
    words = min(ask.count, vectors) * ask.k * 8 * 4
    return 6 * BLOCK_BYTES + 4 * 4 * vectors * shape.width + words + 2 * max(COMPARED, ask.k**2)
