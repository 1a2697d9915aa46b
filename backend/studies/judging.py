"""What a slider does, measured: evidence on texts that its making never saw, and the range in which text stays text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.measure.intervals import interval
from backend.models.likelihood import Likelihoods, Reading, batches, likelihood_bytes, likelihoods, read_text
from backend.models.variants import TOKENS_ON_CARD, TOKENS_ON_CPU
from backend.models.vectors import Stored
from backend.schema import Edit, Evidence, PromptSet, Range
from backend.studies.aside import aside
from backend.studies.asking import OnModel

Told = Callable[[int, int], None]
"""Texts done, of how many. Raises to stop."""
SHORT = "Left out, for they have one token and nothing of them is predicted: {} texts."
READ_AT_ONCE = 100
"""Texts that are tokenised in one question."""
TRIED = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Strengths at which the perplexity of neutral text is measured until it doubles."""
AT_ONCE = 3
"""Strengths of each sign that are measured together."""
ROUNDS = 3
"""How often the strengths between which it doubles are parted in four: the end is known to 1/64 of its octave."""


@dataclass(frozen=True)
class Slider:
    """A steer or direction, and a random one of equal norm (and rank), as edits at a strength."""

    edit: Callable[[float], Edit]
    random: Callable[[float], Edit]
    stored: Stored
    """Where both come from."""


async def read_texts(
    model: OnModel, texts: Sequence[str], tokens: int | None, told: Told, waiting: Callable[[], None]
) -> list[Reading]:
    """Texts as ids, some at a time. Raises as `read_text`."""
    found: list[Reading] = []
    while len(found) < len(texts):
        told(len(found), len(texts))
        some = texts[len(found) : len(found) + READ_AT_ONCE]

        def read(loaded: Any, cancel: Cancel, some: Sequence[str] = some) -> list[Reading]:
            return [read_text(loaded, text, tokens) for text in some]

        found += await model.patiently(read, lambda loaded: 0, waiting)
    return found


async def read_long(
    model: OnModel, texts: Sequence[str], tokens: int, told: Told, waiting: Callable[[], None]
) -> tuple[list[Reading], int]:
    """Texts as ids, and how many were left out because nothing of them is predicted."""
    found = await read_each(model, texts, tokens, told, waiting)
    long = [reading for reading in found if reading is not None]
    return long, len(found) - len(long)


async def read_each(
    model: OnModel, texts: Sequence[str], tokens: int, told: Told, waiting: Callable[[], None]
) -> list[Reading | None]:
    """Texts as ids, some at a time, as `readable` gives them."""
    found: list[Reading | None] = []
    while len(found) < len(texts):
        told(len(found), len(texts))
        some = texts[len(found) : len(found) + READ_AT_ONCE]
        found += await model.patiently(partial(readable, texts=some, tokens=tokens), lambda loaded: 0, waiting)
    return found


def readable(loaded: Any, cancel: Cancel, *, texts: Sequence[str], tokens: int) -> list[Reading | None]:
    """Texts as ids; None for one of a single token, of which nothing is predicted. Raises `CannotShow`."""
    return [_reading(loaded, text, tokens) for text in texts]


def _reading(loaded: Any, text: str, tokens: int) -> Reading | None:
    try:
        return read_text(loaded, text, tokens)
    except errors.BadQuestion as error:
        if isinstance(error, errors.CannotShow):
            raise
        return None


async def likelihoods_of(
    model: OnModel, texts: Sequence[Reading], settings: Sequence[tuple[Edit, ...]], stored: Stored, told: Told,
    waiting: Callable[[], None],
) -> Likelihoods:  # fmt: skip
    """NLL of every text under every setting, batch by batch; fewer texts a batch where there are many settings."""
    parts: list[Likelihoods] = []
    done = 0
    while done < len(texts):
        told(done, len(texts))
        rest = texts[done : done + READ_AT_ONCE]

        def measure(loaded: Any, cancel: Cancel, rest: Sequence[Reading] = rest) -> Likelihoods:
            return likelihoods(loaded, rest[: _batch(loaded, rest, len(settings))], settings, stored, cancel=cancel)

        def cost(loaded: Any, rest: Sequence[Reading] = rest) -> int:
            return likelihood_bytes(loaded, rest[: _batch(loaded, rest, len(settings))])

        parts.append(await model.patiently(measure, cost, waiting))
        done += parts[-1].nll_SN.shape[1]
    return await aside(Likelihoods.joined, parts)


def _batch(loaded: Any, rest: Sequence[Reading], settings: int) -> int:
    """How many texts a question has, so that reading out every setting takes no longer than a batch under two."""
    most = len(batches(loaded, rest)[0])
    tokens = (TOKENS_ON_CPU if loaded.conditions.device == "cpu" else TOKENS_ON_CARD) * 2 // settings
    while most > 1 and sum(len(text.ids) for text in rest[:most]) > tokens:
        most -= 1
    return most


async def evidence_of(
    model: OnModel, slider: Slider, plus: Sequence[Reading], minus: Sequence[Reading], about: str, told: Told,
    waiting: Callable[[], None],
) -> Evidence:  # fmt: skip
    """NLL(+1) − NLL(−1) of every text, in nats a token, as means with intervals over texts; a random slider beside."""
    effect_N, chance_N = await effects_of(model, slider, plus, minus, told, waiting)
    return await aside(as_evidence, effect_N, chance_N, len(plus), about)


async def effects_of(
    model: OnModel, slider: Slider, plus: Sequence[Reading], minus: Sequence[Reading], told: Told,
    waiting: Callable[[], None],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """NLL(+1) − NLL(−1) of every text, those of + first, float64 [N] in nats a token; and under the random slider."""
    settings = [(edit(by),) for edit in (slider.edit, slider.random) for by in (1.0, -1.0)]
    found = await likelihoods_of(model, [*plus, *minus], settings, slider.stored, told, waiting)
    return found.nll_SN[0] - found.nll_SN[1], found.nll_SN[2] - found.nll_SN[3]


def as_evidence(effect_N: Tensor, chance_N: Tensor, plus: int, about: str) -> Evidence:
    """Means with intervals over texts, the first `plus` of which are of the + pole."""
    return Evidence(
        plus=interval(effect_N[:plus]), minus=interval(effect_N[plus:]), random_plus=interval(chance_N[:plus]),
        random_minus=interval(chance_N[plus:]), about=about,
    )  # fmt: skip


async def range_of(
    model: OnModel, slider: Slider, neutral: PromptSet, tokens: int | None, told: Told, waiting: Callable[[], None]
) -> Range:
    """The strengths at which the perplexity of neutral text, over all its tokens, is twice that without the slider."""
    texts = await read_texts(model, neutral.texts, tokens, lambda done, of: told(0, of), waiting)

    async def worse(strengths: Sequence[float], left: int) -> list[float]:
        """nats a token above no slider."""
        settings: list[tuple[Edit, ...]] = [(), *((slider.edit(by),) for by in strengths)]
        rounds = len(base)

        def of_all(done: int, of: int) -> None:
            told(rounds * of + done, (rounds + left) * of)

        found = await likelihoods_of(model, texts, settings, slider.stored, of_all, waiting)
        base.append(float(mean_nll(found)[0]))
        return (mean_nll(found)[1:] - base[-1]).tolist()

    base: list[float] = []
    ends = await doubling(worse)
    return Range(
        low=-ends[1].at, high=ends[0].at, doubled=(ends[1].doubled, ends[0].doubled), perplexity=exp(base[0]),
        set=neutral.card.id,
    )  # fmt: skip


def mean_nll(found: Likelihoods) -> Tensor:
    """float64 [S]: nats a token over all tokens of all texts."""
    weights_N = found.tokens_N.double()
    return (found.nll_SN * weights_N).sum(-1) / weights_N.sum()


@dataclass
class End:
    """Between which strengths of one sign the perplexity doubles."""

    sign: float
    low: float = 0.0
    high: float | None = None

    @property
    def doubled(self) -> bool:
        """Whether it does so within what was tried."""
        return self.high is not None

    @property
    def at(self) -> float:
        """Where it has not yet doubled, as near to where it has as was measured."""
        return self.low

    def next(self, tried: Sequence[float]) -> list[float]:
        """Strengths to try."""
        if self.high is None:
            return [by for by in tried if by > self.low][:AT_ONCE]
        step = (self.high - self.low) / (AT_ONCE + 1)
        return [self.low + step * place for place in range(1, AT_ONCE + 1)]

    def take(self, strengths: Sequence[float], doubled: Sequence[bool]) -> None:
        """What they gave: the first that doubles is the new end."""
        for by, twice in zip(strengths, doubled, strict=True):
            if twice:
                self.high = by
                return
            self.low = by


async def doubling(worse: Callable[[Sequence[float], int], Any], tried: Sequence[float] = TRIED) -> tuple[End, End]:
    """For + and for −, the largest strength below which the perplexity does not double.

    `worse` gives, for strengths, by how many nats a token neutral text is less likely than without; it is also told how
    many such questions are left, this one counted, if every end is found by it.
    """
    ends = (End(1.0), End(-1.0))
    rounds = [0, 0]
    while True:
        asked = [end.next(tried) if rounds[place] < ROUNDS else [] for place, end in enumerate(ends)]
        if not any(asked):
            return ends
        left = max(
            ROUNDS - made + (not end.doubled) for end, made, some in zip(ends, rounds, asked, strict=True) if some
        )
        strengths = [end.sign * by for end, some in zip(ends, asked, strict=True) for by in some]
        found = await worse(strengths, left)
        for place, (end, strengths) in enumerate(zip(ends, asked, strict=True)):
            rounds[place] += end.doubled
            some, found = found[: len(strengths)], found[len(strengths) :]
            end.take(strengths, [more >= log(2) for more in some])
