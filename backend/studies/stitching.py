"""Lower blocks of one model, upper blocks of another, and between them a kernel by way of the tokens that both have.

Source: Dar et al. 2023, §5.2. Axes: T tokens, D and E widths, N texts.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.intervals import POSITIVE, SIGNED, interval, method, share
from backend.measure.stitching import directions, kernel, random_kernel
from backend.measure.tokens import BLOCK_BYTES
from backend.models import circuits
from backend.models.loaded import Loaded
from backend.models.progress import Progress, silent
from backend.models.stitched import (
    Encoded,
    Measure,
    agreement,
    encoded,
    finals,
    measured,
    streams,
)
from backend.models.variants import ROWS, TOKENS_ON_CARD, TOKENS_ON_CPU
from backend.schema import Interval, ReadAs, StitchingAnswer, StitchingAsk, StitchPoint
from backend.studies.asking import OnModel
from backend.studies.library import Library
from backend.studies.poles import Ends, Source, ends_of, labelled_texts, poles_of
from backend.studies.two_models import Shared, Side, both_sides, moments_of, reading_of, shared_tokens, sides_at_once

KIND = "weights.stitching"
CUTS = 9
PUBLISH_S = 3.0
"""Intervals of all points are drawn anew each time."""
TEXTS_AT_ONCE = 50
KernelName = Literal["stitched", "identity", "random"]
ABOUT = (
    "Stitched: the first blocks of {model}, whose stream is then multiplied by E_model E_other⁺ (pseudo-inverse, over "
    "{tokens:,} tokens; embeddings {reading}), and the last blocks of {other}{end}. Controls: "
    "`identity`, the stream handed on as it is; `random`, a kernel of the same singular values and random singular "
    "vectors (seed {seed}). Texts: {texts:,} of {source}. {measure} Agreement: cosine of the mean final state with "
    "that of {other} alone. Intervals: {intervals}. Source: Dar et al. 2023, §5.2."
)
READINGS: dict[ReadAs, str] = {
    "folded": "through the gains of the final norms, their means taken away where they take them away",
    "raw": "as they are, as published",
}
ENDS: dict[Measure, str] = {"accuracy": "its classifier", "nll": "its read-out", "agreement": ""}
"""What stands behind the final states, where it is run."""
MEASURES: dict[Measure, str] = {
    "accuracy": "Value: share of texts whose likeliest label is right: {plus} for + texts, {minus} for − texts.",
    "nll": "Value: nats a token, the mean over the tokens of a text but its first.",
    "agreement": "The upper model neither names texts nor predicts the next token, so there is no value.",
}
BROKEN = "At {} of the {} points the numbers of some text overflowed; these texts are left out there."
UNLABELLED = "{} names texts, but no labelled texts were given: its accuracy is not measured."


@dataclass(frozen=True)
class Text:
    """A text as both models read it."""

    lower: Encoded
    upper: Encoded
    plus: bool | None


@dataclass
class Point:
    """One stitched model as it stands."""

    kernel: KernelName
    lower: int
    upper: int
    values: list[float] = field(default_factory=list)
    agreements: list[float] = field(default_factory=list)


@dataclass
class Found:
    """The study as it stands."""

    ask: StitchingAsk
    sides: tuple[Side, Side]
    shared: Shared
    reading: ReadAs
    ends: tuple[Ends, Ends]
    notices: list[str]
    points: list[Point]
    poles: tuple[int, int] | None
    """The labels of + and of − texts, where accuracy is measured."""
    texts: list[Text] = field(default_factory=list)
    source: Source = field(default_factory=partial(Source, ""))
    """Where they come from, once they were read."""
    left_out: int = 0
    directions: int = 0
    done: int = 0
    whole: list[float] = field(default_factory=list)
    lower_whole: list[float] = field(default_factory=list)

    @property
    def measure(self) -> Measure:
        """Of the upper model."""
        return self.ends[1].measure

    def answer(self) -> StitchingAnswer:
        """For the wire, of the texts that were measured so far."""
        one, other = self.sides
        labels = self.ends[1].labels
        positive, negative = self.poles or (None, None)
        plus, minus = (labels[place] for place in self.poles) if self.poles else ("", "")
        broken = sum(any(map(math.isnan, (*each.values, *each.agreements))) for each in self.points)
        return StitchingAnswer(
            conditions=one.conditions, other_conditions=other.conditions, shared=self.shared.told,
            reading=self.reading, measure=self.measure, points=tuple(self._point(each) for each in self.points),
            whole=self._value(self.whole), lower_whole=self._value(self.lower_whole), chance=self._chance(),
            texts=self.done, of=len(self.texts), left_out=self.left_out,
            cut=sum(text.upper.cut or text.lower.cut for text in self.texts),
            labels=labels, positive=positive, negative=negative,
            examples=self.source.examples, set=self.source.set, named=self.source.name, directions=self.directions,
            about=ABOUT.format(
                model=one.name, other=other.name, tokens=self.shared.told.tokens, reading=READINGS[self.reading],
                end=self._end(), intervals=method("texts"), seed=self.ask.seed, texts=len(self.texts),
                source=self.source,
                measure=MEASURES[self.measure].format(plus=plus, minus=minus),
            ),
            notices=(*self.notices, *([BROKEN.format(broken, len(self.points))] if broken else [])),
        )  # fmt: skip

    def _end(self) -> str:
        """What follows the last blocks of the upper model."""
        parts = ["its final norm" if self.ends[1].normed else "", ENDS[self.measure]]
        return "".join(f", {part}" for part in parts if part)

    def _point(self, point: Point) -> StitchPoint:
        return StitchPoint(
            kernel=point.kernel, lower=point.lower, upper=point.upper, value=self._value(point.values),
            agreement=_interval(partial(interval, within=SIGNED), point.agreements),
        )  # fmt: skip

    def _value(self, values: Sequence[float]) -> Interval | None:
        """Mean of what is measured: of accuracy the share of right texts."""
        return _interval(share if self.measure == "accuracy" else partial(interval, within=POSITIVE), values)

    def _chance(self) -> float | None:
        if self.measure == "nll":
            return math.log(self.ends[1].vocabulary)
        plus = [bool(text.plus) for text in self.texts]
        return max(sum(plus), len(plus) - sum(plus)) / len(plus) if self.measure == "accuracy" and plus else None


def _interval(of: Callable[[Tensor], Interval], values: Sequence[float]) -> Interval | None:
    known = [value for value in values if not math.isnan(value)]
    return of(torch.tensor(known, dtype=torch.float64)) if known else None


async def before(model: OnModel, ask: StitchingAsk, library: Library) -> None:
    """Raise what both models say of themselves and of the texts, before there is a job."""
    models = (model, library.open(ask.other, ask.other_revision, KIND))
    sides = await sides_at_once(*models)
    look = partial(ends_of, labelled=ask.examples is not None)
    ends = (await models[0].ask(look, _no_bytes), await models[1].ask(look, _no_bytes))

    async def check(ask: StitchingAsk) -> None:
        shared = begun(ask, *sides, ends).shared
        if shared.told.by_string:
            _, labelled = await asyncio.to_thread(labelled_texts, ask, library)
            await _texts(models, labelled, ask.tokens, shared, silent)

    try:
        await check(ask)
    except errors.CannotShow as refusal:
        if ask.by_string or "by_string" not in refusal.instead:
            raise
        try:  # mapping is advised: only where it would lead somewhere
            await check(ask.model_copy(update={"by_string": True}))
        except errors.CannotShow as useless:
            raise errors.CannotShow(
                refusal.what, f"{refusal.why}; and with them mapped by what they stand for: {useless.why}",
                "Choose two models with one vocabulary.",
            ) from refusal  # fmt: skip
        raise


def look(ask: StitchingAsk, library: Library) -> None:
    """Raise `UnknownSet`, and `BadQuestion` for both kinds of texts at once and for one label of both poles."""
    if ask.positive is not None and ask.positive == ask.negative:
        raise errors.BadQuestion(
            f"Label {ask.positive} cannot stand for both poles", "then every text would be right, or none",
            "Give two labels as `positive` and `negative`.",
        )  # fmt: skip
    if ask.examples is not None and ask.set is not None:
        raise errors.BadQuestion(
            "Labelled texts and texts without labels were named", "the stitched models are measured on one of them",
            "Give `examples` or `set`.",
        )  # fmt: skip
    if ask.examples is not None:
        library.examples.get(ask.examples)
    else:
        library.sets.get(ask.set)


def begun(ask: StitchingAsk, one: Side, other: Side, ends: tuple[Ends, Ends]) -> Found:
    """Raise `CannotShow` where vocabularies differ, and for blocks and labels that are none."""
    shared = shared_tokens(one, other, ask.by_string)
    reading, unread, notice = reading_of(ask, one, other, {"value"})
    if unread:
        raise errors.CannotShow(
            f"{one.name} cannot be stitched to {other.name} with the reading `folded`", unread["value"],
            "Ask with the reading `raw`.",
        )  # fmt: skip
    notices = [*filter(None, [notice, one.notice, other.notice])]
    labels, measure = ends[1].labels, ends[1].measure
    if labels and ask.examples is None:
        notices.append(UNLABELLED.format(other.name))
    poles = poles_of(ask, other.name, labels) if measure == "accuracy" else None
    names: tuple[KernelName, ...] = ("stitched", "identity", "random")
    kernels = [name for name in names if name != "identity" or one.width == other.width]
    cuts = [(cut, upper_of(ask, cut, one.layers, other.layers)) for cut in _cuts(ask, one)]
    points = [Point(name, cut, at) for name in kernels for cut, at in cuts]
    return Found(ask, (one, other), shared, reading, ends, notices, points, poles)


def _cuts(ask: StitchingAsk, one: Side) -> list[int]:
    if wrong := [cut for cut in ask.cuts if cut > one.layers]:
        raise errors.CannotShow(
            f"{one.name} has no {wrong[0]} blocks to run", f"it has {one.layers}", f"Choose {one.layers} at most.",
            needed=wrong[0], available=one.layers,
        )  # fmt: skip
    if ask.cuts:
        return sorted(set(ask.cuts))
    return sorted({round(one.layers * step / (CUTS - 1)) for step in range(CUTS)})


def upper_of(ask: StitchingAsk, cut: int, layers: int, others: int) -> int:
    """The first block of the upper model that follows `cut` blocks of the lower one. Raises `CannotShow`."""
    if ask.last is None:
        return math.floor(cut * others / layers)
    if ask.last > others:
        raise errors.CannotShow(
            f"The upper model has no {ask.last} blocks", f"it has {others}", f"Choose {others} at most.",
            needed=ask.last, available=others,
        )  # fmt: skip
    return others - ask.last


async def study(model: OnModel, ask: StitchingAsk, library: Library, report: Report) -> dict[str, Any]:
    """Make the kernel, then measure every stitched model on every text. Raises as `begun`, and what a batch raises."""

    def waiting() -> None:
        report("waiting for a model", 0, None, "")

    report("looking at both models", 0, None, "")
    other, *sides = await both_sides(model, ask, library, KIND, waiting)
    models = (model, other)
    looked = partial(ends_of, labelled=ask.examples is not None)
    ends = [await each.patiently(looked, _no_bytes, waiting) for each in models]
    found = begun(ask, sides[0], sides[1], (ends[0], ends[1]))
    found.source, labelled = await asyncio.to_thread(labelled_texts, ask, library)
    found.texts, found.left_out = await _texts(models, labelled, ask.tokens, found.shared, report, waiting)
    reader = partial(circuits.writer, reading=found.reading)
    moments = await moments_of(models, found.shared, "writes", report, waiting, (reader, reader))
    kernel_DE = kernel(moments)
    found.directions = directions(kernel_DE)
    kernels = {"stitched": kernel_DE, "random": random_kernel(kernel_DE, ask.seed)}
    shown = time.monotonic()
    for text in found.texts:
        report("running stitched models", found.done, len(found.texts), "texts")
        await _measure(models, found, text, kernels, waiting)
        found.done += 1
        if time.monotonic() - shown >= PUBLISH_S:
            report.publish(found.answer().model_dump(mode="json"))
            shown = time.monotonic()
    return found.answer().model_dump(mode="json")


async def _texts(
    models: tuple[OnModel, OnModel], labelled: Sequence[tuple[str, bool | None]], tokens: int, shared: Shared,
    report: Progress, waiting: Callable[[], None] | None = None,
) -> tuple[list[Text], int]:  # fmt: skip
    """Texts that both models cut into the same tokens; how many are left out. One model cuts all, then the other.

    Raises `CannotShow` without any, and without `waiting` as `Desk.ask`.
    """
    there = dict(zip(shared.ids_N.tolist(), shared.other_ids_N.tolist(), strict=True))
    both: list[list[Encoded]] = []
    for place, model in enumerate(models):
        both.append([])
        for first in range(0, len(labelled), TEXTS_AT_ONCE):
            report("cutting texts into tokens", place * len(labelled) + first, 2 * len(labelled), "texts")
            read = partial(encoded, texts=[text for text, _ in labelled[first:][:TEXTS_AT_ONCE]], tokens=tokens)
            asked = model.ask(read, _no_bytes) if waiting is None else model.patiently(read, _no_bytes, waiting)
            both[-1] += await asked
    found = [
        Text(lower, upper, plus) for lower, upper, (_, plus) in zip(*both, labelled, strict=True)
        if len(upper.ids) > 1 and tuple(there.get(id) for id in lower.ids) == upper.ids
    ]  # fmt: skip
    if not found:
        raise errors.CannotShow(
            "There is no text to measure stitched models on",
            f"the two models cut all {len(labelled)} texts into different tokens, or they are of one token",
            "Give other texts, or choose models with one vocabulary.",
        )  # fmt: skip
    return found, len(labelled) - len(found)


async def _measure(
    models: tuple[OnModel, OnModel], found: Found, text: Text, kernels: dict[str, Tensor], waiting: Callable[[], None]
) -> None:  # fmt: skip
    """One text at every point, some rows at a time."""
    lower, upper = models
    cuts = sorted({point.lower for point in found.points})
    stream = await lower.patiently(partial(streams, text=text.lower, cuts=cuts), _pass_bytes, waiting)
    right = None if found.poles is None else found.poles[0 if text.plus else 1]
    if found.ends[0].measure == found.measure != "agreement" and _comparable(found):
        alone = partial(_alone, text=text.lower, measure=found.measure, right=right)
        found.lower_whole += (await lower.patiently(alone, _pass_bytes, waiting))[0]
    whole, own_TD = await upper.patiently(
        partial(_alone, text=text.upper, measure=found.measure, right=right), _pass_bytes, waiting
    )
    found.whole += whole
    left = list(found.points)
    while left:
        step = partial(
            run_points, text=text.upper, points=left, stream=stream, kernels=kernels, measure=found.measure,
            right=right, own_TD=own_TD,
        )  # fmt: skip
        left = await upper.patiently(step, _pass_bytes, waiting)


def _comparable(found: Found) -> bool:
    """Whether the lower model alone is measured by the same number: with the same labels, or the same tokens."""
    if found.measure == "accuracy":
        return found.ends[0].labels == found.ends[1].labels
    return not found.shared.told.by_string


def _alone(
    loaded: Loaded, cancel: Cancel, *, text: Encoded, measure: Measure, right: int | None
) -> tuple[list[float], Tensor]:  # fmt: skip
    """The model alone: its number, if there is one, and its final states_TD."""
    final_BTD = finals(loaded, cancel, text, ())
    values = [] if measure == "agreement" else measured(loaded, cancel, text, final_BTD, measure, right)
    return values, final_BTD[0].float()


def run_points(
    loaded: Loaded, cancel: Cancel, *, text: Encoded, points: list[Point], stream: dict[int, Tensor],
    kernels: dict[str, Tensor], measure: Measure, right: int | None, own_TD: Tensor,
) -> list[Point]:  # fmt: skip
    """Run as many points as make one batch; those that are left."""
    allowed = TOKENS_ON_CPU if loaded.conditions.device == "cpu" else TOKENS_ON_CARD
    size = max(1, min(ROWS, allowed // len(text.ids)))
    some = points[:size]
    states = [(point.upper, _led(stream[point.lower], kernels.get(point.kernel))) for point in some]
    final_BTD = finals(loaded, cancel, text, states)
    values = [] if measure == "agreement" else measured(loaded, cancel, text, final_BTD, measure, right)
    for place, (point, cosine) in enumerate(zip(some, agreement(final_BTD, own_TD.to(final_BTD.device)), strict=True)):
        point.agreements.append(cosine)
        if values:
            point.values.append(values[place])
    return points[size:]


def _led(states_TD: Tensor, kernel_DE: Tensor | None) -> Tensor:
    """States across the kernel; None: as they are."""
    return states_TD if kernel_DE is None else (states_TD.to(kernel_DE) @ kernel_DE).float()


def _pass_bytes(loaded: Loaded) -> int:
    """A batch of one text's rows: states of all cuts, a block's inside, and a block of logits."""
    shape = loaded.anatomy.shape
    tokens = TOKENS_ON_CPU if loaded.conditions.device == "cpu" else TOKENS_ON_CARD
    inside = 12 * shape.width + 3 * (loaded.anatomy.units or 4 * shape.width)
    return 4 * tokens * (inside + shape.width * CUTS) + 3 * BLOCK_BYTES


def _no_bytes(loaded: Loaded) -> int:
    return 0
