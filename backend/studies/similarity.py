"""Similarity in words of vectors that belong together, layer by layer, against chance."""

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
from backend.measure.intervals import SHARE, SIGNED, interval, method, ratios
from backend.models.loaded import Loaded
from backend.models.similarity import Overlaps, drawn, layers_of, overlaps, sides_of, similarity_bytes, words
from backend.schema import Conditions, Limits, Pairing, SimilarityAsk, SimilarityPoint, SimilarityStudy
from backend.studies.aside import aside
from backend.studies.asking import OnModel
from backend.studies.library import Library
from backend.studies.weighing import Weighing, pieces

KIND = "similarity"
ENDS = {"promoted": "moved up most", "suppressed": "moved down most", "absolute": "moved most, either way,"}
ABOUT = (
    "Mean Jaccard overlap, |both| / |either|, of the {k} words {end} by two vectors that belong together, from 0 to 1 "
    "(Dar et al. 2023, Appendix B.1): a unit's key and value; the column of W_V and the row of W_O of a head's "
    "coordinate; its columns of W_Q and W_K. Random: each vector with the partner of another of the layer. Twin: "
    "random directions in place of both, read in the same way. {reading} Up to {count} pairs a layer, drawn at random "
    "(seed {seed}). Intervals: {intervals}."
)
READINGS = {
    "folded": "Folded: the gain of the norm before is folded into what reads the stream, that of the final norm into "
    "what writes.",
    "raw": "Raw, as published: no norm.",
}
NO_LAYER = "no layer of this model has attention"
BASIS = (
    "A head's coordinates are those that training happened to choose: another basis of the same head has the same W_VO "
    "and, but for rotary positions, the same W_QK, and other overlaps."
)


@dataclass
class Found:
    """The study as it stands."""

    ask: SimilarityAsk
    conditions: Conditions
    overlaps: dict[Pairing, dict[int, Overlaps]] = field(default_factory=dict)
    points: list[SimilarityPoint] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)

    def answer(self) -> SimilarityStudy:
        """For the wire."""
        ask = self.ask
        about = ABOUT.format(
            k=ask.k,
            end=ENDS[ask.end],
            reading=READINGS[ask.reading],
            count=ask.count,
            seed=ask.seed,
            intervals=method("pairs"),
        )
        return SimilarityStudy(
            conditions=self.conditions, reading=ask.reading, k=ask.k, points=tuple(self.points), why=dict(self.why),
            about=about, notices=(BASIS,) if any(each != "keys_values" for each in ask.pairings) else (),
        )  # fmt: skip


def check(loaded: Any, ask: SimilarityAsk, library: Library, cancel: Cancel) -> None:
    """Raise where no vectors that are asked for can be read."""
    steps(loaded, ask)


def steps(loaded: Loaded, ask: SimilarityAsk) -> tuple[list[tuple[Pairing, int]], dict[str, str]]:
    """Pairings and layers that can be measured, and why others cannot. Raises the last refusal where none can."""
    found: list[tuple[Pairing, int]] = []
    why: dict[str, str] = {}
    last: errors.CannotShow | None = None
    for pairing in dict.fromkeys(ask.pairings):
        refused: dict[str, str] = {}
        known: list[tuple[Pairing, int]] = []
        for layer in layers_of(loaded, pairing):
            try:
                sides_of(loaded, pairing, layer, ask)
            except errors.CannotShow as refusal:
                refused[f"{pairing} {layer}"], last = f"{refusal.what}: {refusal.why}.", refusal
            else:
                known.append((pairing, layer))
        found += known
        why |= refused if known else {pairing: next(iter(refused.values()), NO_LAYER)}
    if not found:
        raise last or errors.CannotShow("This model has no such vectors", NO_LAYER, "Choose another pairing.")
    return found, why


async def study(model: OnModel, ask: SimilarityAsk, library: Library, report: Report) -> dict[str, Any]:
    """Measure every layer. Raises as `check`, and what a question raises."""
    weighing = Weighing(model, report, library.kept)
    report("looking for the vectors", 0, None, "")
    todo, why = await weighing.begun(lambda loaded, cancel: steps(loaded, ask))
    found = Found(ask, model.conditions, why=why)

    async def whole() -> Any:
        for done, (pairing, layer) in enumerate(todo):
            report("comparing words", done, len(todo), "layers")
            held = await _measured(weighing, pairing, layer, ask)
            found.overlaps.setdefault(pairing, {})[layer] = held
            found.points.append(await asyncio.to_thread(point, pairing, layer, held, ask.seed))
            await weighing.publish(found.answer)
        report("comparing words", len(todo), len(todo), "layers")
        for pairing, held_by_layer in found.overlaps.items():
            found.points.append(await asyncio.to_thread(point, pairing, None, _all(held_by_layer), ask.seed))
        return [each.model_dump(mode="json") for each in found.points]

    points = await weighing.once(KIND, weighing.content(ask), whole)
    found.points = [SimilarityPoint.model_validate(each) for each in points]
    return found.answer().model_dump(mode="json")


def point(pairing: Pairing, layer: int | None, held: Overlaps, seed: int) -> SimilarityPoint:
    """Means with their intervals."""
    rows_SN = torch.stack([held.own_N, held.random_N, held.own_N - held.random_N])
    own, random, more = ratios(rows_SN, torch.ones_like(rows_SN), seed=seed, within=[SHARE, SHARE, SIGNED])
    twin = interval(held.twin_N, seed=seed, within=SHARE)
    return SimilarityPoint(pairing=pairing, layer=layer, own=own, random=random, twin=twin, more=more)


def _all(by_layer: dict[int, Overlaps]) -> Overlaps:
    def joined(name: str) -> Tensor:
        return torch.cat([getattr(held, name) for held in by_layer.values()])

    return Overlaps(joined("own_N"), joined("random_N"), joined("twin_N"))


async def _measured(weighing: Weighing, pairing: Pairing, layer: int, ask: SimilarityAsk) -> Overlaps:
    """One pairing of a layer, some vectors a question, so that others are answered in between."""
    of = await weighing.ask(lambda loaded, cancel: drawn(loaded, pairing, layer, ask), partial(_cost, ask))

    async def told(place: int, given: Tensor) -> Tensor:
        def make(loaded: Loaded, cancel: Cancel, some: Tensor) -> Tensor:
            return words(loaded, pairing, layer, ask, place, some, cancel)

        parts = [
            await weighing.ask(partial(make, some=some), partial(_cost, ask))
            for some in pieces(given, of.at_once[place])
        ]
        return torch.cat(parts)

    own = await told(0, of.which_N), await told(1, of.which_N)
    random = await told(0, of.random_ND[0]), await told(1, of.random_ND[1])
    return await aside(overlaps, own, random, ask.seed + layer)


def _cost(ask: SimilarityAsk, loaded: Loaded) -> int:
    return similarity_bytes(loaded, ask)


def cost(loaded: Loaded, ask: SimilarityAsk, limits: Limits) -> int:
    """Bytes that checking takes: the vectors of one layer."""
    return similarity_bytes(loaded, ask)
