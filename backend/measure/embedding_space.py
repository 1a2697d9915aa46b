"""Vectors of two models compared in embedding space: as columns of scores over shared tokens, never written out.

A vector p of one model stands for the scores U p over N tokens, one of another model for W q. Their Pearson correlation
needs the moments of the embeddings alone: with centred covariances C_uu, C_uw, C_ww [D × D] it is

    pᵀ C_uw q / sqrt(pᵀ C_uu p · qᵀ C_ww q).

Here C_uu = R_uᵀ R_u and C_ww = R_wᵀ R_w, so that x = R_u p and y = R_w q have the standard deviations of the scores as
their lengths, and the bridge M between (C_uw = R_uᵀ M R_w, whose singular values are the canonical correlations, none
above 1) gives the covariance xᵀ M y. Nothing is then divided by a small number.
Source: Dar et al. 2023, "Analyzing transformers in embedding space", §5.1 and their code (kernel matrices less means).
Axes: N tokens, D and E widths of the streams, R and S directions of the scores, P and Q vectors, H and G heads,
K numbers of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backend.measure.tokens import BLOCK_BYTES, rows_in

LEAST = 1e-12
"""Share of the largest variance from which a direction of the embeddings is one; below it is rounding."""
CONSTANT = 1e-6
"""Share of the most that a vector of its length could vary over the tokens, below which it is the same for all."""


class Moments:
    """Means and covariances of two embeddings of the same tokens, block by block, in float64."""

    def __init__(self) -> None:
        self.tokens = 0
        self._shift: tuple[Tensor, Tensor] | None = None
        self._sums: list[Tensor] = []

    def add(self, one_ND: Tensor, other_NE: Tensor) -> None:
        """The next tokens, a row each in both."""
        one_ND, other_NE = one_ND.double(), other_NE.double()
        if self._shift is None:  # sums around a point near the mean lose no digits
            self._shift = one_ND.mean(0), other_NE.mean(0)
        one_ND, other_NE = one_ND - self._shift[0], other_NE - self._shift[1]
        block = [one_ND.sum(0), other_NE.sum(0), one_ND.T @ one_ND, one_ND.T @ other_NE, other_NE.T @ other_NE]
        self._sums = [done + more for done, more in zip(self._sums, block, strict=True)] if self._sums else block
        self.tokens += len(one_ND)

    @property
    def means(self) -> tuple[Tensor, Tensor]:
        """float64 [D] and [E]."""
        assert self._shift is not None, "some tokens were added"
        one_D, other_E = (total / self.tokens for total in self._sums[:2])
        return one_D + self._shift[0], other_E + self._shift[1]

    @property
    def covariances(self) -> tuple[Tensor, Tensor, Tensor]:
        """float64 [D, D], [D, E] and [E, E]."""
        one_D, other_E, *grams = (total / self.tokens for total in self._sums)
        apart = (torch.outer(one_D, one_D), torch.outer(one_D, other_E), torch.outer(other_E, other_E))
        own_DD, cross_DE, other_EE = (gram - outer for gram, outer in zip(grams, apart, strict=True))
        return own_DD, cross_DE, other_EE

    @property
    def grams(self) -> tuple[Tensor, Tensor, Tensor]:
        """float64 [D, D], [D, E] and [E, E]: Uᵀ U, Uᵀ W and Wᵀ W over the number of tokens, nothing subtracted."""
        (one_D, other_E), (own_DD, cross_DE, other_EE) = self.means, self.covariances
        return (
            own_DD + torch.outer(one_D, one_D), cross_DE + torch.outer(one_D, other_E),
            other_EE + torch.outer(other_E, other_E),
        )  # fmt: skip


@dataclass(frozen=True)
class Cast:
    """Vectors as they lie in embedding space, float64."""

    apart_PR: Tensor
    """Their length is the standard deviation of the scores, their products are covariances."""
    mean_P: Tensor
    """Of the scores."""
    most_P: Tensor
    """The largest standard deviation that a vector of this length could have."""

    def standard(self) -> tuple[Tensor, int]:
        """float64 [P, R] of length 1, and how many are the same for every token: those are 0."""
        length_P = self.apart_PR.norm(dim=1)
        varies_P = length_P > CONSTANT * self.most_P
        unit_PR = torch.where(varies_P[:, None], self.apart_PR / length_P[:, None], 0.0)
        return unit_PR, int((~varies_P).sum())


@dataclass(frozen=True)
class Space:
    """One model's side."""

    root_RD: Tensor
    """float64: C = rootᵀ root."""
    mean_D: Tensor

    @classmethod
    def of(cls, covariance_DD: Tensor, mean_D: Tensor) -> Space:
        """From a centred covariance."""
        variance_D, basis_DD = torch.linalg.eigh(covariance_DD)
        kept = variance_D > LEAST * variance_D[-1].clamp_min(0)
        return cls((basis_DD[:, kept] * variance_D[kept].sqrt()).T.contiguous(), mean_D)

    def cast(self, vectors_PD: Tensor) -> Cast:
        """Where vectors lie."""
        vectors_PD = vectors_PD.to(self.root_RD)
        largest = self.root_RD[-1].norm() if len(self.root_RD) else self.mean_D.new_zeros(())
        return Cast(vectors_PD @ self.root_RD.T, vectors_PD @ self.mean_D, largest * vectors_PD.norm(dim=1))


@dataclass(frozen=True)
class Spaces:
    """Both sides, and what connects them."""

    one: Space
    other: Space
    bridge_RS: Tensor

    @classmethod
    def of(cls, moments: Moments) -> Spaces:
        """From the moments of both embeddings over the same tokens."""
        (mean_D, mean_E), (own_DD, cross_DE, other_EE) = moments.means, moments.covariances
        one, other = Space.of(own_DD, mean_D), Space.of(other_EE, mean_E)
        return cls(one, other, _inverted(one) @ cross_DE @ _inverted(other).T)


def _inverted(space: Space) -> Tensor:
    """The pseudo-inverse of rootᵀ, [R, D]: its rows are orthogonal, each as long as its direction varies."""
    return space.root_RD / space.root_RD.square().sum(1, keepdim=True)


def plainly(vectors_PD: Tensor) -> Cast:
    """The control: vectors over the stream's own coordinates, as if each were a token."""
    vectors_PD = vectors_PD.double()
    mean_P1 = vectors_PD.mean(1, keepdim=True)
    size = vectors_PD.shape[1] ** 0.5
    return Cast((vectors_PD - mean_P1) / size, mean_P1[:, 0], vectors_PD.norm(dim=1) / size)


@dataclass(frozen=True)
class Alike:
    """How alike two groups of vectors are, by the absolute correlations of all pairs."""

    mean: float
    """Over all pairs."""
    best: float
    """Mean of each vector's best, those of both groups counting half."""


def alike(
    one_PR: Tensor, other_QS: Tensor, bridge_RS: Tensor | None, *, block_bytes: int = BLOCK_BYTES,
    cancel: Callable[[], None] | None = None,
) -> Alike:  # fmt: skip
    """Of vectors of length 1 (see `Cast.standard`), in blocks of rows: P × Q is never held whole."""
    led_PS = (one_PR if bridge_RS is None else one_PR @ bridge_RS).float()
    other_QS = other_QS.float()
    total, best = torch.zeros((), dtype=torch.float64, device=led_PS.device), led_PS.new_zeros(())
    best_Q = led_PS.new_zeros(len(other_QS))
    for block_NS in led_PS.split(rows_in(block_bytes, len(other_QS))):
        if cancel is not None:
            cancel()
        found_NQ = (block_NS @ other_QS.T).abs_()
        total += found_NQ.sum(1).double().sum()
        best = best + found_NQ.amax(1).sum()
        best_Q = torch.maximum(best_Q, found_NQ.amax(0))
    count = len(led_PS) * len(other_QS)
    return Alike(float(total) / count, (float(best) / len(led_PS) + float(best_Q.mean())) / 2)


def correlations(one_PR: Tensor, other_QS: Tensor, bridge_RS: Tensor | None) -> Tensor:
    """float64 [P, Q], whole: for few vectors."""
    return (one_PR if bridge_RS is None else one_PR @ bridge_RS) @ other_QS.T


@dataclass(frozen=True)
class Heads:
    """Heads as tables tokens × tokens, A Bᵀ with thin factors: their rows' and columns' vectors, K for each head."""

    rows: Cast
    columns: Cast
    deviation_H: Tensor
    """float64: standard deviation of each head's table."""
    fit_H: Tensor
    """bool: whether it is no constant."""

    @classmethod
    def of(cls, rows: Cast, columns: Cast, heads: int) -> Heads:
        """Each head's own numbers, from its K × K Gram matrices."""
        own_HKK, written_HKK = (_own_moments(cast, heads) for cast in (rows, columns))
        mean_H = (rows.mean_P * columns.mean_P).view(heads, -1).sum(1)
        deviation_H = ((own_HKK * written_HKK).sum((1, 2)) - mean_H.square()).clamp_min(0).sqrt()
        most_H = own_HKK.new_ones(heads)
        for cast in (rows, columns):
            most_H = most_H * (cast.most_P.square() + cast.mean_P.square()).view(heads, -1).sum(1).sqrt()
        return cls(rows, columns, deviation_H, deviation_H > CONSTANT * most_H)

    def led(self, rows_RS: Tensor, columns_RS: Tensor) -> Heads:
        """The same across the bridges, once for all heads of the other side."""
        rows, columns = (
            replace(cast, apart_PR=cast.apart_PR @ bridge_RS)
            for cast, bridge_RS in ((self.rows, rows_RS), (self.columns, columns_RS))
        )
        return replace(self, rows=rows, columns=columns)

    @property
    def mean_H(self) -> Tensor:
        """float64: mean of each head's table."""
        return (self.rows.mean_P * self.columns.mean_P).view(len(self.fit_H), -1).sum(1)


def head_correlations(one: Heads, other: Heads) -> Tensor:
    """float64 [H, G]: Pearson correlations of whole tables over all pairs of tokens; `one` was led across the bridges.

    The sum over all pairs of tokens of two tables' product is that of the products of their rows' and columns' Gram
    matrices [K × K], so no table is made. A constant table correlates with nothing: 0.
    """
    heads, others = len(one.fit_H), len(other.fit_H)
    product_PQ = _moments(one.rows, other.rows) * _moments(one.columns, other.columns)
    sum_HG = product_PQ.view(heads, len(product_PQ) // heads, others, -1).sum((1, 3))
    cov_HG = sum_HG - torch.outer(one.mean_H, other.mean_H)
    fit_HG = one.fit_H[:, None] & other.fit_H
    return torch.where(fit_HG, cov_HG / torch.outer(one.deviation_H, other.deviation_H), 0.0)


def _own_moments(cast: Cast, heads: int) -> Tensor:
    """float64 [H, K, K]: within each head, mean over tokens of the product of two vectors' scores."""
    apart_HKR, mean_HK = cast.apart_PR.view(heads, -1, cast.apart_PR.shape[1]), cast.mean_P.view(heads, -1)
    return apart_HKR @ apart_HKR.transpose(1, 2) + mean_HK[:, :, None] * mean_HK[:, None, :]


def _moments(one: Cast, other: Cast) -> Tensor:
    """float64 [P, Q]: mean over tokens of the product of two vectors' scores."""
    return one.apart_PR @ other.apart_PR.T + torch.outer(one.mean_P, other.mean_P)
