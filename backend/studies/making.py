"""The making of a steer: states once, then step by step, then what it does to texts that it never saw.

Every block of tokens is a question of its own, so that whoever moves a slider meanwhile waits for a block and not for
the training. After a kill it begins again: seeds are fixed, and the states are found where they were kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.chance import random_steer
from backend.measure.factors import EPSILON, SPREAD, training_bytes
from backend.measure.intervals import method
from backend.models.examples import Split, split
from backend.models.explain import check_predicts
from backend.models.likelihood import Reading, batches, likelihood_bytes, states_of
from backend.models.states import StatesTable, StatesTables, states_key
from backend.models.steers import stands
from backend.models.training import Places, Training, block_bytes, block_size, padded
from backend.models.variants import Beside
from backend.models.vectors import SteerMatrix
from backend.schema import (
    Conditions,
    Evidence,
    Example,
    ExamplesCard,
    Made,
    MakeAsk,
    MakePoint,
    Range,
    Steer,
    SteerCard,
    SteerData,
)
from backend.studies.aside import aside
from backend.studies.asking import OnModel
from backend.studies.judging import READ_AT_ONCE, SHORT, Slider, evidence_of, range_of, readable
from backend.studies.library import Library

FACTORS_MOST = 1024**3
"""Bytes of the numbers in training, with gradients and moments."""
MADE, RANDOM = "0" * 64, "1" * 64
"""Names of the steer and of the random one until they are stored."""
FEW = 30
"""Texts of a pole from which evidence is told without a caution."""
ABOUT = (
    "{plus} texts of the + pole and {minus} of the − pole, held out by their SHA-256: no step was trained on them, and "
    "they did not decide when to stop. NLL at +1 minus NLL at −1, paired. Intervals: {intervals}; "
    "beside it a random steer of equal norm and rank."
)


@dataclass(frozen=True)
class About:
    """What must be known of the model before the first text."""

    conditions: Conditions
    vocabulary: str
    width: int
    dtype: Any
    device: Any
    padding: int | None


@dataclass
class Texts:
    """Examples as the model reads them: those that train, then those that stop, and those that judge."""

    readings: list[Reading] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    train: int = 0
    judges: tuple[list[Reading], list[Reading]] = field(default_factory=lambda: ([], []))
    """Of the + pole, and of the − pole."""
    cut: int = 0
    short: int = 0
    """Texts of one token, which are left out: nothing of them is predicted."""


def look(ask: MakeAsk, library: Library) -> None:
    """Raise what can be known without the model."""
    library.examples.card(ask.examples)


def check(loaded: Any, ask: MakeAsk, library: Library, cancel: Cancel) -> None:
    """Raise what can be known before any forward pass."""
    check_predicts(loaded)
    offered = loaded.card.edits.get("unembed")
    if offered is not None and not offered.can:
        raise errors.CannotShow(
            "This model cannot be steered", offered.why, "Add a direction to its residual stream instead."
        )
    width = _width(loaded)
    if ask.rank is not None and ask.rank > width:
        raise errors.BadQuestion(
            f"A rank of {ask.rank} is more than this model is wide",
            f"what its output embedding takes has {width} numbers, and a matrix of that width has no higher rank",
            "Choose a lower rank, or none for a full matrix.", needed=ask.rank, available=width,
        )  # fmt: skip
    needed = training_bytes(width, ask.rank)
    if needed > FACTORS_MOST:
        raise errors.TooLarge(
            "A full matrix is too large to train here",
            f"with its gradient and Adam's moments it takes {needed / 1e6:,.0f} MB, and {FACTORS_MOST / 1e6:,.0f} MB "
            "are allowed",
            "Choose a rank.", needed=needed, available=FACTORS_MOST,
        )  # fmt: skip
    if ask.padding == "as published" and loaded.tokenizer.eos_token_id is None:
        raise errors.CannotShow(
            "This model cannot be trained as published", "LM-Steer pads with the end of text, and it has no such token",
            "Choose padding='masked'.",
        )  # fmt: skip


def _width(loaded: Any) -> int:
    return int(loaded.anatomy.unembedding.get_parameter("weight").shape[1])


async def study(model: OnModel, ask: MakeAsk, library: Library, report: Report) -> dict[str, Any]:
    """Make, judge and store. Raises as `check`, `UnknownSet`, and what a block raises."""
    return (await Making(model, ask, library, report).run()).model_dump(mode="json")


class Making:
    """One steer on its way."""

    def __init__(self, model: OnModel, ask: MakeAsk, library: Library, report: Report) -> None:
        self._model, self._ask, self._library, self._report = model, ask, library, report
        self._curve: list[MakePoint] = []
        self._texts = Texts()
        self._size: int | None = None
        self._unmeasured = ""
        self._standing: tuple[str, ...] = ()

    async def run(self) -> Made:
        """From the examples to the shelf."""
        kept = await aside(self._library.examples.get, self._ask.examples)
        parts = await aside(split, kept.rows, self._ask.held_out)
        about = await self._on_model(self._about, lambda loaded: 0)
        await self._read(parts, len(kept.rows))
        table = await self._states(about)
        texts = self._texts
        training = await aside(Training, self._ask, table, texts.labels, texts.train, about.width, about.device)
        best, numbers = await self._train(training)
        evidence, span = await self._judge(numbers)
        made = self._card(kept.card, parts, about, numbers, best, evidence, span)
        card = await aside(self._library.steers.keep, made, numbers)
        self._standing = stands(made, card)
        return self._made(card, best, training.tokens)

    def _made(self, card: SteerCard | None = None, best: int | None = None, tokens: int = 0) -> Made:
        return Made(
            card=card,
            curve=tuple(self._curve),
            best=best,
            tokens=tokens,
            cut=self._texts.cut,
            notices=self._notices(best),
        )

    async def _read(self, parts: Split, total: int) -> None:
        """Tokenise every text, those of one token left out."""
        for name, rows in (("train", parts.train), ("stop", parts.stop), ("judge", parts.judge)):
            for first in range(0, len(rows), READ_AT_ONCE):
                self._report("reading the texts", len(self._texts.labels), total, "texts")
                some = rows[first : first + READ_AT_ONCE]
                texts = [row.text for row in some]
                found = await self._on_model(partial(readable, texts=texts, tokens=self._ask.tokens), lambda loaded: 0)
                for row, reading in zip(some, found, strict=True):
                    self._take(name, row, reading)

    def _take(self, name: str, row: Example, reading: Reading | None) -> None:
        texts = self._texts
        if reading is None:
            texts.short += 1
            return
        texts.cut += reading.cut
        if name == "judge":
            texts.judges[row.label < 0].append(reading)
            return
        texts.train += name == "train"
        texts.readings.append(reading)
        texts.labels.append(row.label)

    async def _states(self, about: About) -> StatesTable:
        """The states of every text that trains or stops: those that are kept, or computed now, the shortest first."""
        real = self._texts.readings
        if not 0 < self._texts.train < len(real) or not all(self._texts.judges):
            raise errors.BadQuestion(
                "There is nothing to learn from", "the texts of one part have one token each, which predict nothing",
                "Send longer texts.",
            )  # fmt: skip
        readings = real if about.padding is None else await aside(padded, real, about.padding)
        tables = StatesTables(self._library.tables.root)
        key = await aside(states_key, about.conditions, readings)
        if (table := await aside(tables.find, key)) is not None:
            return table
        draft = await aside(tables.draft, key, readings, about.width, about.dtype)
        try:
            order = sorted(range(len(readings)), key=lambda text: len(readings[text].ids))
            done = 0
            while done < len(order):
                self._report("computing the states, once", done, len(order), "texts")
                rest = [readings[text] for text in order[done : done + READ_AT_ONCE]]
                size, states = await self._on_model(partial(_batch_states, rest=rest), partial(_states_bytes, rest))
                texts = order[done : done + size]
                await aside(draft.add, texts, [len(real[text].ids) - 1 for text in texts], states)
                done += size
            return await aside(draft.finish)
        except BaseException:
            await aside(draft.drop)
            raise

    async def _train(self, training: Training) -> tuple[int, dict[str, Tensor]]:
        """Step by step until held-out text has not become likelier for a while; the best step and its numbers."""
        ask, losses = self._ask, list[float]()
        start = await self._held_out(training)
        self._point(0, None, start)
        best, lowest, numbers = 0, float("inf"), await aside(training.factors.numbers)
        waited = 0
        for step in range(1, ask.steps + 1):
            self._report("training", step - 1, ask.steps, "steps at most")
            losses.append(await self._step(training))
            if step % ask.every and step != ask.steps:
                continue
            held_out = await self._held_out(training)
            self._point(step, sum(losses) / len(losses), held_out)
            losses.clear()
            waited += 1
            if held_out < lowest:
                best, lowest, numbers, waited = step, held_out, await aside(training.factors.numbers), 0
            if waited >= ask.patience:
                break
        return best, numbers

    def _point(self, step: int, train: float | None, held_out: float) -> None:
        self._curve.append(MakePoint(step=step, train=train, held_out=held_out))
        self._report.publish(self._made().model_dump(mode="json"))

    async def _step(self, training: Training) -> float:
        places = await aside(training.batch)
        await self._blocks(places, training.pull)
        return await aside(training.descend, places)

    async def _held_out(self, training: Training) -> float:
        places = await aside(training.held_out)
        nll: float = sum(await self._blocks(places, training.judge))
        return nll / len(places.places_P)

    async def _blocks(self, places: Places, work: Callable[..., Any]) -> list[Any]:
        """Every block of some places, each a question of its own, smaller where memory runs out."""
        found = []
        while places.left:
            size = self._size

            def block(loaded: Any, cancel: Cancel, size: int | None = size) -> Any:
                return work(loaded, cancel, places=places, size=size or block_size(loaded))

            def cost(loaded: Any, size: int | None = size) -> int:
                return block_bytes(loaded, size or block_size(loaded))

            try:
                found.append(await self._on_model(block, cost))
            except errors.OutOfMemory:
                self._size = await self._on_model(lambda loaded, _: block_size(loaded), lambda loaded: 0)
                self._size = (size or self._size) // 2
                if not self._size:
                    raise
        return found

    async def _judge(self, numbers: dict[str, Tensor]) -> tuple[Evidence, Range | None]:
        left_DK, right_KD = numbers["left"], numbers["right"]
        random = await aside(random_steer, left_DK, right_KD, seed=self._ask.seed)
        own = {MADE: SteerMatrix(left_DK, right_KD), RANDOM: SteerMatrix(*random)}
        slider = Slider(
            lambda by: Steer(steer=MADE, by=by), lambda by: Steer(steer=RANDOM, by=by),
            Beside(self._library.vectors, steers=own),
        )  # fmt: skip
        plus, minus = self._texts.judges
        told = partial(self._told, "measuring the evidence")
        about = ABOUT.format(plus=len(plus), minus=len(minus), intervals=method("texts"))
        evidence = await evidence_of(self._model, slider, plus, minus, about, told, self._waiting)
        told = partial(self._told, "measuring the range on neutral text")
        neutral = await aside(self._library.sets.get, None)
        try:
            return evidence, await range_of(self._model, slider, neutral, self._ask.tokens, told, self._waiting)
        except errors.CannotShow as error:  # a half-precision model may overflow before its perplexity doubles
            self._unmeasured = (
                f"The range could not be measured: {error.what[:1].lower()}{error.what[1:]}, {error.why}."
            )
            return evidence, None

    def _card(
        self, kept: ExamplesCard, parts: Split, about: About, numbers: dict[str, Tensor], best: int,
        evidence: Evidence, span: Range | None,
    ) -> SteerCard:  # fmt: skip
        ask = self._ask
        return SteerCard(
            kind="steer", name=ask.name, id=MADE, plus=ask.plus, minus=ask.minus, model=about.conditions.model,
            digest=about.conditions.digest, vocabulary=about.vocabulary, width=about.width,
            rank=numbers["right"].shape[0],
            data=SteerData(
                name=kept.name, licence=kept.licence, plus=kept.plus, minus=kept.minus,
                held_out=len(parts.stop) + len(parts.judge), digest=kept.id, share=ask.held_out,
            ),
            evidence=evidence, range=span, recipe=recipe_of(ask, best), owner=ask.owner, made=time.time(),
        )  # fmt: skip

    def _notices(self, best: int | None) -> tuple[str, ...]:
        texts, said = self._texts, list[str]()
        if texts.short:
            said.append(SHORT.format(texts.short))
        if texts.cut:
            said.append(f"Cut behind {self._ask.tokens} tokens: {texts.cut} texts.")
        if self._ask.padding == "as published":
            said.append("Padding counts in the training loss, as in LM-Steer's code; nowhere else.")
        if best is None:
            return tuple(said)
        if self._curve[0].held_out <= min(point.held_out for point in self._curve[1:]):
            said.append("Held-out text never became likelier than without the steer: it has learnt nothing general.")
        if self._unmeasured:
            said.append(self._unmeasured)
        if (few := min(map(len, texts.judges))) < FEW:
            said.append(f"Its evidence rests on {few} texts of a pole, so the intervals are rough.")
        return (*said, *self._standing)

    def _about(self, loaded: Any, cancel: Cancel) -> About:
        check(loaded, self._ask, self._library, cancel)
        weight = loaded.anatomy.unembedding.get_parameter("weight")
        padding = loaded.tokenizer.eos_token_id if self._ask.padding == "as published" else None
        width = _width(loaded)
        return About(loaded.conditions, loaded.anatomy.vocabulary, width, loaded.model.dtype, weight.device, padding)

    async def _on_model(self, answer: Callable[[Any, Cancel], Any], cost: Callable[[Any], int]) -> Any:
        return await self._model.patiently(answer, cost, self._waiting)

    def _waiting(self) -> None:
        self._report("waiting for the model", 0, None, "")

    def _told(self, what: str, done: int, of: int) -> None:
        self._report(what, done, of, "texts")


def recipe_of(ask: MakeAsk, best: int) -> str:
    """How it was made, in a sentence that a person can repeat."""
    how = "a full matrix from 0" if ask.rank is None else f"rank {ask.rank}, factors from N(0, 1) · {SPREAD:g}"
    padding = "padding counted as published" if ask.padding == "as published" else "padding masked"
    return (
        f"LM-Steer (Han et al. 2024): {how}, ε {EPSILON:g}, Adam with rate {ask.rate:g}, batch {ask.batch}, decay "
        f"{ask.decay:g}, {padding}, texts of {ask.tokens} tokens at most, seed {ask.seed}; the numbers of step {best}, "
        f"when held-out text was likeliest (at most {ask.steps} steps, looked at every {ask.every}, patience "
        f"{ask.patience}). 1 on the slider is label 1 in training."
    )


def _batch_states(loaded: Any, cancel: Cancel, *, rest: Sequence[Reading]) -> tuple[int, Any]:
    some = rest[: len(batches(loaded, rest)[0])]
    return len(some), states_of(loaded, some, cancel=cancel)


def _states_bytes(rest: Sequence[Reading], loaded: Any) -> int:
    return likelihood_bytes(loaded, rest[: len(batches(loaded, rest)[0])])
