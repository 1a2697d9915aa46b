"""What steering does to a distribution: which tokens rise and fall, how far it moves, and what each steer adds.

LM-Steer (Han et al. 2024, "Word embeddings are steers for language models") moves what the output embedding takes:
c becomes c + Σ a_s c W_s with W_s = left_s right_s, which is the same as moving every output embedding e to
e + Σ a_s W_s e.
Axes: N states, V vocabulary, D width, K ranks of a steer, W words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sides:
    """Two distributions over the same words, N times: base and steered, in float64 so that small moves are not lost."""

    lnp_2NV: Tensor
    """ln p."""
    p_2NV: Tensor

    @classmethod
    def of(cls, base_NV: Tensor, steered_NV: Tensor) -> Sides:
        """From their logits."""
        logits_2NV = torch.stack([base_NV, steered_NV])
        if logits_2NV.device.type == "mps":  # which has no float64
            logits_2NV = logits_2NV.cpu()
        lnp_2NV = logits_2NV.double().log_softmax(-1)
        return cls(lnp_2NV, lnp_2NV.exp())

    def divergence(self) -> Tensor:
        """float64 [N], nats: KL(base ‖ steered) = Σ p ln(p / q). A token that neither allows adds nothing."""
        apart_NV = (self.lnp_2NV[0] - self.lnp_2NV[1]).nan_to_num_(0.0, torch.inf, 0.0)
        return torch.linalg.vecdot(self.p_2NV[0], apart_NV).clamp_min_(0.0)

    def entropy(self) -> Tensor:
        """float64 [2, N], nats."""
        return -torch.linalg.vecdot(self.p_2NV, self.lnp_2NV.clamp_min(torch.finfo(torch.float32).min))

    def of_tokens(self, ids_N: Tensor) -> Tensor:
        """float64 [2, N]: ln p of one token in each of the N."""
        ids_2N1 = ids_N.to(self.lnp_2NV.device).expand(2, -1)[..., None]
        return self.lnp_2NV.gather(-1, ids_2N1)[..., 0]

    def rose_and_fell(self, top: int, place: int = 0) -> tuple[Tensor, Tensor]:
        """Ids of the tokens whose probability rises most, and of those whose falls most.

        The most first; of equal changes the lower id first. A token that does not move is in neither.
        """
        change_V = self.p_2NV[1, place] - self.p_2NV[0, place]
        return _most(change_V, top), _most(-change_V, top)


def _most(change_V: Tensor, top: int) -> Tensor:
    ids_K = change_V.topk(min(top, len(change_V))).indices.sort().values
    ids_K = ids_K[change_V[ids_K].argsort(descending=True, stable=True)]
    return ids_K[change_V[ids_K] > 0]


def added(state_D: Tensor, left_DK: Tensor, right_KD: Tensor, embedding_WD: Tensor) -> Tensor:
    """float32 [W]: c W e, the logits that a steer adds to some words at strength 1, before any multiplier."""
    return ((state_D.float() @ left_DK) @ right_KD) @ embedding_WD.float().T
