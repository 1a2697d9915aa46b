"""Random steers and directions, as large as given ones: what a control of equal norm does.

Axes: D width, K ranks.
"""

from hashlib import sha256

import torch
from torch import Tensor


def random_steer(left_DK: Tensor, right_KD: Tensor, *, seed: int) -> tuple[Tensor, Tensor]:
    """Gaussian factors of the same rank, scaled so that ‖left right‖ (Frobenius) is that of the given steer."""
    dice = _dice(seed)
    left, right = (torch.randn(part.shape, generator=dice) for part in (left_DK, right_KD))
    return left * (frobenius(left_DK, right_KD) / frobenius(left, right)).float(), right


def random_direction(vector_D: Tensor, *, seed: int) -> Tensor:
    """A Gaussian direction as long as the given one."""
    found_D = torch.randn(vector_D.shape, generator=_dice(seed))
    return found_D * (vector_D.double().norm() / found_D.double().norm()).float()


def frobenius(left_DK: Tensor, right_KD: Tensor) -> Tensor:
    """float64: ‖left right‖ without the product, whose squared norm is tr(leftᵀ left · right rightᵀ)."""
    left_DK, right_KD = left_DK.double(), right_KD.double()
    return ((left_DK.T @ left_DK) * (right_KD @ right_KD.T)).sum().clamp_min(0).sqrt()


def _dice(seed: int) -> torch.Generator:
    """Other numbers than what is made under the same seed draws, such as the factors that training begins with.

    Of a seed torch's generator on the CPU takes the lowest 32 bits alone.
    """
    return torch.Generator().manual_seed(int.from_bytes(sha256(f"chance {seed}".encode()).digest()[:4]))
