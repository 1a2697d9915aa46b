"""Sampling against its closed forms, against transformers' own cuts, and against itself in another company."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from transformers import TopKLogitsWarper, TopPLogitsWarper

from backend.measure import sampling
from backend.measure.sampling import Draw, draw, exponentials, kept, key_of

DRAWS = 20_000


def drawn(logits_V: torch.Tensor, **how) -> torch.Tensor:
    """Shares [V] of many draws, each under its own seed."""
    draws = [Draw(key=key_of(seed, 7), **how) for seed in range(DRAWS)]
    return draw(logits_V.expand(DRAWS, -1), draws).bincount(minlength=len(logits_V))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_the_closed_form_says(temperature):
    logits_V = torch.tensor([0.3, -1.0, 2.0, 0.0, 1.1, -3.0])
    expected_V = (logits_V.double() / temperature).softmax(-1) * DRAWS
    found_V = drawn(logits_V, temperature=temperature)
    assert chisquare(found_V.numpy(), expected_V.numpy()).pvalue > 0.01


def test_cut_distributions_are_renormalised():
    logits_V = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    expected_V = torch.tensor([0.5, 0.3]) / 0.8 * DRAWS
    for cut in ({"top_k": 2}, {"top_p": 0.79}):
        found_V = drawn(logits_V, temperature=1.0, **cut)
        assert found_V[2:].sum() == 0
        assert chisquare(found_V[:2].numpy(), expected_V.numpy()).pvalue > 0.01


def test_random_numbers_are_exponential_in_every_direction():
    keys_B = torch.tensor([key_of(seed, 0) for seed in range(300)])
    numbers_BV = exponentials(keys_B, 300)
    assert kstest(numbers_BV.flatten().numpy(), "expon").pvalue > 0.01
    correlation = torch.corrcoef(torch.stack([numbers_BV[:, :-1].flatten(), numbers_BV[:, 1:].flatten()]))[0, 1]
    assert abs(float(correlation)) < 0.02
    assert abs(float(torch.corrcoef(numbers_BV[:2])[0, 1])) < 0.2


def test_the_generator_is_splitmix64():
    """The first numbers of the published generator with seed 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    expected = torch.tensor([-(((word >> 12) + 0.5) * 2.0**-52) for word in published], dtype=torch.float64)
    assert torch.equal(exponentials(torch.tensor([0]), 3)[0], -(-expected).log())


def test_a_row_is_drawn_alike_in_any_company():
    dice = torch.Generator().manual_seed(1)
    logits_BV = torch.randn(9, 50, generator=dice)
    draws = [
        Draw(temperature=[0, 0.7, 1.3][row % 3], top_k=[0, 5][row % 2], top_p=[1, 0.6][row % 2], key=key_of(row, row))
        for row in range(9)
    ]
    together = draw(logits_BV, draws)
    alone = torch.cat([draw(logits_BV[row : row + 1], draws[row : row + 1]) for row in range(9)])
    assert torch.equal(together, alone)


def test_equal_distributions_under_one_key_draw_equal_tokens_and_close_ones_nearly_always():
    dice = torch.Generator().manual_seed(2)
    logits_V = torch.randn(200, generator=dice)
    near_V = logits_V + 0.02 * torch.randn(200, generator=dice)
    draws = [Draw(temperature=1, key=key_of(seed, 0)) for seed in range(4000)]
    one, other = (draw(each.expand(4000, -1), draws) for each in (logits_V, near_V))
    assert torch.equal(one, draw(logits_V.expand(4000, -1), draws))
    apart = float((logits_V.softmax(-1) - near_V.softmax(-1)).abs().sum() / 2)
    assert float((one != other).double().mean()) < 3 * apart


def test_greedy_takes_the_largest_and_of_equals_the_lowest_id():
    logits_BV = torch.tensor([[0.0, 5.0, 5.0, 1.0], [9.0, 5.0, 9.0, 9.0]])
    assert draw(logits_BV, [Draw(0), Draw(0)]).tolist() == [1, 0]


@given(st.integers(0, 10_000), st.integers(0, 40), st.floats(0.05, 1), st.integers(1, 40))
def test_cuts_equal_those_of_transformers(seed, top_k, top_p, looked_at):
    logits_BV = 3 * torch.randn(2, 37, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    scaled_BV = logits_BV - logits_BV.amax(-1, keepdim=True)
    expected = scaled_BV
    if top_k:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p < 1:
        expected = TopPLogitsWarper(top_p)(None, expected)
    before, sampling.LOOKED_AT = sampling.LOOKED_AT, looked_at
    try:
        found = kept(scaled_BV, [top_k] * 2, [top_p] * 2)
    finally:
        sampling.LOOKED_AT = before
    found = torch.ones_like(expected, dtype=torch.bool) if found is None else found
    assert torch.equal(found, expected.isfinite())


def test_of_equal_tokens_exactly_as_many_are_kept_as_were_asked_for():
    level_BV = torch.zeros(2, 6, dtype=torch.float64)
    assert kept(level_BV, [3, 0], [1.0, 0.5]).int().tolist() == [[1, 1, 1, 0, 0, 0]] * 2


def test_each_row_has_cuts_of_its_own():
    logits_BV = torch.tensor([[4.0, 3.0, 2.0, 1.0]] * 4, dtype=torch.float64) - 4
    found = kept(logits_BV, [0, 1, 3, 0], [1.0, 1.0, 0.1, 0.9])
    assert found.sum(-1).tolist() == [4, 1, 1, 3]


def test_tiny_temperatures_are_greedy_and_not_broken():
    logits_BV = torch.tensor([[1.0, 2.0, 3.0]])
    assert draw(logits_BV, [Draw(temperature=1e-300, key=3)]).tolist() == [2]
