"""Values, the rows of the feed-forward write matrices, found by words: over all layers at once, and without an index.

A value's logit for a word is v · u, with u the word's direction in the stream (`reading.Reader.directions`). Its mean
and variance over the vocabulary come in closed form from the directions' mean μ and covariance C: v · μ and vᵀ C v.
Sources: Geva et al. 2022 (values as words); Dar et al. 2023, "Analyzing transformers in embedding space" (lookup).
Axes: L layers, F units, D width, V vocabulary, W words, N values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from backend.measure.lens import likeliest
from backend.measure.reading import BothEnds, Reader
from backend.measure.tokens import BLOCK_BYTES, rank_of, rows_in

Matrix = Callable[[int], Tensor]
"""The rows of a layer: [F, D]."""
Cancel = Callable[[], None]
PART_BYTES = 4 * 1024 * 1024
"""Of the embedding, as float32, that a mean or covariance holds a copy of at a time."""
End = Literal["promoted", "suppressed", "both"]


def nobody() -> None:
    """Somebody waits for the answer."""


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of the directions of all words."""

    mean_D: Tensor
    covariance_DD: Tensor

    @classmethod
    def of(cls, reader: Reader, cancel: Cancel = nobody) -> Moments:
        """Over the whole vocabulary: products in float32, sums in float64."""
        count, width = reader.embedding_VD.shape
        mean_D = mean_of(reader.embedding_VD)
        second_DD = torch.zeros(width, width, dtype=torch.float64, device=mean_D.device)
        for block_WD in _parts(reader.embedding_VD):
            cancel()
            apart_WD = block_WD.float() - mean_D
            second_DD += apart_WD.T @ apart_WD
        folded_DD = reader.directions((second_DD / count).float())
        return cls(reader.directions(mean_D[None])[0], reader.directions(folded_DD.T))

    def spread(self, rows_FD: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [F] of each row's logits over the vocabulary."""
        rows_FD = rows_FD.float()
        variance_F = torch.linalg.vecdot(rows_FD @ self.covariance_DD, rows_FD)
        return rows_FD @ self.mean_D, variance_F.clamp_min(0).sqrt()


def _parts(embedding_VD: Tensor) -> tuple[Tensor, ...]:
    return embedding_VD.split(rows_in(PART_BYTES, embedding_VD.shape[1]))


def mean_of(embedding_VD: Tensor) -> Tensor:
    """float32 [D]: the mean row, summed in float64."""
    sums = [part.sum(0, dtype=torch.float64) for part in _parts(embedding_VD)]
    return (torch.stack(sums).sum(0) / len(embedding_VD)).float()


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation [L, F] of every value's logits over the vocabulary: all that a search by z keeps."""

    mean_LF: Tensor
    deviation_LF: Tensor

    @classmethod
    def of(cls, matrix: Matrix, layers: int, moments: Moments, cancel: Cancel = nobody) -> Spread:
        """Layer by layer."""
        found = []
        for layer in range(layers):
            cancel()
            found.append(moments.spread(matrix(layer)))
        means, deviations = zip(*found, strict=True)
        return cls(torch.stack(means), torch.stack(deviations))

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.mean_LF.nbytes + self.deviation_LF.nbytes

    def z(self, logits_WF: Tensor, layer: int) -> Tensor:
        """Logits of a layer's values less their mean, over their deviation; 0 where all logits are equal."""
        deviation_F = self.deviation_LF[layer]
        return torch.where(deviation_F > 0, (logits_WF - self.mean_LF[layer]) / deviation_F, 0.0)


@dataclass(frozen=True)
class Hits:
    """The values that move one of some words most, the strongest first; each once, with the word that it moves most."""

    layer_N: Tensor
    unit_N: Tensor
    word_N: Tensor
    """Token ids."""
    suppressed_N: Tensor
    """bool: found at the suppressed end."""
    logit_N: Tensor
    z_N: Tensor
    """NaN where all logits of a value are equal."""
    rank_N: Tensor
    """Tokens ahead of the word, from the end that it was found at; of equal ones the lower id is ahead."""
    ends: BothEnds


def search(
    matrix: Matrix, layers: int, reader: Reader, words: Sequence[int], *, end: End, spread: Spread | None, limit: int,
    top: int, cancel: Cancel = nobody,
) -> Hits:  # fmt: skip
    """All values of all layers against some token ids; ranked by z where a spread is given, else by logit."""
    towards_WD = reader.of_words(list(words))
    scores, choices = [], []
    for layer in range(layers):
        cancel()
        score_WF = towards_WD @ matrix(layer).float().T
        score_F, choice_F = _best(score_WF if spread is None else spread.z(score_WF, layer), end)
        scores.append(score_F)
        choices.append(choice_F)
    units = len(scores[0])
    place_N = likeliest(torch.cat(scores)[None], limit)[1][0]
    choice_N = torch.cat(choices)[place_N]
    word_N = torch.as_tensor(words, device=place_N.device)[choice_N % len(words)]
    layer_N, unit_N = place_N // units, place_N % units
    rows_ND = torch.stack([matrix(int(layer))[int(unit)] for layer, unit in zip(layer_N, unit_N, strict=True)])
    read = _read(reader, rows_ND, word_N, choice_N >= len(words), top, cancel)
    return _ordered(Hits(layer_N.cpu(), unit_N.cpu(), word_N.cpu(), (choice_N >= len(words)).cpu(), *read), spread)


def _best(score_WF: Tensor, end: End) -> tuple[Tensor, Tensor]:
    """Of each value the best score and its word; words at the suppressed end count on behind those promoted."""
    if end == "both":
        best_F, choice_F = torch.cat([score_WF, -score_WF]).max(0)
        return best_F, choice_F
    best_F, choice_F = (-score_WF if end == "suppressed" else score_WF).max(0)
    return best_F, choice_F + (len(score_WF) if end == "suppressed" else 0)


def _read(
    reader: Reader, rows_ND: Tensor, word_N: Tensor, suppressed_N: Tensor, top: int, cancel: Cancel
) -> tuple[Tensor, Tensor, Tensor, BothEnds]:
    """Logit, z and rank of each value's word among the whole vocabulary, and both its ends."""
    found = []
    rows = rows_in(BLOCK_BYTES, len(reader.embedding_VD))
    for first in range(0, len(rows_ND), rows):
        cancel()
        block = slice(first, first + rows)
        logits_NV = reader.logits(rows_ND[block])
        logit_N1 = logits_NV.gather(1, word_N[block, None])
        deviation_N1, mean_N1 = torch.std_mean(logits_NV, 1, correction=0, keepdim=True)
        z_N1 = torch.where(deviation_N1 > 0, (logit_N1 - mean_N1) / deviation_N1, torch.nan)
        ends = BothEnds.of(logits_NV, top)
        rank_N = _rank(logits_NV, word_N[block], suppressed_N[block])
        found.append((logit_N1[:, 0], z_N1[:, 0], rank_N, *vars(ends).values()))
    logit_N, z_N, rank_N, *parts = (torch.cat(part).cpu() for part in zip(*found, strict=True))
    return logit_N, z_N, rank_N, BothEnds(*parts)


def _rank(logits_NV: Tensor, word_N: Tensor, suppressed_N: Tensor) -> Tensor:
    from_top_N, from_bottom_N = rank_of(logits_NV, word_N[:, None]), rank_of(-logits_NV, word_N[:, None])
    return torch.where(suppressed_N, from_bottom_N, from_top_N)


def _ordered(hits: Hits, spread: Spread | None) -> Hits:
    """By the numbers that are shown: those of the listed rows alone, which round otherwise than those of all rows."""
    shown_N = hits.logit_N if spread is None else hits.z_N.nan_to_num(0.0)
    order_N = torch.where(hits.suppressed_N, -shown_N, shown_N).argsort(descending=True, stable=True)
    ends = BothEnds(*(part[order_N] for part in vars(hits.ends).values()))
    return replace(hits, ends=ends, **{name: part[order_N] for name, part in vars(hits).items() if name != "ends"})


def nearest(
    matrix: Matrix, layers: int, direction_D: Tensor, limit: int, *, cosine: bool = False,
    but: tuple[int, int] | None = None, cancel: Cancel = nobody,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Layer, unit and score [N] of the rows with the largest dot product, or `cosine`, with a direction.

    `but`: one row, by layer and unit, that is left out. Of equal ones the lower layer and unit comes first.
    """
    scores = []
    for layer in range(layers):
        cancel()
        rows_FD = matrix(layer).float()
        score_F = rows_FD @ direction_D
        if cosine:
            lengths_F = torch.linalg.vector_norm(rows_FD, dim=1) * torch.linalg.vector_norm(direction_D)
            score_F = torch.where(lengths_F > 0, score_F / lengths_F, 0.0).clamp(-1, 1)
        scores.append(score_F)
    units, score_X = len(scores[0]), torch.cat(scores)
    if but is not None:
        score_X[but[0] * units + but[1]] = -torch.inf
    score_N, place_N = likeliest(score_X[None], min(limit, len(score_X) - (but is not None)))
    return (place_N[0] // units).cpu(), (place_N[0] % units).cpu(), score_N[0].cpu()
