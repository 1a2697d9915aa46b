"""Random steers and directions are as large as what they control for."""

import pytest
import torch

from backend.measure.chance import frobenius, random_direction, random_steer
from backend.measure.factors import Factors


@pytest.mark.parametrize("ranks", [1, 4, 16])
def test_a_random_steer_has_the_norm_and_the_rank_of_the_given_one(ranks):
    dice = torch.Generator().manual_seed(1)
    left, right = torch.randn(16, ranks, generator=dice), 0.01 * torch.randn(ranks, 16, generator=dice)
    found = random_steer(left, right, seed=5)
    assert torch.linalg.matrix_norm(found[0] @ found[1]) == pytest.approx(torch.linalg.matrix_norm(left @ right))
    assert torch.linalg.matrix_rank(found[0] @ found[1]) == ranks
    assert float(frobenius(left, right)) == pytest.approx(float(torch.linalg.matrix_norm(left @ right)), rel=1e-5)
    assert all(torch.equal(one, other) for one, other in zip(found, random_steer(left, right, seed=5), strict=True))
    assert not torch.equal(found[0], random_steer(left, right, seed=6)[0])


def test_a_random_direction_has_the_length_of_the_given_one():
    given = torch.tensor([3.0, 4.0, 0.0])
    assert random_direction(given, seed=2).norm() == pytest.approx(5)
    assert not torch.equal(random_direction(given, seed=2), random_direction(given, seed=3))


def test_a_random_steer_is_not_what_training_begins_with_under_the_same_seed():
    """Else the control of a steer would be its own beginning, and half of the steer would be in it."""
    factors = Factors(64, 4, rate=0.01, seed=0, device=torch.device("cpu"))
    begun = torch.linalg.multi_dot([part.detach() for part in factors.parts])
    left, right = random_steer(*(part.detach() for part in factors.parts), seed=0)
    cosine = float((left @ right * begun).sum() / (begun.norm() * (left @ right).norm()))
    assert abs(cosine) < 0.1
