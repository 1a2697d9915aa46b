"""Measured effects: parts removed one at a time, as rows of batches, and what the prediction does."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.models.asking import ask_model
from backend.models.contributions import direct_bytes
from backend.models.explain import check_predicts
from backend.models.means import Means
from backend.models.removal import (
    ABOUT,
    UNITS_OF_PARTS,
    Part,
    check_parts,
    direct_of,
    noise_floor,
    parts_of,
    variants_of,
)
from backend.models.variants import ROWS, Base, at_once, base_of, batch_bytes, differences, edited_side
from backend.models.words import words_of
from backend.schema import Conditions, Effect, EffectsAnswer, EffectsAsk, Limits
from backend.studies.asking import OnModel
from backend.studies.library import Library
from backend.studies.means import means_of

PUBLISH_S = 0.5
"""What was found so far is shown at most this often."""


@dataclass
class Found:
    """The study as it stands."""

    ask: EffectsAsk
    conditions: Conditions
    base: Base
    parts: tuple[Part, ...]
    direct: list[float | None]
    words: dict[str, str]
    noise: float
    set: str | None = None
    effects: list[float] = field(default_factory=list)

    def answer(self) -> EffectsAnswer:
        """For the wire; effects that were not measured yet are absent."""
        told = tuple(self._effect(place) for place in range(len(self.parts)))
        known = [each.disagrees for each in told if each.disagrees is not None and self._both_are_sure(each)]
        return EffectsAnswer(
            conditions=self.conditions, ids=self.base.asked.read.ids, explained=self.base.pair.explained,
            removal=self.ask.removal, set=self.set, parts=told, noise=self.noise,
            agreement=sum(not each for each in known) / len(known) if known else None, about=self._about(),
            words=self.words,
        )  # fmt: skip

    def _effect(self, place: int) -> Effect:
        part, direct = self.parts[place], self.direct[place]
        effect = self.effects[place] if place < len(self.effects) else None
        told = Effect(layer=part.layer, index=part.index, direct=direct, effect=effect)
        if direct is None or effect is None:
            return told
        return told.model_copy(update={"disagrees": self._both_are_sure(told) and (direct > 0) != (effect > 0)})

    def _both_are_sure(self, told: Effect) -> bool:
        return all(value is not None and abs(value) > self.noise for value in (told.direct, told.effect))

    def _about(self) -> str:
        to = "set to 0" if self.ask.removal == "zero" else "set to its mean over the prompt set"
        about = (
            f"Removed: {ABOUT[self.ask.parts]}, {to} at every token, one part at a time, everything after it computed "
            "anew. Effect: the pair's logit difference with the part minus without it, so that a part that helps the "
            "target has a positive effect, as a direct contribution has. Unit: logits."
        )
        if self.ask.removal == "mean":
            about += " A direct contribution counts the whole part, the effect only what differs from its mean."
        return about


def check(loaded: Any, ask: EffectsAsk, library: Library, cancel: Cancel) -> None:
    """Raise what can be known before any forward pass."""
    _check(loaded, ask, library.limits)


def _check(loaded: Any, ask: EffectsAsk, limits: Limits) -> None:
    check_predicts(loaded)
    asked = ask_model(loaded, edited_side(ask.view), limits)
    check_parts(loaded, ask, parts_of(loaded, ask), asked.tokens)


async def study(model: OnModel, ask: EffectsAsk, library: Library, report: Report) -> dict[str, Any]:
    """Measure every part. Raises as `check`, and what a batch raises."""
    limits = library.limits
    unit = UNITS_OF_PARTS[ask.parts]

    def waiting() -> None:
        report("waiting for the model", 0, None, "")

    report("running the text", 0, None, "")
    found = await model.patiently(
        partial(begin, ask=ask, limits=limits), partial(_cost_of_beginning, ask, limits), waiting
    )
    means = await _means(model, found, library, report)
    what, size, shown = f"removing {unit} one at a time", ROWS, 0.0
    while (done := len(found.effects)) < len(found.parts):
        report(what, done, len(found.parts), unit)
        batch = partial(measure, found=found, means=means, most=size)
        try:
            size = await model.patiently(batch, partial(_cost, ask, limits, size), waiting)
        except errors.OutOfMemory:
            if size == 1:
                raise
            size //= 2
        if time.monotonic() - shown >= PUBLISH_S:
            shown = time.monotonic()
            report.publish(found.answer().model_dump(mode="json"))
    report(what, len(found.parts), len(found.parts), unit)
    return found.answer().model_dump(mode="json")


def begin(loaded: Any, cancel: Cancel, *, ask: EffectsAsk, limits: Limits) -> Found:
    _check(loaded, ask, limits)
    parts = parts_of(loaded, ask)
    base = base_of(loaded, ask.view, ask.explain, limits, cancel)
    return Found(
        ask, loaded.conditions, base, parts, direct_of(loaded, ask, base, parts, cancel),
        words_of(loaded.tokenizer, base.pair.ids), noise_floor(loaded, base),
    )  # fmt: skip


async def _means(model: OnModel, found: Found, library: Library, report: Report) -> Means | None:
    if found.ask.removal == "zero":
        return None
    chosen = library.sets.get(found.ask.set)
    found.set = chosen.card.id
    what = f"averaging over {chosen.card.name}"
    return await means_of(
        model, found.conditions, chosen, library.tables, library.limits,
        told=lambda texts: report(what, texts, chosen.card.texts, "texts"),
        waiting=lambda: report("waiting for the model", 0, None, ""),
    )  # fmt: skip


def measure(loaded: Any, cancel: Cancel, *, found: Found, means: Means | None, most: int) -> int:
    """Measure the next parts; how many a batch may have."""
    size = min(most, at_once(loaded, found.base.asked.tokens))
    first = len(found.effects)
    parts = found.parts[first : first + size]
    variants, own = variants_of(loaded, found.ask, parts, means)
    whole, *without = differences(loaded, found.base, variants, own, cancel).tolist()
    found.noise = max(found.noise, abs(whole - found.base.pair.explained.logits))
    found.effects += [whole - each for each in without]
    return size


def _cost_of_beginning(ask: EffectsAsk, limits: Limits, loaded: Any) -> int:
    return direct_bytes(loaded, edited_side(ask.view), limits)


def _cost(ask: EffectsAsk, limits: Limits, most: int, loaded: Any) -> int:
    tokens = len(ask_model(loaded, edited_side(ask.view), limits).read.ids)
    return batch_bytes(loaded, ask.view, limits, min(most, at_once(loaded, tokens)))
