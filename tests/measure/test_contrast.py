"""Directions of states that were made with a known one in them."""

import numpy as np
import pytest
import torch

from backend.measure.contrast import difference_of_means, explained, principal_difference


def states(noise: float, pairs: int = 40, width: int = 12):
    """Pairs that share a large part of their own and differ along one direction by 3 on average."""
    dice = torch.Generator().manual_seed(0)
    along_D = torch.nn.functional.normalize(torch.randn(width, generator=dice), dim=0)
    common_PD = 10 * torch.randn(pairs, width, generator=dice)
    by_P = 3 + torch.randn(pairs, generator=dice)
    by_P -= by_P.mean() - 3
    rest_PD = noise * torch.randn(pairs, width, generator=dice)
    return along_D, common_PD + 0.5 * by_P[:, None] * along_D + rest_PD, common_PD - 0.5 * by_P[:, None] * along_D


def test_without_noise_both_find_the_direction_its_sign_and_how_far_apart_the_means_are():
    along_D, plus_PD, minus_PD = states(0)
    for find in (difference_of_means, principal_difference):
        torch.testing.assert_close(find(plus_PD, minus_PD), 3 * along_D, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(find(minus_PD, plus_PD), -3 * along_D, rtol=1e-4, atol=1e-4)
    assert explained(plus_PD, minus_PD, along_D) == pytest.approx(1)


def test_the_principal_direction_is_the_eigenvector_of_the_pairs_with_their_mirror_images():
    """numpy's covariance of the differences beside their negatives, whose mean is 0."""
    _, plus_PD, minus_PD = states(0.8)
    differences = (plus_PD - minus_PD).numpy().astype("f8")
    values, vectors = np.linalg.eigh(np.cov(np.concatenate([differences, -differences]).T))
    found = principal_difference(plus_PD, minus_PD)
    assert abs(found.numpy() @ vectors[:, -1]) / float(found.norm()) == pytest.approx(1, abs=1e-6)
    assert explained(plus_PD, minus_PD, found) == pytest.approx(values[-1] / values.sum(), abs=1e-6)
    assert float(found @ difference_of_means(plus_PD, minus_PD)) > 0


def test_pairs_that_do_not_differ_have_no_direction():
    same_PD = torch.ones(3, 4)
    with pytest.raises(ValueError, match="no pair differs"):
        principal_difference(same_PD, same_PD)
