"""Made-up makings, sweeps, transfers, insides and evidence: the steer page's panels are driven with them."""

import json
import math
from base64 import b64decode
from typing import Any

import numpy as np

from backend.schema import (
    Dimension,
    DirectionAsk,
    Ends,
    EvidenceAnswer,
    EvidenceAsk,
    ExamplesAsk,
    ExamplesCard,
    InsideAnswer,
    InsideAsk,
    Interval,
    Made,
    MakeAsk,
    MakePoint,
    Problem,
    Span,
    SteerCard,
    Sweep,
    SweepAsk,
    SweepPoint,
    TransferAsk,
    Transferred,
)
from lmscope.client import Refused
from tests.figures import made_up_steers
from tests.figures.answers import CONDITIONS, packed

WORDS = (
    "good", "lovely", "kind", "warm", "bright", "joy", "best", "bad", "awful", "cold", "dull", "grim", "worst", "film",
)  # fmt: skip
LEAST = 20
"""Texts of each pole."""


def examples(ask: ExamplesAsk) -> ExamplesCard:
    """Counts as the server does; too few, and what is no text, are refused."""
    rows = [(row.text, row.label) for row in ask.rows]
    rows += [(text, label) for label, texts in ((1.0, ask.plus), (-1.0, ask.minus)) for text in texts]
    if ask.file is not None:
        rows += _file(b64decode(ask.file), ask.format)
    different = dict(rows)
    plus, minus = (sum(label * sign > 0 for label in different.values()) for sign in (1, -1))
    if min(plus, minus) < LEAST:
        raise refused("There are too few examples", f"there are {plus} different texts above 0 and {minus} below", 422)
    return ExamplesCard(
        id="7" * 64, name=ask.name, licence=ask.licence, rows=plus + minus, plus=plus, minus=minus,
        neutral=len(different) - plus - minus, duplicates=len(rows) - len(different),
        longest=max(map(len, different)),
        notices=("Columns that were not read: 'stars'.",) if ask.format == "csv" else (),
    )  # fmt: skip


def _file(data: bytes, form: str | None) -> list[tuple[str, float]]:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise refused("The file is no text", f"its byte {error.start} is not UTF-8", 422) from None
    if form == "jsonl":
        told = [json.loads(line) for line in lines if line]
        return [(each["text"], float(each["label"])) for each in told]
    return [(line.rpartition(",")[0], float(line.rpartition(",")[2])) for line in lines[1:] if line]


def refused(what: str, why: str, status: int) -> Refused:
    """A refusal in words."""
    return Refused(Problem(type="invalid", status=status, what=what, why=why, instead="Correct it and send it again."))


def card_of(ask: MakeAsk | DirectionAsk) -> SteerCard:
    """What comes onto the shelf."""
    kind: dict[str, Any] = {"kind": "steer", "rank": ask.rank} if isinstance(ask, MakeAsk) else {
        "kind": "direction", "rank": None, "layer": ask.layer}  # fmt: skip
    return made_up_steers.card(
        ask.name, "9" * 64, plus=ask.plus, minus=ask.minus, model=ask.model, evidence=made_up_steers.MEASURED,
        range=made_up_steers.ENDS, **kind,
    )  # fmt: skip


def make(ask: MakeAsk | DirectionAsk, done: float) -> Made:
    """A loss that falls, and on held-out text rises again."""
    steps = range(0, round(120 * done) + 1, 10)
    curve = tuple(
        MakePoint(
            step=step, train=None if step == 0 else 3.4 + 0.6 * math.exp(-step / 30),
            held_out=3.6 + 0.4 * math.exp(-step / 25) + 2e-5 * max(0, step - 50) ** 2,
        )
        for step in steps
    )  # fmt: skip
    if done < 1:
        return Made(curve=curve)
    return Made(card=card_of(ask), curve=curve, best=60, tokens=40_000, cut=3, notices=("A notice of the making.",))


def interval(mean: float, half: float) -> Interval:
    """Around a mean."""
    return Interval(mean=mean, low=mean - half, high=mean + half, n=64)


def point(by: float, other: float | None, prompts: int, force: float = 1.0) -> SweepPoint:
    """Smooth curves of both strengths."""
    at = force * (by + (other or 0) / 2)
    return SweepPoint(
        by=by, other=other, plus=interval(-0.03 * at + 0.01 * at * at, 0.006 + 0.004 * abs(at)),
        minus=interval(0.028 * at + 0.012 * at * at, 0.006 + 0.004 * abs(at)),
        perplexity=interval(20 * math.exp(0.12 * at * at), 1.5), kl=interval(0.05 * at * at, 0.01 * at * at),
        distinct=(0.62 - 0.02 * at * at, 0.93 - 0.02 * at * at, 0.97 - 0.01 * at * at),
        samples=tuple(f" what is written after prompt {each} at {by:+g}" for each in range(prompts)),
    )  # fmt: skip


def sweep(ask: SweepAsk, done: float) -> Sweep:
    """The points that were measured by now."""
    pairs = [(by, other) for other in ask.other_strengths or (None,) for by in ask.strengths]
    measured = pairs[: math.ceil(done * len(pairs))]
    prompts = ask.prompts or tuple(f"A neutral prompt {place}" for place in range(8))
    return Sweep(
        conditions=CONDITIONS.model_copy(update={"model": ask.view.model}),
        points=tuple(point(*pair, len(prompts)) for pair in measured),
        control=tuple(point(*pair, 0, 0.1) for pair in measured) if ask.control else (), prompts=prompts,
        base=point(0, None, len(prompts)), about="64 labelled texts of each pole, 40 neutral texts.",
    )  # fmt: skip


def transfer(ask: TransferAsk, done: float) -> Transferred:
    """Half of it survives."""
    ends = made_up_steers.card(ask.name, "8" * 64, model=ask.model, evidence=made_up_steers.MEASURED)
    return Transferred(
        conditions=CONDITIONS.model_copy(update={"model": ask.model}),
        card=ends, shared=30_000, vocabulary=49_152, fit=0.642, before=made_up_steers.MEASURED,
        after=made_up_steers.MEASURED, survives=interval(0.52, 0.11), notices=("19,152 tokens have no partner.",),
    )  # fmt: skip


def inside(ask: InsideAsk) -> InsideAnswer:
    """Directions over a small vocabulary of real words."""
    rng = np.random.default_rng(5)
    logits_DV = rng.normal(size=(4, len(WORDS))).astype("f4")
    logits_DV[0] = np.linspace(2, -2, len(WORDS))

    def ends(row_V: np.ndarray) -> Ends:
        order = np.argsort(-row_V, kind="stable")
        high, low = order[:5], order[::-1][:5]
        return Ends(
            highest=tuple(map(int, high)), lowest=tuple(map(int, low)),
            highest_logit=tuple(map(float, row_V[high])), lowest_logit=tuple(map(float, row_V[low])),
        )  # fmt: skip

    dimensions = tuple(
        Dimension(singular=0.4 / (place + 1), share=0.5 / (place + 1), writes=ends(row), reads=ends(-row[::-1]))
        for place, row in enumerate(logits_DV)
    )
    return InsideAnswer(
        conditions=CONDITIONS.model_copy(update={"model": ask.model}), steer=ask.steer, rank=32, norm=0.81,
        dimensions=dimensions, scatter_ids=tuple(range(len(WORDS))), scatter=packed(logits_DV[:2].T.copy()),
        words={str(id): f" {word}" for id, word in enumerate(WORDS)}, about="Read with the bare output embedding.",
    )  # fmt: skip


def evidence(ask: EvidenceAsk, ids: tuple[int, ...], p: float = 0.012) -> EvidenceAnswer:
    """Two best spans in a text of at least eight tokens; nothing predicts the first."""
    evidence_T = np.sin(np.arange(len(ids)) * 1.3).astype("f4")
    evidence_T[0] = np.nan
    spans = tuple(
        Span(first=first, last=last, evidence=float(evidence_T[first:last].sum()))
        for first, last in ((1, 3), (6, 8)) if last <= len(ids)
    )  # fmt: skip
    return EvidenceAnswer(
        conditions=CONDITIONS.model_copy(update={"model": ask.view.model}), ids=ids, evidence=packed(evidence_T),
        total=float(np.nansum(evidence_T)), spans=spans, best=sum(span.evidence for span in spans), p=p, chance=1.9,
        words={},
    )  # fmt: skip
