"""Singular directions of a low-rank product against the decomposition of the product itself."""

import pytest
import torch

from backend.measure.singular import singular


def factors(width: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(width + rank)
    return torch.randn(width, rank, generator=dice), torch.randn(rank, width, generator=dice)


@pytest.mark.parametrize(("width", "rank"), [(24, 5), (7, 7), (6, 9), (5, 1)])
def test_they_are_those_of_the_product(width, rank):
    left, right = factors(width, rank)
    whole = left.double() @ right.double()
    found = singular(left, right)
    expected = torch.linalg.svdvals(whole)[: min(width, rank)]
    torch.testing.assert_close(found.singular_K, expected, rtol=1e-9, atol=1e-9)
    built = found.reads_KD.T @ torch.diag(found.singular_K) @ found.writes_KD
    torch.testing.assert_close(built, whole, rtol=1e-9, atol=1e-9)
    same = torch.eye(len(expected), dtype=torch.float64)
    for vectors in (found.reads_KD, found.writes_KD):
        torch.testing.assert_close(vectors @ vectors.T, same, rtol=0, atol=1e-9)
    assert found.norm == pytest.approx(float(torch.linalg.matrix_norm(whole)))


def test_a_full_matrix_comes_with_the_identity():
    whole = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        singular(whole, torch.eye(8)).singular_K, torch.linalg.svdvals(whole.double()), rtol=1e-9, atol=1e-9
    )


def test_ranks_that_are_nothing_are_no_directions():
    left, right = factors(12, 4)
    left[:, 3] = left[:, 0] + left[:, 1]
    assert len(singular(left, right).singular_K) == 3
    nothing = singular(torch.zeros(6, 2), torch.zeros(2, 6))
    assert (len(nothing.singular_K), nothing.norm) == (0, 0.0)
