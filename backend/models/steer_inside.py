"""A steer taken apart: its singular directions as words at both ends, and a scatter of the first two.

LM-Steer (Han et al. 2024) reads the right singular vectors of W in the vocabulary as its word dimensions.
Axes: K directions, D width of what the output embedding takes, V vocabulary, W words.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from backend import errors
from backend.measure.array import to_array
from backend.measure.reading import BothEnds, Reader, read_ends
from backend.measure.singular import Singular, singular
from backend.measure.tokens import BLOCK_BYTES
from backend.models.checks import check_edits
from backend.models.cost import SCRATCH
from backend.models.loaded import Loaded
from backend.models.reading import ends_of
from backend.models.sliders import check_offered
from backend.models.taps import Cancel
from backend.models.words import words_of
from backend.schema import Dimension, InsideAnswer, InsideAsk, Limits, Steer

ABOUT = (
    "Singular directions of W: what c holds of the left vector (`reads`) moves it along the right one (`writes`) times "
    "the singular value. Words: the bare product of each vector, of length 1, with the output embedding, as LM-Steer "
    "published it (Han et al. 2024): it reads what comes after the final norm, so no norm is folded in, and neither "
    "bias nor multiplier. A singular vector has no sign of its own: both are turned so that the token which the right "
    "one moves furthest stands at the + end. Directions with nearly equal singular values may stand for any mixture of "
    "each other."
)


def inside(loaded: Loaded, ask: InsideAsk, limits: Limits, cancel: Cancel | None = None) -> InsideAnswer:
    """The largest singular directions. Raises `UnknownVector`, and `CannotShow` for a steer of another width."""
    check_offered(loaded)
    check_edits(loaded.anatomy, (Steer(steer=ask.steer, by=1),), 1, loaded.vectors, loaded.card.edits)
    matrix, reader = loaded.vectors.steer(ask.steer), _reader(loaded)
    taken = singular(matrix.left_DK, matrix.right_KD)
    if cancel is not None:
        cancel()
    shown = min(ask.dimensions, len(taken.singular_K))
    writes = _ends(reader, taken.writes_KD[:shown], ask.top, cancel)
    reads = _ends(reader, taken.reads_KD[:shown], ask.top, cancel)
    back_K = -writes.lowest_logit_NK[:, 0] > writes.highest_logit_NK[:, 0]
    writes, reads = _turned(writes, back_K), _turned(reads, back_K)
    dimensions = tuple(
        Dimension(
            singular=float(taken.singular_K[place]), share=float((taken.singular_K[place] / taken.norm) ** 2),
            writes=ends_of(writes, place), reads=ends_of(reads, place),
        )
        for place in range(shown)
    )  # fmt: skip
    ids = sorted({id for each in dimensions[:2] for id in (*each.writes.highest, *each.writes.lowest)})
    words = {id for each in dimensions for ends in (each.writes, each.reads) for id in (*ends.highest, *ends.lowest)}
    return InsideAnswer(
        conditions=loaded.conditions, steer=ask.steer, rank=len(taken.singular_K), norm=taken.norm,
        dimensions=dimensions, scatter_ids=tuple(ids), scatter=to_array(_scatter(reader, taken, back_K, ids)),
        words=words_of(loaded.tokenizer, words), about=ABOUT,
    )  # fmt: skip


def inside_bytes(loaded: Loaded, ask: InsideAsk, limits: Limits) -> int:
    """Bytes for the decomposition in float64 and blocks of logits. Raises `UnknownVector`."""
    width, ranks = loaded.vectors.steer(ask.steer).left_DK.shape
    return 8 * (6 * width * ranks + 6 * ranks * ranks) + 4 * BLOCK_BYTES + SCRATCH


def _reader(loaded: Loaded) -> Reader:
    if loaded.anatomy.unembedding is None:
        raise errors.CannotShow(
            "This model cannot be steered", "it ends with its states and has no output embedding",
            "Choose a model with a language modelling head.",
        )  # fmt: skip
    return Reader(loaded.anatomy.unembedding.get_parameter("weight"))


def _ends(reader: Reader, vectors_KD: Tensor, top: int, cancel: Cancel | None) -> BothEnds:
    return read_ends(reader, vectors_KD.float().to(reader.embedding_VD.device), top, cancel=cancel)


def _turned(ends: BothEnds, back_K: Tensor) -> BothEnds:
    """The ends of the vectors, some of them with the other sign."""
    here, there = back_K[:, None], replace(
        ends, highest_NK=ends.lowest_NK, highest_logit_NK=-ends.lowest_logit_NK,
        lowest_NK=ends.highest_NK, lowest_logit_NK=-ends.highest_logit_NK,
    )  # fmt: skip
    return BothEnds(*(torch.where(here, getattr(there, name), part) for name, part in vars(ends).items()))


def _scatter(reader: Reader, taken: Singular, back_K: Tensor, ids: list[int]) -> Tensor:
    """float32 [W, 2]."""
    embedding_WD = reader.embedding_VD[ids].float().cpu()
    found_W2 = torch.full((len(ids), 2), torch.nan)
    for place in range(min(2, len(back_K))):
        sign = -1.0 if bool(back_K[place]) else 1.0
        found_W2[:, place] = sign * embedding_WD @ taken.writes_KD[place].float()
    return found_W2
