"""A steer moved to another model, in closed form.

LM-Steer moves every output embedding: e becomes e + a W e, so that logits c·e become c·e + a c·W e (Han et al. 2024,
arXiv 2305.12798, whose last part is on transfer). Another model has embeddings e' of the same words. By least squares
over the shared words H maps its space to the steer's, e ≈ H e', and G maps back, e' ≈ G e. The other model's
embeddings shall move by the image of that movement:

    e' + a G W e  ≈  e' + a (G W H) e',    so    W' = G W H.

For a change of basis, e = B e', it is exact: H = B, G = B⁻¹, and the other model's states are c' = Bᵀ c, so that
c'·W' e' = c·B B⁻¹ W B e' = c·W e. Han et al. write HᵀWH, which is the same where H is orthogonal, and s² times too much
where one model's embeddings are s times as large. Their published code fits both maps by Adam on the first 4,000 tokens
and scales each row of one to length 1; here all shared words count and nothing is scaled.

A vector that all embeddings share adds the same to every logit and changes no probability, with W as without: so both
sets are centred first. Axes: N shared words, D width of the steer's model, F width of the other, K ranks.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Maps:
    """Between the embeddings of two models, float64, for columns: e ≈ H e', e' ≈ G e, both centred."""

    h_DF: Tensor
    g_FD: Tensor
    fit: float
    """1 − ‖E − H E'‖² / ‖E‖² over the shared words: the share of the steer's embeddings that the other's tell."""


def maps(e_ND: Tensor, other_NF: Tensor, ridge: float = 0.0) -> Maps:
    """Least squares over the shared words, in float64; `ridge` times ‖H‖² (and ‖G‖²) is added to what is minimised.

    Of maps that fit equally, such as where words are fewer than numbers, the smallest.
    """
    e_ND, other_NF = (part.double() - part.double().mean(0) for part in (e_ND, other_NF))
    cross_DF = e_ND.T @ other_NF
    h_DF = cross_DF @ _inverse(other_NF.T @ other_NF, ridge)
    g_FD = cross_DF.T @ _inverse(e_ND.T @ e_ND, ridge)
    left = (e_ND - other_NF @ h_DF.T).square().sum() / e_ND.square().sum()
    return Maps(h_DF, g_FD, float(1 - left))


def _inverse(gram_DD: Tensor, ridge: float) -> Tensor:
    gram_DD.diagonal().add_(ridge)
    return torch.linalg.pinv(gram_DD, hermitian=True)


def moved(left_DK: Tensor, right_KD: Tensor, between: Maps) -> tuple[Tensor, Tensor]:
    """float32 factors of W' = G W H, of the same ranks, where W = left right."""
    return (between.g_FD @ left_DK.double()).float(), (right_KD.double() @ between.h_DF).float()
