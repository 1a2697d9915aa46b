"""The singular directions of a low-rank product, without the product.

W = left right with left [D, K] and right [K, D]. With QR of both, left = Q R and rightᵀ = Q' R', W = Q (R R'ᵀ) Q'ᵀ, so
the singular value decomposition of the small K × K matrix in the middle gives that of W. A full matrix, with the
identity on one side, goes the same way. Axes: D width, K ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Singular:
    """c W = Σ (c · reads_k) singular_k writes_k; the singular values fall, and none is 0."""

    reads_KD: Tensor
    """Left singular vectors, of length 1: what c is asked for."""
    singular_K: Tensor
    writes_KD: Tensor
    """Right singular vectors, of length 1: what is added to c."""

    @property
    def norm(self) -> float:
        """Frobenius norm of W."""
        return float(torch.linalg.vector_norm(self.singular_K))


def singular(left_DK: Tensor, right_KD: Tensor) -> Singular:
    """float64, on the CPU: as many directions as W has singular values above rounding of its float32 numbers."""
    q_DK, r_KK = torch.linalg.qr(left_DK.cpu().double())
    other_DK, other_KK = torch.linalg.qr(right_KD.T.cpu().double())
    left_KK, singular_K, right_KK = torch.linalg.svd(r_KK @ other_KK.T)
    width = max(left_DK.shape)
    least = float(singular_K[0]) * width * torch.finfo(torch.float32).eps if len(singular_K) else 0.0
    rank = int((singular_K > least).sum())
    return Singular((q_DK @ left_KK).T[:rank], singular_K[:rank], (right_KK @ other_DK.T)[:rank])
