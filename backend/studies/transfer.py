"""The transfer of a steer to another model, and how much of its effect survives, measured in both on the same texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.chance import random_steer
from backend.measure.intervals import ratio_of_contrasts
from backend.measure.transfer import Maps, maps, moved
from backend.models.explain import check_predicts
from backend.models.loaded import Loaded
from backend.models.shared_words import embeddings_of, spelled
from backend.models.steers import stands
from backend.models.variants import Beside
from backend.models.vectors import SteerMatrix
from backend.schema import Conditions, Evidence, Interval, Steer, SteerCard, TransferAsk, Transferred
from backend.studies.aside import aside
from backend.studies.asking import OnModel
from backend.studies.judging import Slider, as_evidence, effects_of, range_of, read_each
from backend.studies.library import Library
from backend.studies.sliders import Judges, judges_of

KIND = "steers.transfer"
TEXTS, TOKENS = 200, 256
"""Labelled texts of each pole, and tokens of a text, at most."""
FEW = 0.1
"""Shared words, as a share of the smaller vocabulary, from which two vocabularies are about the same language."""
MOVED, RANDOM = "0" * 64, "1" * 64
"""Names of the moved steer and of the random one until they are stored."""
NO_JUDGES = "This server holds no labelled texts that the steer has not seen, so what survives was not measured."
NO_EFFECT = "In its own model the steer has no effect on these texts, so there is no share of it that survives."
NOT_SHOWN = (
    "In its own model the steer is not shown to work on these texts, so the share of its effect that survives says "
    "little."
)
SHORT_IN_ONE = (
    "Left out of both, for in one of the models they have one token and nothing of them is predicted: {} texts."
)
UNITS = "The two models cut texts into other tokens, so their nats a token are not of the same size."


@dataclass(frozen=True)
class Side:
    """What one of the two models says of itself."""

    conditions: Conditions
    vocabulary: str
    tokens: int
    width: int
    words: dict[bytes, int]


def look(ask: TransferAsk, library: Library) -> None:
    """Raise what can be known without either model."""
    card = library.steers.get(ask.steer)
    if card.kind != "steer":
        raise errors.CannotShow(
            "A direction cannot be moved to another model",
            "it lives in the residual stream, whose words nobody shares; a steer lives where words are read",
            "Make a direction of the other model from the same examples.",
        )
    if not card.model:
        raise errors.CannotShow(
            "This steer cannot be moved", "it is not said for which model it was made, and that model's output "
            "embedding is needed", "Make it on this server, or take one whose card names its model.",
        )  # fmt: skip
    judges_of(library, ask.steer, ask.examples, TEXTS)


def check(loaded: Loaded, ask: TransferAsk, library: Library, cancel: Cancel) -> None:
    """Raise what can be known before any pass."""
    check_predicts(loaded)
    offered = loaded.card.edits.get("unembed")
    if offered is not None and not offered.can:
        raise errors.CannotShow("This model cannot be steered", offered.why, "Choose another model.")


async def study(model: OnModel, ask: TransferAsk, library: Library, report: Report) -> dict[str, Any]:
    """Fit, move, judge in both, store. Raises as `check`, and what a batch raises."""
    card = await aside(library.steers.get, ask.steer)
    source = library.open(card.model, None, KIND)

    def waiting() -> None:
        report("waiting for a model", 0, None, "")

    report("reading both vocabularies", 0, None, "")
    here, there = [await each.patiently(_side, _no_bytes, waiting) for each in (source, model)]
    _check_source(card, here)
    words = await aside(lambda: sorted(here.words.keys() & there.words.keys()))
    check_shared(len(words), here, there)
    e_ND, other_NF = [
        await each.patiently(partial(_embeddings, ids=[side.words[word] for word in words]), _no_bytes, waiting)
        for each, side in ((source, here), (model, there))
    ]  # fmt: skip
    report("fitting the maps between both", 0, None, "")
    between = await aside(maps, e_ND, other_NF, ask.ridge)
    numbers = await aside(_moved, library, ask, between)
    judges = await aside(judges_of, library, ask.steer, ask.examples, TEXTS)
    slider = await aside(_slider, library, MOVED, SteerMatrix(numbers["left"], numbers["right"]))
    own = await aside(lambda: _slider(library, ask.steer, library.vectors.steer(ask.steer)))
    before, after, survives, short = await _survives((source, own), (model, slider), judges, report, waiting)
    told = partial(_told, report, "measuring the range on neutral text")
    neutral = await aside(library.sets.get, None)
    span = await range_of(model, slider, neutral, TOKENS, told, waiting)
    made = card.model_copy(
        update={
            "name": ask.name, "model": there.conditions.model, "digest": there.conditions.digest,
            "vocabulary": there.vocabulary, "width": there.width, "rank": numbers["right"].shape[0],
            "evidence": after, "range": span, "recipe": _recipe(card, ask, len(words), between), "ours": False,
            "made": time.time(),
        }
    )  # fmt: skip
    kept = await aside(library.steers.keep, made, numbers)
    notices = [UNITS] if here.vocabulary != there.vocabulary and judges.plus else []
    if before is not None and survives is None:
        notices.append(NO_EFFECT)
    if survives is not None and before is not None and not _works(before):
        notices.append(NOT_SHOWN)
    if short:
        notices.append(SHORT_IN_ONE.format(short))
    if not judges.plus:
        notices.append(NO_JUDGES)
    return Transferred(
        conditions=there.conditions, card=kept, shared=len(words), vocabulary=there.tokens, fit=between.fit,
        before=before, after=after, survives=survives, notices=(*notices, *stands(made, kept)),
    ).model_dump(mode="json")  # fmt: skip


def check_shared(shared: int, here: Side, there: Side) -> None:
    """Raise `CannotShow` with the share where two vocabularies have too few words in common for a map."""
    smaller = min(len(here.words), len(there.words))
    least = max(here.width, there.width, int(FEW * smaller))
    if shared < least:
        raise errors.CannotShow(
            "These two models share too few words",
            f"{shared:,} of {smaller:,} tokens ({shared / max(smaller, 1):.1%} of the smaller vocabulary) stand for "
            f"the same text in both, and a map between widths of {here.width} and {there.width} needs {least:,}",
            "Choose a model with a similar vocabulary, or make a steer for this one from examples.",
            needed=least, available=shared,
        )  # fmt: skip


def _check_source(card: SteerCard, here: Side) -> None:
    if card.digest and card.digest != here.conditions.digest:
        raise errors.CannotShow(
            "The model of this steer is another one now",
            f"it was made for weights {card.digest[:12]}, and {card.model} has {here.conditions.digest[:12]} here",
            "Open the weights that it was made for, or make it again.",
        )


def _side(loaded: Loaded, cancel: Cancel) -> Side:
    assert loaded.anatomy.unembedding is not None, "a steer's model predicts"
    width = loaded.anatomy.unembedding.get_parameter("weight").shape[1]
    return Side(loaded.conditions, loaded.anatomy.vocabulary, loaded.anatomy.shape.vocabulary, width, spelled(loaded))


def _embeddings(loaded: Loaded, cancel: Cancel, *, ids: Sequence[int]) -> Tensor:
    return embeddings_of(loaded, ids)


def _no_bytes(loaded: Loaded) -> int:
    """On the model's device; what is read comes to the CPU in blocks."""
    return 0


def _moved(library: Library, ask: TransferAsk, between: Maps) -> dict[str, Tensor]:
    matrix = library.vectors.steer(ask.steer)
    left, right = moved(matrix.left_DK, matrix.right_KD, between)
    return {"left": left, "right": right}


def _slider(library: Library, id: str, matrix: SteerMatrix) -> Slider:
    random = SteerMatrix(*random_steer(matrix.left_DK, matrix.right_KD, seed=0))
    own = {id: SteerMatrix(matrix.left_DK, matrix.right_KD), RANDOM: random}
    return Slider(
        lambda by: Steer(steer=id, by=by), lambda by: Steer(steer=RANDOM, by=by), Beside(library.vectors, steers=own)
    )


async def _survives(
    before: tuple[OnModel, Slider], after: tuple[OnModel, Slider], judges: Judges, report: Report, waiting: Any
) -> tuple[Evidence | None, Evidence | None, Interval | None, int]:
    """Evidence in both models, and effect over effect, resampled text by text; how many texts were left out."""
    texts = [*judges.plus, *judges.minus]
    told = partial(_told, report, "reading the judging texts")
    read = [await read_each(each, texts, TOKENS, told, waiting) for each, _ in (before, after)]
    both = [place for place, one in enumerate(zip(*read, strict=True)) if None not in one]
    plus, short = sum(place < len(judges.plus) for place in both), len(texts) - len(both)
    if not 0 < plus < len(both):
        return None, None, None, short
    found = []
    for which, (model, slider), readings in zip(
        ("its own model", "the other model"), (before, after), read, strict=True
    ):
        told = partial(_told, report, f"measuring the effect in {which}")
        long = [reading for place in both if (reading := readings[place]) is not None]
        found.append(await effects_of(model, slider, long[:plus], long[plus:], told, waiting))
    pair = [await aside(as_evidence, effect_N, chance_N, plus, judges.about) for effect_N, chance_N in found]
    return pair[0], pair[1], await aside(survival, found[0][0], found[1][0], plus), short


def survival(before_N: Tensor, after_N: Tensor, plus: int) -> Interval | None:
    """Effect after over effect before; the effect is the mean over texts of − less that over texts of +.

    The first `plus` texts are of the + pole; both models read the same texts. The sampled unit is a text, with both of
    its numbers, within its pole; where a pole has fewer than 30 the interval is Student's t, widened for skew.
    None where there was no effect, as a mean or in a resample: nothing survives of nothing.
    """
    try:
        return ratio_of_contrasts(after_N, before_N, plus)
    except ValueError:
        return None


def _works(evidence: Evidence) -> bool:
    """Whether both poles move the right way, with their intervals."""
    return evidence.plus.high < 0 < evidence.minus.low


def _told(report: Report, what: str, done: int, of: int) -> None:
    report(what, done, of, "texts")


def _recipe(card: SteerCard, ask: TransferAsk, shared: int, between: Maps) -> str:
    ridge = f", ridge {ask.ridge:g}" if ask.ridge else ""
    return (
        f"Moved from {card.model} ({card.name}, {card.id[:12]}) by least squares over {shared:,} shared tokens{ridge}: "
        f"W' = G W H, fit {between.fit:.3f}. There: {card.recipe}"
    )
