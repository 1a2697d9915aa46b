"""What a thin product says of a head, and its random twin: the same singular values, random singular vectors.

Copying: Elhage et al. 2021, "A mathematical framework for transformer circuits", "Detecting copying behavior".
Axes: K numbers of a head, D width, V vocabulary, N rows, k words.
"""

from __future__ import annotations

import torch
from torch import Tensor


def singular_values(left_KD: Tensor, right_KD: Tensor) -> Tensor:
    """float64 [K], falling: of Lᵀ R [D, D], whose rank is K at most."""
    left_KK, right_KK = (torch.linalg.qr(side_KD.double().T).R for side_KD in (left_KD, right_KD))
    return torch.linalg.svdvals(left_KK @ right_KK.T).cpu()


def twin(left_KD: Tensor, right_KD: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """float32 factors of a map of the stream with the singular values of Lᵀ R and random singular vectors."""
    values_K = singular_values(left_KD, right_KD)
    dice = torch.Generator().manual_seed(seed)
    sides = []
    for _ in range(2):
        basis_DK = torch.linalg.qr(torch.randn(left_KD.shape[1], len(values_K), generator=dice, dtype=torch.float64)).Q
        sides.append((basis_DK * values_K.sqrt()).T.float().to(left_KD.device).contiguous())
    return sides[0], sides[1]


def copying(rows_VK: Tensor, columns_VK: Tensor) -> float | None:
    """Σ λ / Σ |λ| over the eigenvalues of A Bᵀ, which are those of Bᵀ A [K, K] and zeros; None where all are 0."""
    return _copying((columns_VK.double().T @ rows_VK.double()).cpu())


def _copying(small_KK: Tensor) -> float | None:
    eigenvalues = torch.linalg.eigvals(small_KK)
    size = float(eigenvalues.abs().sum())
    return float(eigenvalues.real.sum()) / size if size > 0 else None


def jaccard(one_NK: Tensor, other_NK: Tensor) -> Tensor:
    """float32 [N]: |both| / |either| of sets of k ids, one a row."""
    both_N = (one_NK[:, :, None] == other_NK[:, None, :]).flatten(1).sum(1)
    return both_N / (one_NK.shape[1] + other_NK.shape[1] - both_N)


def copying_of_maps(left_KD: Tensor, right_KD: Tensor, gram_DD: Tensor) -> float | None:
    """The same of A = E_in Lᵀ and B = E_out Rᵀ, from E_inᵀ E_out [D, D] in place of the vectors of all tokens."""
    small_KK = right_KD.double().cpu() @ gram_DD.T @ left_KD.double().cpu().T
    return _copying(small_KK)


def first_share(values_K: Tensor) -> float | None:
    """σ₁² / Σ σ²; None where all are 0."""
    size = float(values_K.square().sum())
    return float(values_K[0] ** 2) / size if size > 0 else None


def effective_rank(values_K: Tensor) -> float | None:
    """exp of the entropy of σ / Σ σ (Roy and Vetterli 2007); None where all are 0."""
    size = float(values_K.sum())
    return float(torch.special.entr(values_K / size).sum().exp()) if size > 0 else None
