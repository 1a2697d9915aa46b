"""A direction from contrast pairs: difference of means, or the principal direction of the pairs' differences.

Sources: Turner et al. 2023 (arXiv 2308.10248) and Panickssery et al. 2024 (arXiv 2312.06681, §3) for differences of
means; Zou et al. 2023 (arXiv 2310.01405, §3.1) for the principal direction. Axes: N texts, P pairs, D width.
"""

import torch
from torch import Tensor


def difference_of_means(plus_ND: Tensor, minus_ND: Tensor) -> Tensor:
    """float32 [D]: mean of + minus mean of −. At 1, a state in the middle of − comes to lie in the middle of +."""
    return (plus_ND.double().mean(0) - minus_ND.double().mean(0)).float()


def principal_difference(plus_PD: Tensor, minus_PD: Tensor) -> Tensor:
    """float32 [D]: the direction in which the differences of pairs are largest, as long as the means are apart in it.

    Zou et al. take + minus − in random order, so that the differences have a mean of 0; that is each difference beside
    its negative, so nothing is subtracted here. A principal direction has no sign: it points as the pairs do on
    average. Raises `ValueError` where no pair differs, or the means are not apart in it.
    """
    differences_PD = plus_PD.double() - minus_PD.double()
    if not bool(differences_PD.any()):
        raise ValueError("no pair differs")
    along_D = torch.linalg.svd(differences_PD, full_matrices=False).Vh[0]
    apart = differences_PD.mean(0) @ along_D
    if not float(apart):
        raise ValueError("the means are not apart in the principal direction")
    return (apart * along_D).float()


def explained(plus_PD: Tensor, minus_PD: Tensor, vector_D: Tensor) -> float:
    """Share of the pairs' squared differences that lies along a direction."""
    differences_PD = plus_PD.double() - minus_PD.double()
    along_D = vector_D.double() / vector_D.double().norm()
    return float((differences_PD @ along_D).square().sum() / differences_PD.square().sum())
