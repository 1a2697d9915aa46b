"""Bootstrap intervals equal the closed form where there is one."""

import math
from collections.abc import Callable

import pytest
import torch
from scipy.stats import binom, binomtest, sem, ttest_ind
from scipy.stats import t as student
from torch import Tensor

from backend.measure import few
from backend.measure.intervals import SHARE, interval, perplexity, ratio, ratio_of_contrasts, ratios, share


@pytest.mark.parametrize(("texts", "ones"), [(30, 9), (50, 10), (200, 100)])
def test_the_interval_of_zeros_and_ones_is_that_of_the_binomial_distribution(texts, ones):
    """A resample's mean of k ones among n is Binomial(n, k/n)/n, whose quantiles are known; the bootstrap's own are of
    10,000 draws, so they may fall on the next step."""
    values_N = torch.zeros(texts)
    values_N[:ones] = 1
    found = interval(values_N, seed=3)
    low, high = binom(texts, ones / texts).ppf([0.025, 0.975]) / texts
    assert found.mean == pytest.approx(ones / texts)
    assert found.low == pytest.approx(low, abs=1.001 / texts)
    assert found.high == pytest.approx(high, abs=1.001 / texts)
    assert found.n == texts


def gamma(shape: float) -> Callable[[tuple[int, int]], Tensor]:
    return lambda size: torch.distributions.Gamma(shape, 1.0).sample(size) - shape


THROWN = {"normal": torch.randn, "uniform": lambda size: torch.rand(size) - 0.5, "gamma4": gamma(4), "gamma2": gamma(2)}
"""Of mean 0; the gamma distributions have skewness 1 and 1.4."""


@pytest.mark.parametrize("count", [5, 10, 22])
@pytest.mark.parametrize("kind", THROWN)
def test_the_interval_of_few_texts_holds_the_truth_as_often_as_it_says(kind, count):
    """Of percentiles at five texts it is 82 of 100, of Student's t alone 92 for gamma(2)."""
    torch.manual_seed(5)
    values_RN = THROWN[kind]((20_000, count)).double()
    low_R, high_R = few.of_ratios(values_RN, torch.ones_like(values_RN))
    assert 0.93 <= float(((low_R <= 0) & (high_R >= 0)).double().mean()) <= 0.975
    first = ratios(values_RN[:3], torch.ones(1, count))
    assert [each.low for each in first] == pytest.approx(low_R[:3].tolist())
    assert [each.high for each in first] == pytest.approx(high_R[:3].tolist())


def test_few_texts_have_students_interval_at_least_and_not_much_more():
    """Without skew it is Student's, by scipy; with some, one end lies further out and the other stays."""
    even_N = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    for values_N in (even_N, torch.tensor([1.0, 4.0], dtype=torch.float64)):
        low, high = student.interval(0.95, len(values_N) - 1, float(values_N.mean()), float(sem(values_N)))
        found = interval(values_N)
        assert (found.low, found.high) == (pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4))
    skewed_N = torch.tensor([1.0, 1.0, 1.2, 1.5, 9.0], dtype=torch.float64)
    low, high = student.interval(0.95, 4, float(skewed_N.mean()), float(sem(skewed_N)))
    found = interval(skewed_N)
    assert found.low == pytest.approx(low, rel=1e-4)
    assert high < found.high < high + 2 * (high - low)


def test_the_quotient_of_few_texts_counts_what_stands_below_it():
    """Against the delta method written out: residuals over the mean of what stands below."""
    dice = torch.Generator().manual_seed(3)
    under_N = torch.randint(5, 40, (12,), generator=dice).double()
    over_N = under_N * (1 + 0.1 * torch.randn(12, generator=dice, dtype=torch.float64))
    found, quotient = ratio(over_N, under_N), float(over_N.sum() / under_N.sum())
    error = float(sem((over_N - quotient * under_N) / under_N.mean()))
    low, high = student.interval(0.95, 11, quotient, error)
    assert found.low <= low + 1e-6
    assert found.high >= high - 1e-6
    assert found.high - found.low < 1.5 * (high - low)
    assert ratio(2 * under_N, under_N).high == 2


def test_an_interval_of_a_share_ends_where_a_share_does():
    values_N = torch.tensor([0.9, 1.0, 1.0, 1.0], dtype=torch.float64)
    assert interval(values_N).high > 1
    assert interval(values_N, within=SHARE).high == 1


@pytest.mark.parametrize(("texts", "ones"), [(4, 4), (8, 7), (10, 0), (29, 12)])
def test_the_share_of_few_right_texts_has_wilsons_interval(texts, ones):
    """By statsmodels' formula in scipy; four right ones of four do not prove that all are."""
    right_N = torch.zeros(texts)
    right_N[:ones] = 1
    found, expected = share(right_N), binomtest(ones, texts).proportion_ci(method="wilson")
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=1e-6), pytest.approx(expected.high, abs=1e-6))
    assert found.mean == pytest.approx(ones / texts)


def test_of_one_text_there_is_no_interval():
    found = interval(torch.tensor([3.0]))
    assert (found.low, found.mean, found.high, found.n) == (3, 3, 3, 1)


def test_many_texts_have_the_normal_interval():
    values_N = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 + 5
    found = interval(values_N)
    half = 1.96 * float(values_N.std(correction=0)) / 1000**0.5
    assert (found.mean - found.low, found.high - found.mean) == (
        pytest.approx(half, rel=0.06), pytest.approx(half, rel=0.06)
    )  # fmt: skip


def test_pairing_takes_out_what_texts_have_in_common():
    dice = torch.Generator().manual_seed(0)
    hard_N = 10 * torch.rand(40, generator=dice, dtype=torch.float64)
    shift_N = 0.1 + 0.01 * torch.randn(40, generator=dice, dtype=torch.float64)
    paired = interval((hard_N + shift_N) - hard_N)
    assert paired.low > 0.09
    assert interval(hard_N).high - interval(hard_N).low > 1


def test_equal_numbers_have_no_width_and_equal_seeds_equal_intervals():
    found = interval(torch.full((7,), 0.1))
    assert found.low == found.mean == found.high
    thirds = ratio(torch.tensor([1.0, 2.0, 2.0]) / 3, torch.tensor([1.0, 2.0, 2.0]))
    assert thirds.high - thirds.low < 1e-6
    values_N = torch.tensor([1.0, 2.0, 5.0, 9.0])
    assert interval(values_N, seed=1) == interval(values_N, seed=1)


def test_perplexity_counts_tokens_and_not_texts():
    """Two tokens at 1 nat and eight at 2: exp(18/10)."""
    found = perplexity(torch.tensor([1.0, 2.0] * 20), torch.tensor([2, 8] * 20))
    assert found.mean == pytest.approx(torch.tensor(1.8).exp().item())
    assert 1 < found.low < found.mean < found.high < torch.e**2


@pytest.mark.parametrize("bad", [torch.tensor([]), torch.tensor([1.0, float("nan")])])
def test_what_has_no_mean_is_refused(bad):
    with pytest.raises(ValueError, match="no"):
        ratio(bad, torch.ones_like(bad))


def test_what_both_groups_share_never_enters_a_ratio_of_contrasts():
    sign_N = torch.cat([-torch.ones(40), torch.ones(40)]).double()
    found = ratio_of_contrasts(0.05 * sign_N + 0.3, 0.1 * sign_N - 7, 40)
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert found.n == 80


def every_mean(values_3: Tensor) -> tuple[Tensor, Tensor]:
    """Means of all resamples of thirty texts, ten of each of three values, and how likely each is."""
    counts = torch.tensor([(one, two, 30 - one - two) for one in range(31) for two in range(31 - one)]).double()
    chance = (torch.lgamma(torch.tensor(31.0).double()) - torch.lgamma(counts + 1).sum(1) - 30 * math.log(3)).exp()
    return counts @ values_3 / 30, chance


def test_a_ratio_of_contrasts_has_the_interval_of_all_resamples_within_each_group():
    """Thirty texts a group of three kinds: all resamples can be written down, with their chances."""
    over_N = torch.tensor([-0.3, 0.2, -0.1, 0.5, 0.9, 0.4], dtype=torch.float64)
    under_N = torch.tensor([-1.0, -0.8, -1.3, 0.7, 1.1, 0.9], dtype=torch.float64)
    (over_A, chance_A), (over_B, _) = every_mean(over_N[:3]), every_mean(over_N[3:])
    (under_A, _), (under_B, _) = every_mean(under_N[:3]), every_mean(under_N[3:])
    quotients, order = ((over_B[:, None] - over_A) / (under_B[:, None] - under_A)).flatten().sort()
    below = (chance_A[:, None] * chance_A).flatten()[order].cumsum(0)
    low, high = (float(quotients[(below < tail).sum()]) for tail in (0.025, 0.975))
    found = ratio_of_contrasts(over_N.repeat_interleave(10), under_N.repeat_interleave(10), 30)
    assert found.low == pytest.approx(low, abs=0.01)
    assert found.high == pytest.approx(high, abs=0.01)
    for texts in (3, 30):
        with pytest.raises(ValueError, match="no effect"):
            ratio_of_contrasts(torch.ones(2 * texts), torch.zeros(2 * texts), texts)


@pytest.mark.parametrize("texts", [(5, 5), (4, 12), (29, 40)])
def test_a_ratio_of_contrasts_of_few_texts_has_welchs_interval_where_nothing_below_varies(texts):
    """By scipy, of numbers without skew; one text of a group leaves no interval."""
    groups = [
        torch.linspace(-1, 1, count, dtype=torch.float64) * wide for count, wide in zip(texts, (1, 3), strict=True)
    ]
    over_N = torch.cat([groups[0], groups[1] + 7])
    under_N = torch.cat([torch.zeros(texts[0]), torch.ones(texts[1])])
    found = ratio_of_contrasts(over_N, under_N, texts[0])
    welch = ttest_ind(groups[1] + 7, groups[0], equal_var=False).confidence_interval(0.95)
    assert (found.low, found.mean, found.high) == pytest.approx((welch.low, 7, welch.high))
    assert found.n == sum(texts)
    alone = ratio_of_contrasts(over_N[texts[0] - 1 :], under_N[texts[0] - 1 :], 1)
    assert alone.low == alone.mean == alone.high


@pytest.mark.parametrize("kind", THROWN)
@pytest.mark.parametrize("texts", [(5, 5), (5, 20)])
def test_a_ratio_of_contrasts_of_few_texts_holds_the_truth_as_often_as_it_says(kind, texts):
    """The upper numbers go with the lower ones, as of a text that two models read; percentiles hold 87 to 92."""
    torch.manual_seed(6)
    held, of = 0, 2_000
    for _ in range(of):
        noise = [THROWN[kind]((2, count)).double() for count in texts]
        under = [side + one[0] for side, one in zip((-3, 3), noise, strict=True)]
        over = [0.5 * below + 0.3 * one[1] for below, one in zip(under, noise, strict=True)]
        low, high = few.of_contrasts(*(torch.stack(pair) for pair in zip(over, under, strict=True)))
        held += low <= 0.5 <= high
    assert 0.93 <= held / of <= 0.985
