"""A sweep: what a slider, or two, do at every strength, beside random ones of equal norm.

All strengths are measured on the same texts and written under the same random numbers, so that they can be compared
text by text and prompt by prompt. Axes: S settings, N texts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.distinct import distinct
from backend.measure.intervals import LARGEST, POSITIVE, as_perplexity, method, ratios
from backend.models.checks import check_edits
from backend.models.continuations import Continuations, continuations_bytes, neutral_prompts
from backend.models.explain import check_predicts
from backend.models.likelihood import Likelihoods, Reading, Setting
from backend.models.loaded import Loaded
from backend.models.tokens import read_tokens
from backend.models.vectors import Beside
from backend.models.write import check_writes
from backend.schema import Conditions, Limits, Sampling, Sweep, SweepAsk, SweepPoint, View
from backend.schema.view import SEED_MOST
from backend.studies.aside import aside
from backend.studies.asking import OnModel
from backend.studies.judging import SHORT, Told, read_each
from backend.studies.library import Library
from backend.studies.likelihoods import likelihoods_of
from backend.studies.sliders import Judges, Slider, beside, control_of, judges_of, slider_of

PUBLISH_S = 1.0
POINTS_MOST = 225
"""Pairs of strengths of a grid."""
PROMPTS = 16
"""Neutral prompts that are continued when none are named."""
PROMPTS_LEAST = 8
TEXT_TOKENS = 256
"""Tokens that count of each text."""
Class = Literal["neutral", "plus", "minus"]
NO_JUDGES = (
    "This server holds no labelled texts that the steer has not seen, so the likelihood of its poles is not measured: "
    "name examples."
)


TOO_LARGE = (
    f"A perplexity of {LARGEST:.1e} stands for one that is larger than any number that can be written (over 709 nats a "
    "token): at that strength the model writes nonsense."
)


@dataclass(frozen=True)
class Grid:
    """What is measured: the base, every point, and the same points of the control."""

    base: Setting
    strengths: tuple[tuple[float, float | None], ...]
    points: tuple[Setting, ...]
    control: tuple[Setting, ...]
    beside: Beside

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Each once, the base first."""
        return tuple(dict.fromkeys((self.base, *self.points, *self.control)))


@dataclass
class Found:
    """The study as it stands."""

    ask: SweepAsk
    conditions: Callable[[], Conditions]
    grid: Grid
    prompts: tuple[str, ...]
    judges: Judges
    neutral: str
    classes: list[Class] = field(default_factory=list)
    """Of each text, in the order of measuring."""
    short: int = 0
    """Texts of the poles that have one token and were left out."""
    measured: Likelihoods | None = None
    written: dict[Setting, list[tuple[str, list[int]]]] = field(default_factory=dict)
    """By setting: text and token ids, one a prompt."""

    def answer(self) -> Sweep | None:
        """For the wire; None while there is nothing to show."""
        if self.measured is None or not any(self._is("neutral")):
            return None
        told = dict(zip(self.grid.settings, self._points(), strict=True))

        def all_of(settings: Sequence[Setting]) -> tuple[SweepPoint, ...]:
            named = zip(settings, self.grid.strengths, strict=True)
            return tuple(told[setting].model_copy(update={"by": by, "other": other}) for setting, (by, other) in named)

        return Sweep(
            conditions=self.conditions(),
            points=all_of(self.grid.points), control=all_of(self.grid.control) if self.grid.control else (),
            prompts=self.prompts, base=told[self.grid.base], about=self._about(),
            notices=self._notices(told.values()),
        )  # fmt: skip

    def _notices(self, points: Iterable[SweepPoint]) -> tuple[str, ...]:
        said = [] if self.judges.plus or self.judges.minus else [NO_JUDGES]
        if self.short:
            said.append(SHORT.format(self.short))
        if any(point.perplexity.high >= LARGEST for point in points):
            said.append(TOO_LARGE)
        return tuple(said)

    def _is(self, name: Class) -> list[bool]:
        assert self.measured is not None
        return [each == name for each in self.classes[: len(self.measured.tokens_N)]]

    def _points(self) -> list[SweepPoint]:
        """One for every setting."""
        assert self.measured is not None
        assert self.measured.kl_SN is not None, "the sweep has a base"
        seed, nll_SN, tokens_N = self.ask.seed, self.measured.nll_SN, self.measured.tokens_N.double()
        which_N = torch.tensor(self._is("neutral"))
        counts_N = tokens_N[which_N]
        perplexities = ratios(nll_SN[:, which_N] * counts_N, counts_N, seed=seed, then=as_perplexity)
        kls = ratios(self.measured.kl_SN[:, which_N] * counts_N, counts_N, seed=seed, within=POSITIVE)
        plus, minus = (self._moved(name, nll_SN) for name in ("plus", "minus"))
        points = []
        for place, setting in enumerate(self.grid.settings):
            texts = self.written.get(setting, [])
            points.append(
                SweepPoint(
                    by=0.0,
                    plus=plus[place],
                    minus=minus[place],
                    perplexity=perplexities[place],
                    kl=kls[place],
                    distinct=distinct([ids for _, ids in texts]) if texts else None,
                    samples=tuple(text for text, _ in texts),
                )
            )
        return points

    def _moved(self, name: Class, nll_SN: Tensor) -> Sequence[Any]:
        """NLL of a class minus that at the base, which is the first setting."""
        which_N = torch.tensor(self._is(name))
        if not bool(which_N.any()):
            return [None] * len(nll_SN)
        moved_SN = (nll_SN - nll_SN[:1])[:, which_N]
        return ratios(moved_SN, torch.ones_like(moved_SN), seed=self.ask.seed)

    def _about(self) -> str:
        how = self.ask.view.sampling
        judged = f" Likelihood of the poles: {self.judges.about}." if self.judges.about else ""
        return (
            f"Perplexity and KL over {self.neutral}.{judged} Each text counts its first {TEXT_TOKENS} tokens at most, "
            f"but not the very first, which nothing predicts. Continuations: {len(self.prompts)} prompts of "
            f"{self.ask.tokens} tokens (temperature {how.temperature:g}, top-p {how.top_p:g}, top-k {how.top_k}, "
            f"seeds from {how.seed}), the same random numbers at every strength. Intervals: {method('texts')}. "
            "Distinct: over all prompts of one strength. Control: random numbers of equal norm and rank, seed "
            f"{self.ask.seed}."
        )


def look(ask: SweepAsk, library: Library) -> None:
    """Raise what can be known without the model."""
    _check_ask(ask, library.limits)
    slider_of(library, ask.steer, ask.layer)
    judges_of(library, ask.steer, ask.examples, ask.texts)


def check(loaded: Loaded, ask: SweepAsk, library: Library, cancel: Cancel) -> None:
    """Raise what can be known before any forward pass."""
    check_predicts(loaded)
    check_writes(loaded)
    grid = grid_of(ask, library)
    prompts = prompts_of(ask)
    for setting in (grid.points[0], grid.points[-1]):
        check_edits(loaded.anatomy, setting, 1, grid.beside, loaded.card.edits)
    for prompt in prompts:
        cancel()
        read_tokens(loaded, View(model=loaded.name, text=prompt), library.limits)


def _check_ask(ask: SweepAsk, limits: Limits) -> None:
    if ask.other is None and (ask.other_strengths or ask.other_layer is not None):
        raise errors.BadQuestion(
            "The second steer is missing", "its strengths or its layer are there, and would be ignored",
            "Name it as `other`, or leave them out.",
        )  # fmt: skip
    if ask.other is not None and not ask.other_strengths:
        raise errors.BadQuestion(
            "The strengths of the second steer are missing", "a grid needs those of both",
            "Name them as `other_strengths`, or leave the second steer out.",
        )  # fmt: skip
    if ask.other == ask.steer:
        raise errors.BadQuestion(
            "The second steer is the first one", "two strengths of one steer add up to one", "Choose another, or none."
        )
    if (points := len(ask.strengths) * max(1, len(ask.other_strengths))) > POINTS_MOST:
        raise errors.TooLarge(
            "This grid is too large", f"it has {points} pairs of strengths, and a sweep has at most {POINTS_MOST}",
            "Name fewer strengths.", needed=points, available=POINTS_MOST,
        )  # fmt: skip
    if ask.prompts and len(ask.prompts) < PROMPTS_LEAST:
        raise errors.BadQuestion(
            "There are too few prompts", f"{len(ask.prompts)} are named, and fewer than {PROMPTS_LEAST} pairs of "
            "continuations show chance and not the steer", "Name more, or none: neutral ones come with LMScope.",
            needed=PROMPTS_LEAST, available=len(ask.prompts),
        )  # fmt: skip
    if (most := SEED_MOST + 1 - len(prompts_of(ask))) < ask.view.sampling.seed:
        raise errors.BadQuestion(
            "The seed of the view is too large", "every prompt takes the next one, and the last would be beyond 2^53 "
            f"({SEED_MOST})", f"Choose {most} at most.",
            needed=ask.view.sampling.seed, available=most,
        )  # fmt: skip
    if ask.tokens > limits.new_tokens:
        raise errors.BadQuestion(
            "So many tokens cannot be written", f"{ask.tokens} are asked for, and this server allows "
            f"{limits.new_tokens}", "Ask for fewer.", needed=ask.tokens, available=limits.new_tokens,
        )  # fmt: skip
    placed = next((edit for edit in ask.view.active_edits if isinstance(edit.at, tuple)), None)
    if placed is not None:
        raise errors.BadQuestion(
            "An edit of the view acts at listed positions", "a sweep reads many texts, in which these mean nothing",
            "Switch it off, or let it act on all tokens.",
        )  # fmt: skip


def prompts_of(ask: SweepAsk) -> tuple[str, ...]:
    """What is continued."""
    return ask.prompts or neutral_prompts()[:PROMPTS]


def grid_of(ask: SweepAsk, library: Library) -> Grid:
    """All settings. Raises as `slider_of`."""
    sliders = [slider_of(library, ask.steer, ask.layer)]
    if ask.other is not None:
        sliders.append(slider_of(library, ask.other, ask.other_layer))
    controls = [control_of(library.vectors, slider, ask.seed) for slider in sliders] if ask.control else []
    own = {slider.id for slider in sliders}
    base = tuple(
        edit for edit in ask.view.active_edits if getattr(edit, "steer", getattr(edit, "vector", None)) not in own
    )
    strengths = tuple(product(ask.strengths, ask.other_strengths or (None,)))

    def settings(chosen: Sequence[Slider]) -> tuple[Setting, ...]:
        every = ([(slider, by) for slider, by in zip(chosen, each, strict=False)] for each in strengths)
        return tuple(base + tuple(slider.at(by) for slider, by in each if by) for each in every)

    return Grid(
        base, strengths, settings(sliders), settings([control.slider for control in controls]) if controls else (),
        beside(library.vectors, controls),
    )  # fmt: skip


async def study(model: OnModel, ask: SweepAsk, library: Library, report: Report) -> dict[str, Any]:
    """Measure every strength: first the likelihoods, text by text, then the continuations, prompt by prompt.

    Raises as `check`, and what a batch raises.
    """
    grid, judges, neutral = await aside(
        lambda: (grid_of(ask, library), judges_of(library, ask.steer, ask.examples, ask.texts), library.sets.ours)
    )
    about = f"the {len(neutral.texts)} texts of the set {neutral.card.name}"
    found = Found(ask, lambda: model.conditions, grid, prompts_of(ask), judges, about)
    shown = 0.0

    def waiting() -> None:
        report("waiting for the model", 0, None, "")

    async def publish(*, now: bool = False) -> None:
        nonlocal shown
        if now or time.monotonic() - shown >= PUBLISH_S:
            answer = await aside(found.answer)
            if answer is not None:
                report.publish(answer.model_dump(mode="json"))
            shown = time.monotonic()

    def reading(done: int, of: int) -> None:
        report("reading the texts", done, of, "texts")

    texts = await _texts(model, found, neutral.texts, library.limits, reading, waiting)

    async def measured(parts: list[Likelihoods]) -> None:
        found.measured = Likelihoods.joined(parts) if parts else None
        done = 0 if found.measured is None else len(found.measured.tokens_N)
        report("measuring likelihoods", done, len(texts), "texts")
        await publish()

    found.measured = await likelihoods_of(
        model, texts, grid.settings, grid.beside, base=0, told=measured, waiting=waiting
    )
    await publish(now=True)
    await _write(model, found, library.limits, report, publish, waiting)
    answer = await aside(found.answer)
    assert answer is not None, "neutral texts were measured"
    return answer.model_dump(mode="json")


async def _texts(
    model: OnModel, found: Found, neutral: Sequence[str], limits: Limits, report: Told, waiting: Any
) -> list[Reading]:  # fmt: skip
    """All texts as the model reads them, the classes mixed evenly, so that every partial result speaks of each.

    Those of one token are left out, as the making of a steer leaves them out.
    """
    by_class: dict[Class, Sequence[str]] = {
        "neutral": neutral, "plus": found.judges.plus, "minus": found.judges.minus
    }  # fmt: skip
    places = sorted(
        ((place + 0.5) / len(texts), name, place) for name, texts in by_class.items() for place in range(len(texts))
    )
    chosen = [by_class[name][place] for _, name, place in places]
    read = await read_each(model, chosen, min(TEXT_TOKENS, limits.tokens), report, waiting)
    found.classes = [name for (_, name, _), reading in zip(places, read, strict=True) if reading is not None]
    found.short = len(read) - len(found.classes)
    return [reading for reading in read if reading is not None]


async def _write(model: OnModel, found: Found, limits: Limits, report: Report, publish: Any, waiting: Any) -> None:
    """Continue every prompt under all settings, as rows of one batch; half of the batch is left to others.

    Where settings are few, several prompts are written at once.
    """
    settings = found.grid.settings
    most = max(1, limits.rows // 2)
    parts = [settings[first : first + most] for first in range(0, len(settings), most)]
    at_once = max(1, most // len(settings))
    total = len(found.prompts) * len(settings)

    async def written(place: int, part: Sequence[Setting]) -> list[tuple[str, list[int]]]:
        # one seed a prompt, for continuations of one length would all draw the same numbers
        sampling = found.ask.view.sampling
        sampling = sampling.model_copy(update={"tokens": found.ask.tokens, "seed": sampling.seed + place})
        prompt = found.prompts[place]
        told = await model.write(
            partial(_begin, prompt=prompt, part=part, sampling=sampling, beside=found.grid.beside, limits=limits),
            partial(_cost, prompt=prompt, rows=len(part), tokens=found.ask.tokens, limits=limits),
            len(part), waiting,
        )  # fmt: skip
        return [(each.text, each.ids) for each in told.found]

    for first in range(0, len(found.prompts), at_once):
        places = range(first, min(first + at_once, len(found.prompts)))
        for part in parts:
            done = sum(map(len, found.written.values()))
            report("writing continuations", done, total, "continuations")
            writers = [asyncio.ensure_future(written(place, part)) for place in places]
            try:
                texts = await asyncio.gather(*writers)
            finally:
                for writer in writers:
                    writer.cancel()
            for each in texts:
                for setting, text in zip(part, each, strict=True):
                    found.written.setdefault(setting, []).append(text)
            await publish()
    report("writing continuations", total, total, "continuations")


def _begin(
    loaded: Loaded, *, prompt: str, part: Sequence[Setting], sampling: Sampling, beside: Beside, limits: Limits
) -> Continuations:
    return Continuations(loaded, prompt, part, sampling, beside, limits)


def _cost(loaded: Loaded, *, prompt: str, rows: int, tokens: int, limits: Limits) -> int:
    return continuations_bytes(loaded, prompt, rows, tokens, limits)
