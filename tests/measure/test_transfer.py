"""A steer moved to a model in another basis does there exactly what it did here."""

import pytest
import torch

from backend.measure.transfer import maps, moved


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WORDS, WIDTH, RANK = 300, 12, 3
E, LEFT, RIGHT = random(WORDS, WIDTH), random(WIDTH, RANK, seed=1), random(RANK, WIDTH, seed=2)
STATES = random(5, WIDTH, seed=3)


def probabilities(states, e, left, right, by=0.7):
    return ((states + by * (states @ left @ right)) @ e.T).softmax(-1)


@pytest.mark.parametrize("basis", [
    torch.linalg.qr(random(WIDTH, WIDTH, seed=4)).Q, 3.0 * torch.eye(WIDTH, dtype=torch.float64),
    random(WIDTH, WIDTH, seed=5),
], ids=["rotated", "scaled", "any"])  # fmt: skip
def test_in_another_basis_every_probability_is_the_same(basis):
    """e = B e', so that c' = Bᵀ c gives the same logits; every word of the other model lies a vector aside as well."""
    other = E @ torch.linalg.inv(basis).T + random(WIDTH, seed=6)
    found = maps(E, other)
    assert found.fit == pytest.approx(1)
    torch.testing.assert_close(found.h_DF, basis, rtol=1e-6, atol=1e-8)
    left, right = (part.double() for part in moved(LEFT, RIGHT, found))
    expected = probabilities(STATES, E, LEFT, RIGHT)
    torch.testing.assert_close(probabilities(STATES @ basis, other, left, right), expected, rtol=1e-4, atol=1e-7)


def test_to_itself_it_is_the_steer_that_it_was():
    left, right = moved(LEFT, RIGHT, maps(E, E))
    torch.testing.assert_close((left @ right).double(), LEFT @ RIGHT, rtol=1e-5, atol=1e-6)


def test_the_maps_are_numpy_s_least_squares():
    import numpy as np

    other = E[:, :8] @ random(8, 8, seed=7) + 0.5 * random(WORDS, 8, seed=8)
    found = maps(E, other)
    e, f = ((part - part.mean(0)).numpy() for part in (E, other))
    expected, left, *_ = np.linalg.lstsq(f, e, rcond=None)
    np.testing.assert_allclose(found.h_DF.numpy(), expected.T, atol=1e-8)
    assert found.fit == pytest.approx(1 - left.sum() / (e**2).sum())
    assert found.fit < 0.8
    np.testing.assert_allclose(found.g_FD.numpy(), np.linalg.lstsq(e, f, rcond=None)[0].T, atol=1e-8)
    left_FK, right_KF = moved(LEFT, RIGHT, found)
    assert (left_FK.shape, right_KF.shape) == ((8, RANK), (RANK, 8))


def test_a_ridge_makes_the_maps_smaller_and_the_fit_worse():
    other = E + 0.3 * random(WORDS, WIDTH, seed=9)
    plain, ridged = maps(E, other), maps(E, other, ridge=100.0)
    assert ridged.h_DF.norm() < plain.h_DF.norm()
    assert ridged.fit < plain.fit
    few = maps(E[:5], other[:5])
    assert few.fit == pytest.approx(1), "fewer words than numbers: the smallest map that fits"
