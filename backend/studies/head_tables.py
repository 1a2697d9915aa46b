"""All heads of a model, one question a head: the top pairs of each, and its W_VO in numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.array import to_array
from backend.models import head_tables as models
from backend.models.loaded import Loaded
from backend.models.weights import pairs_bytes
from backend.schema import Array, Conditions, HeadSummaries, HeadTables, Limits, SummariesAsk, TablesAsk
from backend.studies.asking import OnModel
from backend.studies.library import Library
from backend.studies.weighing import Weighing

TABLE, NUMBERS = "pairs", "heads"
"""What is kept of a layer."""
ABOUTS = {
    "largest": "σ₁, the largest singular value of W_VO = W_V W_O as a map of the stream{reading}. Unit: the most that "
    "a state of length 1 is stretched to.",
    "first": "σ₁² / Σ σ² of W_VO: how much of it is its first singular direction alone. From 1 / the head's width, all "
    "directions alike, to 1, one direction. No unit.",
    "rank": "Effective rank of W_VO: exp of the entropy of σ / Σ σ (Roy and Vetterli 2007). From 1 to the head's "
    "width: over how many directions it is spread. No unit.",
    "copying": "Copying score: Σ λ / Σ |λ| over the eigenvalues λ of W_VO as a table, tokens × tokens (Elhage et al. "
    "2021). From −1 to 1: 1 where the head writes what it reads, −1 where it writes against it. No unit.",
    "same": "Of the {top} highest pairs of W_VO, tokens × tokens, the share of a token with itself. From 0 to 1; all "
    "tokens of the vocabulary, exact. No unit.",
}  # fmt: skip
FOLDED = ", the gains of the norm before attention and of the final norm folded in"
RAW = ", raw as published: no norm"
NO_COPYING = "Input and output embedding do not have one vocabulary, so no token is mapped to itself."


@dataclass
class Tables:
    """Tables as they stand: by layer, the heads that were searched."""

    ask: TablesAsk
    conditions: Conditions
    layers: tuple[int, ...]
    why: dict[str, str]
    heads: int
    found: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Heads that were searched."""
        return sum(map(len, self.found.values()))

    def answer(self) -> HeadTables | None:
        """For the wire; None before the first head."""
        every = [(layer, told) for layer, heads in self.found.items() for told in heads]
        if not every:
            return None
        ask, first = self.ask, every[0][1]

        def numbers(name: str, dtype: str = "i4") -> Array:
            return to_array(torch.from_numpy(np.array([told[name] for _, told in every], dtype)))

        notices = dict.fromkeys(notice for _, told in every for notice in told["notices"])
        return HeadTables(
            conditions=self.conditions, circuit=ask.circuit, reading=ask.reading, inverse=ask.inverse,
            distance=ask.distance, sign=ask.sign,
            twin=ask.twin, layer=to_array(torch.tensor([layer for layer, _ in every], dtype=torch.int32)),
            head=numbers("head"), group=numbers("group"), row=numbers("row"), column=numbers("column"),
            score=numbers("score", "f4"), same=numbers("same"), variants=numbers("variants"), heads=self.heads,
            why=self.why, allowed=first["allowed"], about=first["about"], notices=tuple(notices),
            words={id: word for _, told in every for id, word in told["words"].items()},
        )  # fmt: skip


@dataclass
class Summaries:
    """Numbers as they stand, by layer."""

    ask: SummariesAsk
    conditions: Conditions
    layers: tuple[int, ...]
    shape: Any
    why: dict[str, str]
    numbers: dict[int, dict[str, list[float | None]]] = field(default_factory=dict)
    tables: Tables | None = None
    notices: tuple[str, ...] = ()

    def answer(self) -> HeadSummaries:
        """For the wire."""
        attention = tuple(self.shape.attention_layers)

        def array(name: str) -> Array:
            rows = [self.numbers.get(layer, {}).get(name) or [None] * self.shape.heads for layer in attention]
            return to_array(_numbers(rows))

        known = bool(self.numbers) and all(None in each["copying"] for each in self.numbers.values())
        reading = FOLDED if self.ask.reading == "folded" else RAW
        return HeadSummaries(
            conditions=self.conditions, reading=self.ask.reading, top=self.ask.top, layers=attention,
            heads=self.shape.heads, kv_heads=self.shape.kv_heads, largest=array("largest"), first=array("first"),
            rank=array("rank"), copying=array("copying"), same=to_array(self._same(attention)),
            searched=0 if self.tables is None else self.tables.done, why=self.why,
            copying_why=NO_COPYING if known else "", notices=self.notices,
            abouts={name: about.format(reading=reading, top=self.ask.top) for name, about in ABOUTS.items()},
        )  # fmt: skip

    def _same(self, attention: tuple[int, ...]) -> Tensor:
        """float32 [L, H]: shares of same tokens."""
        found: dict[int, list[float | None]] = {layer: [None] * self.shape.heads for layer in attention}
        for layer, heads in () if self.tables is None else self.tables.found.items():
            for told in heads:
                found[layer][told["head"]] = told["same"] / len(told["row"])
        return _numbers([found[layer] for layer in attention])


def _numbers(rows: list[list[float | None]]) -> Tensor:
    """float32, NaN for what is absent."""
    return torch.tensor([[float("nan") if value is None else value for value in row] for row in rows]).float()


def check_tables(loaded: Any, ask: TablesAsk, library: Library, cancel: Cancel) -> None:
    """Raise where no head has such a table."""
    models.tables_layers(loaded, ask, cancel)


def check_summaries(loaded: Any, ask: SummariesAsk, library: Library, cancel: Cancel) -> None:
    """Raise where W_VO of no head is known."""
    models.summary_layers(loaded, ask)


async def tables(model: OnModel, ask: TablesAsk, library: Library, report: Report) -> dict[str, Any]:
    """Search every head. Raises as `check_tables`, and what a question raises."""
    weighing = Weighing(model, report, library.kept)
    report("looking for the heads", 0, None, "")
    found = await _begun(weighing, ask)
    await _search(weighing, found, library.limits, found.answer)
    answer = await asyncio.to_thread(found.answer)
    assert answer is not None, "some layer has tables"
    return answer.model_dump(mode="json")


async def summaries(model: OnModel, ask: SummariesAsk, library: Library, report: Report) -> dict[str, Any]:
    """Numbers of all heads first, then the search of their pairs, which are kept as tables are."""
    weighing = Weighing(model, report, library.kept)
    report("looking for the heads", 0, None, "")
    found = await weighing.begun(partial(_begin_summaries, ask=ask))
    found.conditions = model.conditions
    await _measure(weighing, found)
    asked = TablesAsk(model=ask.model, revision=ask.revision, reading=ask.reading, top=ask.top)
    found.tables = await _begun(weighing, asked)
    await _search(weighing, found.tables, library.limits, found.answer)
    table = await asyncio.to_thread(found.tables.answer)
    found.notices = () if table is None else table.notices
    return found.answer().model_dump(mode="json")


async def _begun(weighing: Weighing, ask: TablesAsk) -> Tables:
    layers, why, heads = await weighing.begun(partial(_begin_tables, ask=ask))
    return Tables(ask, weighing.model.conditions, layers, why, heads)


async def _search(
    weighing: Weighing, found: Tables, limits: Limits, told: Callable[[], Any]
) -> None:  # fmt: skip
    """Every head of every layer; a layer that was searched before is found again."""
    per_layer = found.heads // max(1, len(found.layers) + len(found.why))
    total = per_layer * len(found.layers)

    async def layer_of(layer: int) -> Any:
        found.found[layer] = []
        for head in range(per_layer):
            weighing.report("searching the pairs of every head", found.done, total, "heads")
            make = partial(_pairs, ask=found.ask, layer=layer, head=head, limits=limits)
            found.found[layer].append(await weighing.ask(make, partial(_cost, found.ask, limits, layer)))
            await weighing.publish(told)
        return found.found[layer]

    for layer in found.layers:
        content = weighing.content(found.ask, layer)
        found.found[layer] = await weighing.once(TABLE, content, partial(layer_of, layer))
    weighing.report("searching the pairs of every head", total, total, "heads")


async def _measure(weighing: Weighing, found: Summaries) -> None:
    """Singular values and copying of every layer."""

    async def every() -> Any:
        gram_DD = await weighing.ask(partial(_gram, reading=found.ask.reading), models.gram_bytes)
        for done, layer in enumerate(found.layers):
            weighing.report("measuring W_VO of every head", done, len(found.layers), "layers")
            make = partial(_numbers_of, layer=layer, gram_DD=gram_DD, reading=found.ask.reading)
            found.numbers[layer] = await weighing.ask(make, models.numbers_bytes)
            await weighing.publish(found.answer)
        return [[layer, numbers] for layer, numbers in found.numbers.items()]

    told = await weighing.once(NUMBERS, weighing.content(found.ask.model_copy(update={"top": 1})), every)
    found.numbers = dict(map(tuple, told))
    await weighing.publish(found.answer, now=True)


def _begin_tables(loaded: Loaded, cancel: Cancel, *, ask: TablesAsk) -> tuple[tuple[int, ...], dict[str, str], int]:
    layers, why = models.tables_layers(loaded, ask, cancel)
    return layers, why, loaded.anatomy.shape.heads * len(loaded.anatomy.shape.attention_layers)


def _begin_summaries(loaded: Loaded, cancel: Cancel, *, ask: SummariesAsk) -> Summaries:
    layers, why = models.summary_layers(loaded, ask)
    return Summaries(ask, loaded.conditions, layers, loaded.anatomy.shape, why)


def _pairs(loaded: Loaded, cancel: Cancel, **more: Any) -> dict[str, Any]:
    return models.pairs_of(loaded, cancel=cancel, **more)


def _gram(loaded: Loaded, cancel: Cancel, **more: Any) -> Tensor | None:
    return models.cross_gram(loaded, cancel=cancel, **more)


def _numbers_of(loaded: Loaded, cancel: Cancel, **more: Any) -> dict[str, Any]:
    return models.numbers_of(loaded, cancel=cancel, **more)


def _cost(ask: TablesAsk, limits: Limits, layer: int, loaded: Loaded) -> int:
    return pairs_bytes(loaded, models.pairs_ask(ask, layer, 0), limits)


def cost_tables(loaded: Loaded, ask: TablesAsk, limits: Limits) -> int:
    """Bytes that checking takes: a head's maps."""
    return models.numbers_bytes(loaded)


def cost_summaries(loaded: Loaded, ask: SummariesAsk, limits: Limits) -> int:
    """The same."""
    return models.numbers_bytes(loaded)
