"""A cell of the lens: two distributions of words, what moved between them, and the values that were written.

Axes: N distributions, V vocabulary, K words, F units, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend.measure.tokens import probabilities


@dataclass(frozen=True)
class Moves:
    """The tokens whose probability changes most, the largest change first."""

    ids_K: Tensor
    before_K: Tensor
    after_K: Tensor
    logit_before_K: Tensor
    logit_after_K: Tensor


def moved(before_V: Tensor, after_V: Tensor, top: int) -> Moves:
    """From the logits of two distributions; of equal changes the lower id first. A token that either one forbids, with
    a logit of −inf, is left out.
    """
    p_V, q_V = probabilities(before_V), probabilities(after_V)
    change_V = torch.where(before_V.isfinite() & after_V.isfinite(), (q_V - p_V).abs(), -1.0)
    ids_K = change_V.topk(min(top, len(change_V))).indices.sort().values
    ids_K = ids_K[change_V[ids_K].argsort(descending=True, stable=True)]
    ids_K = ids_K[change_V[ids_K] >= 0]
    return Moves(ids_K, p_V[ids_K], q_V[ids_K], before_V[ids_K], after_V[ids_K])


@dataclass(frozen=True)
class SubUpdates:
    """What a feed-forward block writes, taken apart: output = Σ coefficient · value + bias.

    Source: Geva et al. 2021, "Transformer feed-forward layers are key-value memories", eq. 2; the score |m| ‖v‖ is that
    of LM-Debugger (Geva et al. 2022).
    """

    coefficient_F: Tensor
    value_FD: Tensor
    bias_D: Tensor | None

    def magnitude(self) -> Tensor:
        """float32 [F]: |coefficient| · ‖value‖."""
        return self.coefficient_F.float().abs() * self.value_FD.float().norm(dim=1)

    def total(self) -> Tensor:
        """float32 [D]: the sum of all of them, and the bias."""
        total_D = self.coefficient_F.float() @ self.value_FD.float()
        return total_D if self.bias_D is None else total_D + self.bias_D.float()

    def sum_error(self, gave_D: Tensor) -> float:
        """Largest difference of the sum from what the matrix gave, over the norm of that; 0 when both are 0."""
        apart = float((self.total() - gave_D.float()).abs().max())
        return apart / max(float(gave_D.float().norm()), torch.finfo(torch.float32).tiny) if apart else 0.0
