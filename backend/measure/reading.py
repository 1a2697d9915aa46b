"""Vectors of the residual stream read in the vocabulary: the product with the output embedding, the final norm folded
in or left out.

The final norm is y = gain ⊙ (x − mean x) / divisor + bias (a layer norm) or gain ⊙ x / divisor (RMS norm). A part v of
the stream moves the logits by scale · E (gain ⊙ (v − mean v)) / divisor. What is read here is that with a divisor of 1:
its order, signs and ratios are those of any run. `raw` leaves gain, mean and scale out.
Sources: raw: Geva et al. 2022, LM-Debugger; folded: Elhage et al. 2021, "A mathematical framework for transformer
circuits" (folding layer norm).
Axes: N vectors, D width, V vocabulary, W words, K words of an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from backend.measure.lens import likeliest
from backend.measure.tokens import BLOCK_BYTES, rows_in

CONVERTED_ROWS = 8192
"""Rows of an embedding in half precision that are made float32 at a time."""
End = Literal["promoted", "suppressed", "absolute"]
"""Words that are moved up, down, or either way."""


@dataclass(frozen=True)
class Norm:
    """A norm as numbers: gain ⊙ x̂ + bias, with x̂ = x over its root mean square, or, `centred`, standardised."""

    gain_D: Tensor
    bias_D: Tensor
    centred: bool

    def standard(self, states_ND: Tensor) -> Tensor:
        """x̂, in float32 or more and without an epsilon."""
        apart_ND = states_ND - states_ND.mean(-1, keepdim=True) if self.centred else states_ND
        return apart_ND / apart_ND.square().mean(-1, keepdim=True).sqrt()

    def __call__(self, states_ND: Tensor) -> Tensor:
        return self.gain_D * self.standard(states_ND) + self.bias_D

    def factor(self, states_ND: Tensor, given_ND: Tensor) -> Tensor:
        """float32 [N, 1]: one over the divisor with which the norm made `given_ND`, its epsilon included."""
        scaled_ND = self._scaled(states_ND)
        size_N1 = scaled_ND.square().sum(-1, keepdim=True)
        along_N1 = ((given_ND.float() - self.bias_D.to(given_ND.device)) * scaled_ND).sum(-1, keepdim=True)
        return torch.where(size_N1 > 0, along_N1 / size_N1, 0.0)

    def frozen(self, states_ND: Tensor, factor_N1: Tensor, bias_D: Tensor) -> Tensor:
        """The norm with its divisor held still: affine in the states and in `bias_D`, its bias. float32."""
        return self._scaled(states_ND) * factor_N1 + bias_D

    def _scaled(self, states_ND: Tensor) -> Tensor:
        apart_ND = states_ND.float()
        if self.centred:
            apart_ND = apart_ND - apart_ND.mean(-1, keepdim=True)
        return self.gain_D.to(apart_ND.device) * apart_ND

    @classmethod
    def of(cls, norm: Callable[[Tensor], Tensor], width: int, device: torch.device | str = "cpu") -> Norm | None:
        """Ask a module in float32 that maps [1, N, D] to the same; None when it is no such norm.

        States of ±1000 make every epsilon vanish, and their signs divide out without loss.
        """
        dice = torch.Generator().manual_seed(0)
        signs_D = (1.0 - 2.0 * (torch.rand(width, generator=dice) < 0.5).float()).to(device)
        signs_D[:2] = torch.tensor([1.0, -1.0])[: len(signs_D[:2])]
        states_ND = 1000 * torch.stack([signs_D, -signs_D, signs_D + 0.5])
        one_D, other_D, moved_D = norm(states_ND[None])[0].float()
        scale = 1 + float(one_D.abs().max())
        centred = float((moved_D - one_D).abs().max()) <= 1e-4 * scale
        unit = cls(torch.ones(width, device=device), torch.zeros(width, device=device), centred)
        found = cls((one_D - other_D) / 2 / unit.standard(states_ND[:1])[0], (one_D + other_D) / 2, centred)
        check_ND = 1000 * torch.randn(4, width, generator=dice).to(device)
        apart = (found(check_ND) - norm(check_ND[None])[0].float()).abs().max()
        return found if float(apart) <= 1e-3 * scale else None


@dataclass(frozen=True)
class Reader:
    """How vectors of the stream are read: logits = scale · E (gain ⊙ (v − mean v)), or E v."""

    embedding_VD: Tensor
    """In the dtype of the model; products are float32."""
    gain_D: Tensor | None = None
    """float32; None: the norm is left out."""
    centred: bool = False
    scale: float = 1.0
    """By which the model's read-out multiplies, before any soft-cap."""

    def fold(self, vectors_ND: Tensor) -> Tensor:
        """float32 [N, D]: what meets the embedding."""
        vectors_ND = vectors_ND.float()
        if self.centred:
            vectors_ND = vectors_ND - vectors_ND.mean(-1, keepdim=True)
        return vectors_ND if self.gain_D is None else vectors_ND * (self.gain_D * self.scale)

    def directions(self, embedding_WD: Tensor) -> Tensor:
        """float32 [W, D]: directions u of the stream with v · u = the logit of each row of the embedding."""
        rows_WD = embedding_WD.float()
        if self.gain_D is not None:
            rows_WD = rows_WD * (self.gain_D * self.scale)
        return rows_WD - rows_WD.mean(-1, keepdim=True) if self.centred else rows_WD

    def of_words(self, ids: list[int]) -> Tensor:
        """The directions of some tokens."""
        return self.directions(self.embedding_VD[ids])

    def logits(self, vectors_ND: Tensor) -> Tensor:
        """float32 [N, V]; the caller sees to it that they fit."""
        folded_ND = self.fold(vectors_ND)
        return torch.cat([folded_ND @ block_WD.T for block_WD in self.blocks()], -1)

    def blocks(self) -> Iterator[Tensor]:
        """The embedding as float32: as it lies, or converted some rows at a time."""
        if self.embedding_VD.dtype == torch.float32:
            yield self.embedding_VD
            return
        yield from (part.float() for part in self.embedding_VD.split(CONVERTED_ROWS))


@dataclass(frozen=True)
class BothEnds:
    """The words that vectors promote and suppress most, those moved most first; of equal ones shown the lower id."""

    highest_NK: Tensor
    highest_logit_NK: Tensor
    lowest_NK: Tensor
    lowest_logit_NK: Tensor

    @classmethod
    def of(cls, logits_NV: Tensor, top: int) -> BothEnds:
        """Of logits."""
        highest_logit_NK, highest_NK = likeliest(logits_NV, top)
        lowest_logit_NK, lowest_NK = likeliest(-logits_NV, top)
        return cls(highest_NK, highest_logit_NK, lowest_NK, -lowest_logit_NK)


def moved_most(logits_NV: Tensor, end: End, k: int) -> Tensor:
    """int64 [N, k]: the words that are moved most; of equal ones among them the lower id first."""
    if end == "absolute":
        logits_NV = logits_NV.abs()
    return likeliest(-logits_NV if end == "suppressed" else logits_NV, k)[1]


def read_ends(
    reader: Reader, vectors_ND: Tensor, top: int, block_bytes: int = BLOCK_BYTES,
    cancel: Callable[[], None] | None = None,
) -> BothEnds:  # fmt: skip
    """Both ends of vectors, in blocks whose logits fit into `block_bytes`; on the CPU."""
    vocabulary = len(reader.embedding_VD)
    rows, blocks = rows_in(block_bytes, vocabulary), []
    for first in range(0, len(vectors_ND), rows):
        if cancel is not None:
            cancel()
        ends = BothEnds.of(reader.logits(vectors_ND[first : first + rows]), top)
        blocks.append((ends.highest_NK, ends.highest_logit_NK, ends.lowest_NK, ends.lowest_logit_NK))
    if not blocks:
        nothing, ids = torch.empty(0, min(top, vocabulary)), torch.empty(0, min(top, vocabulary), dtype=torch.int64)
        return BothEnds(ids, nothing, ids, nothing)
    return BothEnds(*(torch.cat(parts).cpu() for parts in zip(*blocks, strict=True)))


def gram(embedding_VD: Tensor) -> Tensor:
    """float64 [D, D] of an embedding: EᵀE, some rows at a time."""
    found_DD = torch.zeros(2 * embedding_VD.shape[1:], dtype=torch.float64, device=embedding_VD.device)
    for block_WD in embedding_VD.split(CONVERTED_ROWS):
        found_DD += block_WD.double().T @ block_WD.double()
    return found_DD
