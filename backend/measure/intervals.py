"""Means with their 95 % intervals, by bootstrap over texts (Efron & Tibshirani 1993, §13.3: percentiles).

Of fewer than 30 texts percentiles are too narrow (82 times of 100 at five), so there it is Student's t, widened for
skew: see `few`. Paired by construction: what is resampled is a text with everything that was measured on it, so two
settings that were measured on the same texts are compared text by text. Axes: S settings, N texts, R resamples.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from backend.measure import few
from backend.schema import Interval

RESAMPLES = 10_000
TAILS = (0.025, 0.975)
AT_ONCE = 4_000_000
"""Places that are drawn at once."""
NO_EFFECT = "there is no effect to divide by"


Span = tuple[float, float]
ANYTHING: Span = (-torch.inf, torch.inf)
SHARE: Span = (0.0, 1.0)
POSITIVE: Span = (0.0, torch.inf)
SIGNED: Span = (-1.0, 1.0)
"""Of differences of shares, and of cosines."""


def method(over: str) -> str:
    """How intervals were made, in words: `over` texts, prompts, pairs."""
    return f"95 %, bootstrap over {over} (of fewer than {few.ENOUGH}: Student's t, widened for skew, Hall 1992)"


def _itself(value: Tensor) -> Tensor:
    return value


def interval(values_N: Tensor, *, seed: int = 0, within: Span = ANYTHING) -> Interval:
    """The mean of one number a text (such as a paired difference), with its interval; `within`: as of `ratios`.

    Raises `ValueError` without a number, and for one that is not finite.
    """
    return ratios(values_N[None], torch.ones_like(values_N)[None], seed=seed, within=within)[0]


def share(right_N: Tensor, *, seed: int = 0) -> Interval:
    """The share of ones among zeros and ones, each of which is right or wrong; of few, Wilson's interval."""
    if not 1 < len(right_N) < few.ENOUGH:
        return interval(right_N, seed=seed)
    right, of = int(right_N.sum()), len(right_N)
    low, high = few.of_share(right, of)
    return Interval(mean=right / of, low=low, high=high, n=of)


LARGEST = torch.finfo(torch.float64).max


def as_perplexity(nll: Tensor) -> Tensor:
    """exp of nats a token; above 709 nats `LARGEST`, for no larger number can be written."""
    return nll.exp().clamp(max=LARGEST)


def perplexity(nll_N: Tensor, tokens_N: Tensor, *, seed: int = 0) -> Interval:
    """exp of the mean NLL over all tokens of texts, each given by its mean NLL in nats a token and its tokens."""
    return ratio(nll_N.double() * tokens_N, tokens_N, seed=seed, then=as_perplexity)


def ratio(over_N: Tensor, under_N: Tensor, *, seed: int = 0, then: Callable[[Tensor], Tensor] = _itself) -> Interval:
    """then(Σ over / Σ under) over texts, both of which are resampled together; `then` must not fall.

    Quotients of sums that differ in sign count as they are: an interval over such an effect is wide, and says so.
    """
    return ratios(over_N[None], under_N[None], seed=seed, then=then)[0]


def ratio_of_contrasts(over_N: Tensor, under_N: Tensor, first: int, *, seed: int = 0) -> Interval:
    """(mean of the later texts − mean of the first `first`) of one number a text, over the same of another number.

    Texts are resampled within each of the two groups, so what is common to both never enters; where one of them is of
    fewer than 30 it is Student's t, widened for skew: `few.of_contrasts`. Raises `ValueError` where the lower contrast
    is 0, as it stands or in a resample: there is no quotient.
    """
    numbers_2N = torch.stack([over_N, under_N]).double().cpu()
    groups = numbers_2N[:, :first], numbers_2N[:, first:]
    own_2 = groups[1].mean(1) - groups[0].mean(1)
    if not bool(own_2[1]):
        raise ValueError(NO_EFFECT)
    mean = float(own_2[0] / own_2[1])
    if min(len(group_2M.T) for group_2M in groups) < few.ENOUGH:
        low, high = few.of_contrasts(*groups)
    else:
        low, high = _contrasts_resampled(*groups, seed)
    return Interval(mean=mean, low=min(low, mean), high=max(high, mean), n=numbers_2N.shape[1])


def _contrasts_resampled(before_2N: Tensor, after_2M: Tensor, seed: int) -> tuple[float, float]:
    """Both ends of the middle 95 % of the resamples' quotients."""
    dice = torch.Generator().manual_seed(seed)
    before_R2, after_R2 = (_resampled(group_2M, dice) for group_2M in (before_2N, after_2M))
    contrast_R2 = after_R2 - before_R2
    if not bool(contrast_R2[:, 1].all()):
        raise ValueError(NO_EFFECT)
    low, high = (contrast_R2[:, 0] / contrast_R2[:, 1]).quantile(
        torch.tensor(TAILS, dtype=torch.float64), interpolation="nearest"
    ).tolist()  # fmt: skip
    return low, high


def _resampled(values_SM: Tensor, dice: torch.Generator) -> Tensor:
    """float64 [R, S]: means of texts drawn with repetition, the same draws for every S."""
    texts = values_SM.shape[1]
    rows = max(1, AT_ONCE // texts)
    found = []
    for first in range(0, RESAMPLES, rows):
        places_RM = torch.randint(texts, (min(rows, RESAMPLES - first), texts), generator=dice)
        found.append(values_SM[:, places_RM].mean(-1).T)
    return torch.cat(found)


def ratios(
    over_SN: Tensor, under_SN: Tensor, *, seed: int = 0, then: Callable[[Tensor], Tensor] = _itself,
    within: Span | Sequence[Span] = ANYTHING,
) -> tuple[Interval, ...]:  # fmt: skip
    """The same for S settings that were measured on the same texts, whose resamples are the same too.

    `within`: what the quotient (of each setting) can be, such as a share from 0 to 1; an interval of few texts ends
    there.
    """
    over_SN, under_SN = over_SN.double().cpu(), under_SN.double().cpu().broadcast_to(over_SN.shape)
    if over_SN.ndim != 2 or not over_SN.shape[1]:
        raise ValueError(f"no texts, or not one number a text: {tuple(over_SN.shape)}")
    if not bool(over_SN.isfinite().all() and under_SN.isfinite().all()):
        raise ValueError("a number is not finite, so there is no mean")
    texts = over_SN.shape[1]
    if texts < few.ENOUGH:
        least_S, most_S = torch.tensor(within, dtype=torch.float64).reshape(-1, 2).T
        low_S, high_S = (ends_S.clamp(least_S, most_S) for ends_S in few.of_ratios(over_SN, under_SN))
    else:
        low_S, high_S = _percentiles(over_SN, under_SN, seed)
    mean_S = over_SN.sum(1) / under_SN.sum(1)
    # a resample of equal numbers may miss their mean by its last bit
    told = (mean_S, torch.minimum(low_S, mean_S), torch.maximum(high_S, mean_S))
    rows_S3 = torch.stack([then(each) for each in told], 1).tolist()
    return tuple(Interval(mean=mean, low=low, high=high, n=texts) for mean, low, high in rows_S3)


def _percentiles(over_SN: Tensor, under_SN: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Both ends [S] of the middle 95 % of the resamples' quotients."""
    texts = over_SN.shape[1]
    dice = torch.Generator().manual_seed(seed)
    rows = max(1, AT_ONCE // texts)
    found = []
    for first in range(0, RESAMPLES, rows):
        places_RN = torch.randint(texts, (min(rows, RESAMPLES - first), texts), generator=dice)
        counts_RN = torch.zeros(places_RN.shape, dtype=torch.float64)
        counts_RN.scatter_add_(1, places_RN, torch.ones((), dtype=torch.float64).expand(places_RN.shape))
        found.append((counts_RN @ over_SN.T) / (counts_RN @ under_SN.T))
    low_S, high_S = torch.cat(found).quantile(torch.tensor(TAILS, dtype=torch.float64), 0, interpolation="nearest")
    return low_S, high_S
