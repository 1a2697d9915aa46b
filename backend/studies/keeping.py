"""Keep-k: how much of inner products the k largest words keep, for three kinds of vectors and two inverses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.keep import cosines, dual
from backend.models import keeping as models
from backend.models.loaded import Loaded
from backend.schema import (
    Conditions,
    Inverse,
    KeepAsk,
    KeepCurve,
    KeepPoint,
    KeepStudy,
    Limits,
    PromptSet,
    Vectors,
)
from backend.studies.aside import aside
from backend.studies.asking import OnModel
from backend.studies.library import Library
from backend.studies.weighing import Weighing

KIND = "keep"
MULTIPLIED = 6_000_000_000
"""Multiplications of one question."""
INVERSES: tuple[Inverse, ...] = ("transpose", "pseudo")
ABOUT = (
    "Cosine between the matrix of all products x·y of {count} vectors (seed {seed}), each with itself too, and that of "
    "keep-k(x E)·keep-k(y E'), where keep-k leaves the k entries of largest absolute value with their signs: 1 where "
    "the k words of each vector say all of it (Dar et al. 2023, Appendix A). E is the output embedding, no norm; E' is "
    "its transpose, or its pseudo-inverse E⁺. Apart: the same over pairs of two different vectors alone, for a "
    "vector's product with itself is large and easily kept. Normal: every number from N(0, 1). Values: of units of "
    "any layer. States: of the stream after any block, through the final norm, at any token but a text's first. "
    "Intervals: 95 %, bootstrap over vectors, whatever their number: of few they are too narrow."
)


@dataclass(frozen=True)
class Plan:
    """What can be measured."""

    vectors: tuple[Vectors, ...]
    ks: tuple[int, ...]
    why: dict[str, str]
    notices: tuple[str, ...]
    at_once: int
    """Vectors of one question."""


@dataclass
class Found:
    """The study as it stands."""

    ask: KeepAsk
    conditions: Conditions
    plan: Plan
    set: str | None
    points: dict[tuple[Vectors, Inverse], list[KeepPoint]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    def answer(self) -> KeepStudy:
        """For the wire."""
        return KeepStudy(
            conditions=self.conditions, count=self.ask.count,
            curves=tuple(
                KeepCurve(vectors=vectors, inverse=inverse, points=tuple(points))
                for (vectors, inverse), points in self.points.items()
            ),
            why=self.plan.why | self.why, set=self.set, notices=self.plan.notices,
            about=ABOUT.format(count=self.ask.count, seed=self.ask.seed),
        )  # fmt: skip


def check(loaded: Any, ask: KeepAsk, library: Library, cancel: Cancel) -> None:
    """Raise where nothing that is asked for can be measured."""
    plan_of(loaded, ask)


def plan_of(loaded: Loaded, ask: KeepAsk) -> Plan:
    """What can be measured. Raises the last refusal where nothing can."""
    ks, why, last = models.ks_of(loaded, ask), dict[str, str](), None
    tries: dict[Vectors, Any] = {
        "normal": lambda: None, "values": lambda: models.values(loaded, ask),
        "states": lambda: models.check_states(loaded),
    }  # fmt: skip
    for vectors in dict.fromkeys(ask.vectors):
        try:
            tries[vectors]()
        except errors.CannotShow as refusal:
            why[vectors], last = f"{refusal.what}: {refusal.why}.", refusal
    can = tuple(vectors for vectors in dict.fromkeys(ask.vectors) if vectors not in why)
    if not can and last is not None:
        raise last
    return Plan(can, ks, why, models.notices(loaded, ask), models.rows_at_once(loaded))


async def study(model: OnModel, ask: KeepAsk, library: Library, report: Report) -> dict[str, Any]:
    """Measure every curve. Raises as `check`, and what a question raises."""
    weighing = Weighing(model, report, library.kept)
    report("looking for the vectors", 0, None, "")
    chosen = await asyncio.to_thread(library.sets.get, ask.set) if "states" in ask.vectors else None
    plan = await weighing.begun(lambda loaded, cancel: plan_of(loaded, ask))
    found = Found(ask, model.conditions, plan, None if chosen is None else chosen.card.id)

    async def whole() -> Any:
        dual_DD = await _dual(weighing)
        total, done = len(plan.vectors) * len(INVERSES) * len(plan.ks), 0
        for vectors in plan.vectors:
            try:
                vectors_ND = await _vectors(weighing, vectors, ask, chosen)
            except errors.CannotShow as refusal:
                found.why[vectors], done = f"{refusal.what}: {refusal.why}.", done + len(INVERSES) * len(plan.ks)
                if len(plan.vectors) == 1:
                    raise
                continue
            exact_NN = await aside(torch.matmul, vectors_ND.double(), vectors_ND.double().T)
            dual_ND = await aside(torch.matmul, vectors_ND.double(), dual_DD)
            for inverse in INVERSES:
                for k in plan.ks:
                    report("keeping k words", done, total, "points")
                    other_ND = dual_ND.float() if inverse == "pseudo" else None
                    kept_NN = await _kept(weighing, vectors_ND, other_ND, plan.at_once, k)
                    cosine, apart = await aside(cosines, exact_NN, kept_NN, seed=ask.seed)
                    point = KeepPoint(k=k, cosine=cosine, apart=apart)
                    found.points.setdefault((vectors, inverse), []).append(point)
                    await weighing.publish(found.answer)
                    done += 1
        report("keeping k words", total, total, "points")
        return found.answer().model_dump(mode="json")

    told = await weighing.once(KIND, weighing.content(ask, found.set), whole)
    return {**told, "conditions": model.conditions.model_dump(mode="json")}


async def _vectors(weighing: Weighing, kind: Vectors, ask: KeepAsk, chosen: PromptSet | None) -> Tensor:
    if kind != "states":
        make = models.normal if kind == "normal" else models.values
        return await weighing.ask(lambda loaded, cancel: make(loaded, ask), lambda loaded: 0)
    assert chosen is not None, "asked for"
    readings, places = await weighing.ask(partial(_read, ask=ask, texts=chosen.texts), lambda loaded: 0)
    found = []
    for text, (read, taken) in enumerate(zip(readings, places, strict=True)):
        weighing.report("reading texts", text, len(readings), "texts")
        if taken:
            make = partial(_states, read=read, taken=taken)
            found.append(await weighing.ask(make, partial(models.states_bytes, tokens=len(read.ids))))
    return torch.cat(found)


def _read(loaded: Loaded, cancel: Cancel, *, ask: KeepAsk, texts: tuple[str, ...]) -> Any:
    readings = models.read_texts(loaded, texts, cancel)
    return readings, models.places(loaded, ask, readings)


def _states(loaded: Loaded, cancel: Cancel, **more: Any) -> Tensor:
    return models.states(loaded, cancel=cancel, **more)


async def _dual(weighing: Weighing) -> Tensor:
    """float64 [D, D] on the CPU: (E Eᵀ)⁺, E Eᵀ summed block by block."""
    first, more, gram_DD = 0, True, torch.zeros(())
    while more:
        make = partial(_gram, first=first)
        part_DD, more = await weighing.ask(make, models.dual_bytes)
        gram_DD, first = gram_DD + part_DD, first + models.TOKENS_AT_ONCE
    return await aside(dual, gram_DD)


async def _kept(weighing: Weighing, one_ND: Tensor, other_ND: Tensor | None, at_once: int, k: int) -> Tensor:
    """float32 [N, N]: products of what is left of vectors at one k and of `other_ND`; None: of themselves.

    Some vectors a question, and some rows of the products, so that others are answered in between.
    """
    sides: list[Tensor] = []
    for given_ND in (one_ND,) if other_ND is None else (one_ND, other_ND):
        made_NV: Tensor | None = None
        for first in range(0, len(given_ND), at_once):
            make = partial(_words, vectors_ND=given_ND, first=first, at_once=at_once, k=k, into_NV=made_NV)
            made_NV = await weighing.ask(make, partial(models.kept_bytes, count=0 if first else len(given_ND)))
        assert made_NV is not None, "there are vectors"
        sides.append(made_NV)
    one_NV, other_NV = sides[0], sides[-1]
    found, rows = [], max(1, MULTIPLIED // other_NV.numel())
    for first in range(0, len(one_NV), rows):
        make = partial(_multiplied, one_MV=one_NV[first : first + rows], other_NV=other_NV)
        found.append(await weighing.ask(make, partial(models.kept_bytes, count=0)))
    return torch.cat(found)


def _gram(loaded: Loaded, cancel: Cancel, *, first: int) -> tuple[Tensor, bool]:
    return models.gram_of(loaded, first)


def _words(
    loaded: Loaded, cancel: Cancel, *, vectors_ND: Tensor, first: int, at_once: int, k: int, into_NV: Tensor | None
) -> Tensor:  # fmt: skip
    """The words of all vectors, those of some put in."""
    some = slice(first, first + at_once)
    made_MV = models.kept(loaded, vectors_ND[some], k)
    if into_NV is None:
        into_NV = made_MV.new_empty(len(vectors_ND), made_MV.shape[1])
    into_NV[some] = made_MV
    return into_NV


def _multiplied(loaded: Loaded, cancel: Cancel, *, one_MV: Tensor, other_NV: Tensor) -> Tensor:
    return (one_MV @ other_NV.T).cpu()


def cost(loaded: Loaded, ask: KeepAsk, limits: Limits) -> int:
    """Bytes that checking takes: some values."""
    return 4 * ask.count * loaded.anatomy.shape.width
