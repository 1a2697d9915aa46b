"""Correlations from moments of the embeddings are those of the scores themselves; layers are matched as best can be."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from backend.measure.assignment import assigned, order, same_by_chance
from backend.measure.embedding_space import (
    Heads,
    Moments,
    Spaces,
    alike,
    correlations,
    head_correlations,
    plainly,
)

TOKENS = 60


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def moments_of(one_ND: Tensor, other_NE: Tensor, block: int = 7) -> Moments:
    moments = Moments()
    for some, others in zip(one_ND.split(block), other_NE.split(block), strict=True):
        moments.add(some, others)
    return moments


def pearson(one_PN: Tensor, other_QN: Tensor) -> Tensor:
    """By numpy, from the scores of every token."""
    whole = np.corrcoef(one_PN.numpy(), other_QN.numpy())
    return torch.from_numpy(whole[: len(one_PN), len(one_PN) :])


@st.composite
def embeddings(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two embeddings of the same tokens: of other widths, off centre, stretched along a direction, perhaps related."""
    seed, width, other = draw(st.integers(0, 10_000)), draw(st.integers(2, 6)), draw(st.integers(2, 6))
    one_ND, other_NE = drawn(seed, TOKENS, width), drawn(seed + 1, TOKENS, other)
    if draw(st.booleans()):
        other_NE = other_NE + one_ND @ drawn(seed + 2, width, other)
    one_ND[:, 0] *= draw(st.sampled_from([1.0, 1e3]))
    return one_ND + draw(st.sampled_from([0.0, 50.0])), other_NE - draw(st.sampled_from([0.0, 5.0]))


@settings(max_examples=40, deadline=None)
@given(embeddings(), st.integers(0, 10_000))
def test_correlations_are_pearsons_over_the_tokens(both: tuple[Tensor, Tensor], seed: int) -> None:
    one_ND, other_NE = both
    p_PD, q_QE = drawn(seed, 5, one_ND.shape[1]), drawn(seed + 9, 4, other_NE.shape[1])
    spaces = Spaces.of(moments_of(one_ND, other_NE))
    (x_PR, flat), (y_QS, other_flat) = spaces.one.cast(p_PD).standard(), spaces.other.cast(q_QE).standard()
    expected_PQ = pearson(p_PD @ one_ND.T, q_QE @ other_NE.T)
    assert (flat, other_flat) == (0, 0)
    torch.testing.assert_close(correlations(x_PR, y_QS, spaces.bridge_RS), expected_PQ, atol=1e-9, rtol=0)
    found = alike(x_PR, y_QS, spaces.bridge_RS, block_bytes=64)
    best = (expected_PQ.abs().amax(1).mean() + expected_PQ.abs().amax(0).mean()) / 2
    assert found.mean == pytest.approx(float(expected_PQ.abs().mean()), abs=1e-6)
    assert found.best == pytest.approx(float(best), abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(embeddings(), embeddings(), st.integers(0, 10_000), st.integers(1, 3))
def test_correlations_of_heads_are_pearsons_over_all_pairs_of_tokens(
    rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor], seed: int, numbers: int
) -> None:
    sides = []
    for each, (heads, place) in enumerate(((3, 0), (2, 1))):
        factors = [
            drawn(seed + 10 * each + at, heads * numbers, pair[place].shape[1])
            for at, pair in enumerate((rows, columns))
        ]
        tables = torch.stack(
            [
                (rows[place] @ a_KD.T) @ (columns[place] @ b_KE.T).T
                for a_KD, b_KE in zip(*(part.view(heads, numbers, -1) for part in factors), strict=True)
            ]
        )
        sides.append((heads, place, factors, tables.flatten(1)))
    by_row, by_column = (Spaces.of(moments_of(*pair)) for pair in (rows, columns))
    made = []
    for heads, place, factors, _ in sides:
        row_space, column_space = ((each.one, each.other)[place] for each in (by_row, by_column))
        made.append(Heads.of(row_space.cast(factors[0]), column_space.cast(factors[1]), heads))
    found_HG = head_correlations(made[0].led(by_row.bridge_RS, by_column.bridge_RS), made[1])
    assert all(bool(heads.fit_H.all()) for heads in made)
    torch.testing.assert_close(found_HG, pearson(sides[0][3], sides[1][3]), atol=1e-8, rtol=0)


def test_the_control_is_pearson_over_the_coordinates() -> None:
    p_PD, q_QD = drawn(0, 4, 9), drawn(1, 3, 9)
    found_PQ = correlations(plainly(p_PD).standard()[0], plainly(q_QD).standard()[0], None)
    torch.testing.assert_close(found_PQ, pearson(p_PD, q_QD))
    a_KD, b_KD, c_KD, d_KD = (drawn(seed, 2, 9) for seed in range(4))
    heads = [Heads.of(plainly(rows), plainly(columns), 1) for rows, columns in ((a_KD, b_KD), (c_KD, d_KD))]
    found_HG = head_correlations(heads[0], heads[1])
    torch.testing.assert_close(found_HG, pearson((a_KD.T @ b_KD).reshape(1, -1), (c_KD.T @ d_KD).reshape(1, -1)))


def test_a_vector_that_is_the_same_for_every_token_correlates_with_nothing_and_is_counted() -> None:
    one_ND = drawn(0, TOKENS, 4)
    one_ND[:, 3] = 2.0
    spaces = Spaces.of(moments_of(one_ND, one_ND))
    vectors_PD = torch.tensor([[0.0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 5]])
    unit_PR, constant = spaces.one.cast(vectors_PD).standard()
    assert constant == 2
    found_PP = correlations(unit_PR, unit_PR, spaces.bridge_RS)
    torch.testing.assert_close(found_PP, torch.diag(torch.tensor([0.0, 0, 1], dtype=torch.float64)))


def test_moments_do_not_depend_on_the_blocks_and_survive_a_far_mean() -> None:
    one_ND, other_NE = drawn(0, TOKENS, 4) + 1e6, drawn(1, TOKENS, 3)
    for block in (1, 13, TOKENS):
        own_DD, cross_DE, _ = moments_of(one_ND, other_NE, block).covariances
        apart_ND = one_ND - one_ND.mean(0)
        torch.testing.assert_close(own_DD, apart_ND.T @ apart_ND / TOKENS, rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(cross_DE, apart_ND.T @ (other_NE - other_NE.mean(0)) / TOKENS, rtol=1e-6, atol=1e-9)
    gram_DD = moments_of(one_ND, other_NE).grams[0]
    torch.testing.assert_close(gram_DD, one_ND.T @ one_ND / TOKENS, rtol=1e-12, atol=0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5))
def test_no_other_assignment_has_a_larger_sum(seed: int, rows: int, columns: int) -> None:
    score_LM = drawn(seed, rows, columns)
    few, many = sorted((rows, columns))
    tall_LM = score_LM if rows <= columns else score_LM.T
    best = max(sum(float(tall_LM[at, to]) for at, to in enumerate(way)) for way in permutations(range(many), few))
    pairs = assigned(score_LM)
    assert sum(float(score_LM[pair]) for pair in pairs) == pytest.approx(best)
    assert len(pairs) == few == len({at for at, _ in pairs}) == len({to for _, to in pairs})


def test_order_is_spearmans() -> None:
    assert order([(0, 0), (1, 1)]) is None
    assert order([(0, 0), (1, 1), (2, 2)]) == pytest.approx(1)
    assert order([(0, 5), (1, 3), (2, 1)]) == pytest.approx(-1)
    assert order([(0, 1), (1, 0), (2, 2), (3, 3)]) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("rows", "columns"), [((0, 1, 2), (0, 1, 2)), ((0, 1, 2, 3, 4), (0, 1)), ((1, 3), (0, 1, 2, 3))]
)
def test_layers_of_equal_number_meet_by_chance_as_often_as_over_all_matchings(
    rows: tuple[int, ...], columns: tuple[int, ...]
) -> None:
    short, long = sorted((rows, columns), key=len)
    met = [sum(one == other for one, other in zip(short, some, strict=True)) for some in permutations(long, len(short))]
    assert same_by_chance(rows, columns) == pytest.approx(np.mean(met))
