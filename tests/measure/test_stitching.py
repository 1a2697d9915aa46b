"""The kernel between two models is the one that numpy makes of both embeddings."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.measure.embedding_space import Moments
from backend.measure.stitching import directions, kernel, random_kernel


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_the_kernel_is_the_product_with_the_pseudo_inverse(seed, lower, upper, dependent):
    dice = torch.Generator().manual_seed(seed)
    one_ND, other_NE = (torch.randn(30, size, generator=dice, dtype=torch.float64) + 2 for size in (lower, upper))
    if dependent:
        other_NE[:, -1] = other_NE[:, 0]
    moments = Moments()
    for first in range(0, 30, 8):
        moments.add(one_ND[first : first + 8], other_NE[first : first + 8])
    found_DE = kernel(moments)
    expected_DE = one_ND.T.numpy() @ np.linalg.pinv(other_NE.T.numpy(), rcond=1e-10)
    np.testing.assert_allclose(found_DE.numpy(), expected_DE, atol=1e-6)
    assert directions(found_DE) == np.linalg.matrix_rank(expected_DE, tol=1e-7)


def test_the_random_kernel_has_the_same_singular_values_and_another_map():
    kernel_DE = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made_DE = random_kernel(kernel_DE, seed=1)
    torch.testing.assert_close(torch.linalg.svdvals(made_DE), torch.linalg.svdvals(kernel_DE))
    assert float((made_DE * kernel_DE).sum().abs()) < 0.5 * float(kernel_DE.square().sum())
    assert torch.equal(made_DE, random_kernel(kernel_DE, seed=1))
    assert not torch.equal(made_DE, random_kernel(kernel_DE, seed=2))
