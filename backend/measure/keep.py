"""What is left of inner products when of each vector's words only the k largest are kept.

With E [D, V] and a right inverse E' [V, D], x·y = (x E)·(yᵀ E'ᵀ). keep-k sets all but the k entries of largest absolute
value to 0 and leaves their signs. Source: Dar et al. 2023, "Analyzing transformers in embedding space", Appendix A, and
its notebook, which compares all products at once, those of a vector with itself among them.
Axes: N vectors, V vocabulary, D width, R resamples.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.measure.intervals import AT_ONCE, RESAMPLES, TAILS
from backend.schema import Interval


def keep_k(words_NV: Tensor, k: int) -> Tensor:
    """All but the k entries of largest absolute value set to 0; which of equal ones stay is not said."""
    if k >= words_NV.shape[1]:
        return words_NV
    kept_Nk = words_NV.abs().topk(k, dim=1, sorted=False).indices
    return torch.zeros_like(words_NV).scatter_(1, kept_Nk, words_NV.gather(1, kept_Nk))


def dual(gram_DD: Tensor) -> Tensor:
    """float64 [D, D]: (E Eᵀ)⁺ of the Gram matrix E Eᵀ, so that x (E Eᵀ)⁺ E is x in words under E⁺ = Eᵀ (E Eᵀ)⁺.

    Where the words do not span the stream, no right inverse exists, and this is the pseudo-inverse.
    """
    return torch.linalg.pinv(gram_DD.double(), hermitian=True)


def cosines(exact_NN: Tensor, kept_NN: Tensor, *, seed: int = 0) -> tuple[Interval, Interval]:
    """Cosine between two matrices of products, over all pairs and over those of different vectors, with 95 % intervals.

    Vectors are resampled: a pair counts as often as both of its vectors were drawn, and a vector with itself as often
    as it was, never with its own copy, which would stand for two vectors that agree. Zeros have the cosine 0.
    The unit is a vector and no text, and what is told is a quotient of sums over pairs: no mean of one number a vector,
    so Student's t has nothing to stand on, and it is the bootstrap whatever their number; of few it is too narrow.
    """
    exact_NN, kept_NN = exact_NN.double().cpu(), kept_NN.double().cpu()
    dice = torch.Generator().manual_seed(seed)
    products = [exact_NN * kept_NN, exact_NN.square(), kept_NN.square()]
    count = len(exact_NN)
    own = _sums(torch.ones(1, count, dtype=torch.float64), products)
    rows = max(1, AT_ONCE // count)
    parts = []
    for first in range(0, RESAMPLES, rows):
        places_RN = torch.randint(count, (min(rows, RESAMPLES - first), count), generator=dice)
        drawn_RN = torch.zeros(places_RN.shape, dtype=torch.float64)
        drawn_RN.scatter_add_(1, places_RN, torch.ones((), dtype=torch.float64).expand(places_RN.shape))
        parts.append(_sums(drawn_RN, products))
    resampled = torch.cat(parts, 1)
    found = []
    for place in (0, 1):
        mean = float(_cosine(own[place])[0])
        low, high = _cosine(resampled[place]).quantile(
            torch.tensor(TAILS, dtype=torch.float64), interpolation="nearest"
        ).tolist()  # fmt: skip
        found.append(Interval(mean=mean, low=min(low, mean), high=max(high, mean), n=count))
    return found[0], found[1]


def _sums(drawn_RN: Tensor, products: list[Tensor]) -> Tensor:
    """float64 [2, R, 3]: each product summed over all pairs, and over those of different vectors."""
    diagonals = torch.stack([product_NN.diagonal() for product_NN in products], 1)
    apart_R3 = torch.stack(
        [
            (drawn_RN @ (product_NN - product_NN.diagonal().diag()) * drawn_RN).sum(1)
            for product_NN in products
        ], 1,
    )  # fmt: skip
    return torch.stack([apart_R3 + drawn_RN @ diagonals, apart_R3])


def _cosine(sums_R3: Tensor) -> Tensor:
    over_R, one_R, other_R = sums_R3.unbind(1)
    size_R = (one_R.clamp_min(0) * other_R.clamp_min(0)).sqrt()
    return torch.where(size_R > 0, over_R / size_R, 0.0)
