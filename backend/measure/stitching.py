"""The kernel between two models' streams, by way of the tokens that both have.

A state h of the lower model has scores h E over tokens; the upper model's state h' with h' E' nearest to them is
h E E'⁺, with the pseudo-inverse (the transpose, which reads parameters as words, is no inverse). Both embeddings enter
by their Gram matrices alone: E E'⁺ = (E E'ᵀ)(E' E'ᵀ)⁺ where E' has a row for each number of the stream.
Source: Dar et al. 2023, "Analyzing transformers in embedding space", §5.2. Axes: D and E widths of the streams.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.measure.embedding_space import Moments

RANK = 1e-9
"""Share of the largest singular value above which a direction of the kernel is one."""


def kernel(moments: Moments) -> Tensor:
    """float64 [D, E], for states as rows; moments of the lower model's embedding first."""
    _, cross_DE, other_EE = moments.grams
    return cross_DE @ torch.linalg.pinv(other_EE, hermitian=True)


def directions(kernel_DE: Tensor) -> int:
    """Its rank."""
    values = torch.linalg.svdvals(kernel_DE)
    return int((values > RANK * values[0]).sum()) if float(values[0]) else 0


def random_kernel(kernel_DE: Tensor, seed: int) -> Tensor:
    """float64 [D, E]: the same singular values, random singular vectors."""
    values = torch.linalg.svdvals(kernel_DE).cpu()
    dice = torch.Generator().manual_seed(seed)
    left, right = (
        torch.linalg.qr(torch.randn(size, len(values), generator=dice, dtype=torch.float64)).Q
        for size in kernel_DE.shape
    )
    return ((left * values) @ right.T).to(kernel_DE.device)
