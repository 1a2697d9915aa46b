"""The numbers of an LM-Steer while they are trained.

Source: Han et al. 2024, "Word Embeddings Are Steers for Language Models", §3, and their code: c becomes
c + ε a (c P1) P2ᵀ with ε = 1e-3, P1 and P2 drawn from N(0, 1) times 1e-2, Adam on both, λ (‖P1‖² + ‖P2‖²) in the loss.
A full W starts at 0, which is what no steer is. Axes: D width, K ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

EPSILON = 1e-3
SPREAD = 1e-2


class Factors:
    """P1 [D, K] and P2ᵀ [K, D], or one W [D, D], float32, with Adam's state. Nothing else is trained."""

    def __init__(self, width: int, rank: int | None, *, rate: float, seed: int, device: torch.device) -> None:
        dice = torch.Generator().manual_seed(seed)
        if rank is None:
            drawn = [torch.zeros(width, width)]
        else:
            drawn = [torch.randn(shape, generator=dice) * SPREAD for shape in ((width, rank), (rank, width))]
        self.parts = [part.to(device).requires_grad_() for part in drawn]
        self._adam = torch.optim.Adam(self.parts, lr=rate)

    def matrices(self) -> tuple[Tensor, Tensor]:
        """left_DK and right_KD of W at label 1, with their gradients: ε P1 and P2ᵀ."""
        left_DK = EPSILON * self.parts[0]
        if len(self.parts) == 2:
            return left_DK, self.parts[1]
        return left_DK, torch.eye(len(left_DK), device=left_DK.device)

    def descend(self, gradients: Sequence[Tensor], decay: float) -> None:
        """One step of Adam down the gradient of loss + decay · Σ‖part‖²."""
        for part, gradient in zip(self.parts, gradients, strict=True):
            part.grad = gradient + 2 * decay * part.detach()
        self._adam.step()
        self._adam.zero_grad()

    def numbers(self) -> dict[str, Tensor]:
        """`left` [D, K] and `right` [K, D] as they stand, on the CPU: what is kept as a steer."""
        left_DK, right_KD = (part.detach().cpu().clone() for part in self.matrices())
        return {"left": left_DK, "right": right_KD}


def training_bytes(width: int, rank: int | None) -> int:
    """Bytes of the numbers, their gradients, Adam's two moments, and the best numbers so far; a full one's identity."""
    return 4 * width * (7 * width if rank is None else 6 * 2 * rank)
