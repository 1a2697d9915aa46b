"""Best spans equal those of trying all, and chance is what shuffling gives."""

import itertools
import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.measure.spans import best_spans, best_sums, by_chance

NUMBERS = st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=0, max_size=9)


def brute(values: list[float], most: int, longest: int) -> float:
    """Every set of spans that is allowed, tried."""
    every = [(a, b) for a in range(len(values)) for b in range(a + 1, min(a + longest, len(values)) + 1)]
    best = 0.0
    for count in range(1, most + 1):
        for chosen in itertools.combinations(every, count):
            if all(one[1] < other[0] for one, other in itertools.pairwise(chosen)):
                best = max(best, sum(sum(values[a:b]) for a, b in chosen))
    return best


@given(NUMBERS, st.integers(1, 3), st.integers(1, 5))
@settings(max_examples=150)
def test_the_best_spans_are_those_of_trying_all(values, most, longest):
    found = best_spans(torch.tensor(values), most, longest)
    assert found.total == brute(values, most, longest)
    assert best_sums(torch.tensor([values]), most, longest).tolist() == [found.total]
    assert len(found.spans) <= most
    for first, last, total in found.spans:
        assert 0 < last - first <= longest
        assert total == sum(values[first:last]) > 0
    assert all(one[1] < other[0] for one, other in itertools.pairwise(found.spans)), "none touches the next"


def test_two_good_words_apart_are_two_spans_and_touching_ones_are_one_or_fewer():
    assert best_spans(torch.tensor([2.0, -9, 3]), 4, 10).spans == ((0, 1, 2.0), (2, 3, 3.0))
    assert best_spans(torch.tensor([2.0, 3, 4]), 4, 2).spans == ((1, 3, 7.0),), "2 + 4 or 3 + 4, not all three"
    assert best_spans(torch.tensor([-1.0, -2]), 4, 10).spans == ()
    assert best_spans(torch.tensor([0.0, 0.0]), 4, 10).spans == ()


def test_every_row_is_solved_by_itself():
    dice = torch.Generator().manual_seed(2)
    rows = torch.randn(7, 31, generator=dice)
    together = best_sums(rows, 3, 4)
    assert together.tolist() == [best_spans(row, 3, 4).total for row in rows.double()]


def test_the_share_of_orders_is_that_of_all_orders():
    """Six numbers have 720 orders: the exact share, which 4,000 random ones meet within four standard errors."""
    values = [2.0, -1.0, 1.5, -2.0, 0.5, 1.0]
    every = torch.tensor(list(itertools.permutations(values)))
    sums = best_sums(every, 1, 3)
    own = best_spans(torch.tensor(values), 1, 3).total
    share = float((sums >= own - 1e-9).double().mean())
    found = by_chance(torch.tensor(values), 1, 3, 4000)
    assert found.p == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 4000))
    assert found.mean == pytest.approx(float(sums.mean()), abs=4 * float(sums.std()) / math.sqrt(4000))


def test_what_stands_together_is_no_chance_and_what_is_equal_everywhere_is():
    together = torch.cat([torch.zeros(60), torch.full((8,), 1.0), torch.full((60,), -0.2)])
    assert by_chance(together, 1, 10, 999).p == pytest.approx(1 / 1000)
    assert by_chance(torch.ones(20), 4, 3, 99).p == 1.0
    assert by_chance(torch.full((20,), 0.1), 4, 3, 99).p == 1.0, "rounding makes no order the better one"
    assert by_chance(together, 4, 10, 99) == by_chance(together, 4, 10, 99)


def test_cancelling_ends_it_between_blocks():
    def cancel() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        by_chance(torch.ones(20), 1, 1, 99, cancel=cancel)


def test_a_thousand_orders_of_a_long_text_take_no_time():
    values = torch.randn(500, generator=torch.Generator().manual_seed(1))
    start = time.thread_time()
    by_chance(values, 4, 10, 999)
    assert time.thread_time() - start < 1.5
