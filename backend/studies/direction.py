"""The making of a direction: what the residual stream holds after a block, of texts of both poles, and their contrast.

Axes: N texts, D width.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.chance import random_direction
from backend.measure.contrast import difference_of_means, explained, principal_difference
from backend.measure.intervals import method
from backend.models.checks import check_edits
from backend.models.examples import Kept, split
from backend.models.explain import check_predicts
from backend.models.likelihood import Reading, batches, likelihood_bytes, stream_of
from backend.models.loaded import Loaded
from backend.models.steers import stands
from backend.models.vectors import NO_VECTORS, Beside
from backend.schema import Conditions, DirectionAsk, Evidence, Made, Range, ResidualAdd, SteerCard, SteerData
from backend.studies.aside import aside
from backend.studies.asking import OnModel
from backend.studies.judging import READ_AT_ONCE, SHORT, Slider, evidence_of, range_of, read_each, read_long
from backend.studies.library import Library

MADE, RANDOM = "0" * 64, "1" * 64
"""Names of the direction and of the random one until they are stored."""
STATES_MOST = 1024**3
"""Bytes of the states that are contrasted."""
ABOUT = (
    "{plus} texts of the + pole and {minus} of the − pole, held out by their SHA-256: the direction was not made from "
    "them. NLL at +1 minus NLL at −1, paired. Intervals: {intervals}; the direction acts on every "
    "token; beside it a random direction of equal length."
)


@dataclass(frozen=True)
class About:
    """What must be known of the model before the first text."""

    conditions: Conditions
    vocabulary: str
    width: int


def look(ask: DirectionAsk, library: Library) -> None:
    """Raise what can be known without the model."""
    kept = library.examples.get(ask.examples)
    if ask.method == "pca":
        kept.check_pairs()
        split(kept.rows, ask.held_out, paired=True)


def check(loaded: Loaded, ask: DirectionAsk, library: Library, cancel: Cancel) -> None:
    """Raise what can be known before any forward pass."""
    check_predicts(loaded)
    width = loaded.anatomy.shape.width
    edit = ResidualAdd(layer=ask.layer, vector=MADE, by=1)
    check_edits(loaded.anatomy, [edit], 1, Beside(NO_VECTORS, {MADE: torch.zeros(width)}), loaded.card.edits)
    rows = library.examples.card(ask.examples).rows
    if (needed := rows * width * 4) > STATES_MOST:
        raise errors.TooLarge(
            "There are too many examples for a direction",
            f"a state of each of {rows:,} texts takes {needed / 1e6:,.0f} MB together, and {STATES_MOST / 1e6:,.0f} MB "
            "are allowed", "Send fewer: a few hundred of each pole are enough.", needed=needed, available=STATES_MOST,
        )  # fmt: skip


async def study(model: OnModel, ask: DirectionAsk, library: Library, report: Report) -> dict[str, Any]:
    """Make, judge and store. Raises as `look`, `check`, and what a batch raises."""
    kept = await aside(library.examples.get, ask.examples)
    paired = ask.method == "pca"
    parts = await aside(split, kept.rows, ask.held_out, paired=paired)

    def waiting() -> None:
        report("waiting for the model", 0, None, "")

    def told(what: str, done: int, of: int) -> None:
        report(what, done, of, "texts")

    about = await model.patiently(partial(_about, ask=ask, library=library), lambda loaded: 0, waiting)
    # nothing here stops early, so the texts that would decide when are texts to learn from; their order makes the pairs
    judging = {row.text for row in parts.judge}
    rows = [row for row in kept.rows if row.text not in judging]
    poles = [[row.text for row in rows if row.label * sign > 0] for sign in (1, -1)]
    every = [
        await read_each(model, texts, ask.tokens, partial(told, f"reading the {sign} pole"), waiting)
        for sign, texts in zip("+−", poles, strict=True)
    ]  # fmt: skip
    read = [_long(*every, paired=paired), _long(*reversed(every), paired=paired)]
    judges = [
        await read_long(model, [row.text for row in parts.judge if row.label * sign > 0], ask.tokens,
                        partial(told, "reading the held-out texts"), waiting)
        for sign in (1, -1)
    ]  # fmt: skip
    if not all(texts for texts, _ in (*read, *judges)):
        raise errors.BadQuestion(
            "There is nothing to learn from", "the texts of one part have one token each, which predict nothing",
            "Send longer texts.",
        )  # fmt: skip
    plus_ND, minus_ND = [
        await _states(model, ask, texts, partial(told, f"reading the {sign} pole"), waiting)
        for sign, (texts, _) in zip("+−", read, strict=True)
    ]  # fmt: skip
    vector_D, share = await aside(contrast, ask, plus_ND, minus_ND)
    own = {MADE: vector_D, RANDOM: random_direction(vector_D, seed=ask.seed)}
    slider = Slider(
        lambda by: ResidualAdd(layer=ask.layer, vector=MADE, by=by),
        lambda by: ResidualAdd(layer=ask.layer, vector=RANDOM, by=by), Beside(library.vectors, own),
    )  # fmt: skip
    (plus, _), (minus, _) = judges
    said = ABOUT.format(plus=len(plus), minus=len(minus), intervals=method("texts"))
    evidence = await evidence_of(model, slider, plus, minus, said, partial(told, "measuring the evidence"), waiting)
    neutral = await aside(library.sets.get, None)
    span = await range_of(model, slider, neutral, ask.tokens, partial(told, "measuring the range"), waiting)
    numbers = {"vector": vector_D}
    made = _card(ask, kept, about, evidence, span, len(parts.judge), share)
    card = await aside(library.steers.keep, made, numbers)
    short = sum(count for _, count in (*read, *judges))
    said_of = (SHORT.format(short),) if short else ()
    notices = (*said_of, *stands(made, card))
    return Made(card=card, notices=notices).model_dump(mode="json")


def _long(own: Sequence[Reading | None], other: Sequence[Reading | None], *, paired: bool) -> tuple[list[Reading], int]:
    """The texts of a pole that can be read, and how many cannot; `paired` ones only with their partners."""
    partners = other if paired else own
    long = [one for one, partner in zip(own, partners, strict=True) if one is not None and partner is not None]
    return long, len(own) - len(long)


def contrast(ask: DirectionAsk, plus_ND: Tensor, minus_ND: Tensor) -> tuple[Tensor, float | None]:
    """The direction, and the share of the pairs' differences along it, where there are pairs.

    Raises `BadQuestion` where the poles are not apart.
    """
    make = difference_of_means if ask.method == "means" else principal_difference
    try:
        vector_D = make(plus_ND, minus_ND)
    except ValueError as error:
        raise _same(str(error)) from error
    if not bool(vector_D.any()):
        raise _same("the means of both poles are the same")
    return vector_D, explained(plus_ND, minus_ND, vector_D) if ask.method == "pca" else None


def _same(why: str) -> errors.BadQuestion:
    return errors.BadQuestion(
        "The two poles have no direction between them", why, "Send texts that differ, or choose a later layer."
    )


async def _states(model: OnModel, ask: DirectionAsk, readings: Sequence[Reading], told: Any, waiting: Any) -> Tensor:
    """float32 [N, D] on the CPU: the state of every text of a pole after the block."""
    found: list[Tensor] = []
    done = 0
    while done < len(readings):
        told(done, len(readings))
        rest = readings[done : done + READ_AT_ONCE]

        def read(loaded: Loaded, cancel: Cancel, rest: Sequence[Reading] = rest) -> Tensor:
            some = rest[: len(batches(loaded, rest)[0])]
            return stream_of(loaded, some, ask.layer, mean=ask.token == "mean", cancel=cancel)

        def cost(loaded: Loaded, rest: Sequence[Reading] = rest) -> int:
            return likelihood_bytes(loaded, rest[: len(batches(loaded, rest)[0])])

        found.append(await model.patiently(read, cost, waiting))
        done += len(found[-1])
    return torch.cat(found)


def _about(loaded: Loaded, cancel: Cancel, *, ask: DirectionAsk, library: Library) -> About:
    check(loaded, ask, library, cancel)
    return About(loaded.conditions, loaded.anatomy.vocabulary, loaded.anatomy.shape.width)


def _card(
    ask: DirectionAsk, kept: Kept, about: About, evidence: Evidence, span: Range, judged: int, share: float | None
) -> SteerCard:
    return SteerCard(
        kind="direction", name=ask.name, id=MADE, plus=ask.plus, minus=ask.minus, model=about.conditions.model,
        digest=about.conditions.digest, vocabulary=about.vocabulary, width=about.width, layer=ask.layer,
        data=SteerData(
            name=kept.card.name, licence=kept.card.licence, plus=kept.card.plus, minus=kept.card.minus,
            held_out=judged, digest=kept.card.id, share=ask.held_out, paired=ask.method == "pca",
        ),
        evidence=evidence, range=span, recipe=recipe_of(ask, share), owner=ask.owner, made=time.time(),
    )  # fmt: skip


def recipe_of(ask: DirectionAsk, share: float | None) -> str:
    """How it was made, in a sentence that a person can repeat."""
    state = "the last token" if ask.token == "last" else "the mean over all tokens but the first"
    how = "mean of + minus mean of −"
    if ask.method == "pca":
        how = (
            "first principal direction of the differences of pairs (the first text of + less the first of −, and so "
            f"on), {share:.1%} of their squared size, pointing as they do on average"
        )
    return (
        f"Residual stream after block {ask.layer}, {state} of each text (of {ask.tokens} tokens at most): {how}. "
        "1 on the slider is the distance of the two means along it."
    )
