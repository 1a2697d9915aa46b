"""A map of patches: the effect of every cell of the grid, one at a time, as rows of batches.

A cell after the explained token cannot reach it, and a cell where both runs hold the same numbers changes nothing: both
are known without a run. Axes: R rows of the map, T tokens.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.array import to_array
from backend.models import explain, forward
from backend.models.asking import Asked
from backend.models.explain import check_predicts, place_of
from backend.models.loaded import Loaded
from backend.models.patch import align, check_place, held_by, held_bytes, put, vector_at
from backend.models.removal import made_up
from backend.models.variants import ROWS, Base, Variant, at_once, base_of, batch_bytes, differences
from backend.models.words import words_of
from backend.schema import Conditions, HeadName, Limits, PatchMap, PatchMapAsk, PatchPlace
from backend.studies.asking import OnModel
from backend.studies.effects import PUBLISH_S
from backend.studies.library import Library

CELLS_MOST = 16_384
"""Cells of one map."""
ABOUT = {
    "residual": "the residual stream after a block",
    "heads": "the output of a head, or of all heads of a layer together",
    "ffn_out": "what the feed-forward part of a block writes",
}


@dataclass(frozen=True)
class Line:
    """One row of the map."""

    layer: int
    heads: tuple[int, ...] = ()
    name: str = ""


@dataclass
class Found:
    """The study as it stands."""

    ask: PatchMapAsk
    conditions: Conditions
    base: Base
    source_ids: tuple[int, ...]
    lines: tuple[Line, ...]
    source: float
    words: dict[str, str]
    theirs: dict[str, Tensor]
    """What the source's run holds."""
    cells: list[tuple[int, int]]
    """Row and token of every cell that has to be measured."""
    logits_RT: Tensor
    done: int = 0

    def answer(self) -> PatchMap:
        """For the wire; NaN where a cell was not measured yet."""
        pair = self.base.pair
        return PatchMap(
            conditions=self.conditions, ids=self.base.asked.read.ids, source_ids=self.source_ids,
            explained=pair.explained, unpatched=pair.explained.logits, source=self.source,
            logits=to_array(self.logits_RT), rows=tuple(line.name for line in self.lines), about=self._about(),
            words=self.words,
        )  # fmt: skip

    def _about(self) -> str:
        return (
            f"Patched, one cell at a time: {ABOUT[self.ask.tap]} at one token is replaced by what the source's run "
            "holds there, and everything after it is computed anew. Shown: the pair's logit difference with that one "
            "cell patched; a cell where both runs hold the same numbers, or that comes after the explained token, "
            "changes nothing. Unit: logits."
        )


def check(loaded: Loaded, ask: PatchMapAsk, library: Library, cancel: Cancel) -> None:
    """Raise what can be known before any forward pass."""
    _check(loaded, ask, library.limits)


def _check(loaded: Loaded, ask: PatchMapAsk, limits: Limits) -> None:
    check_predicts(loaded)
    asked, _ = align(loaded, ask.view, ask.source, limits)
    place_of(asked, ask.explain.token)
    lines = lines_of(loaded, ask)
    for line in lines:
        for place in _places(ask, line, 0):
            check_place(loaded, place, asked.tokens)
    if (cells := len(lines) * asked.tokens) > CELLS_MOST:
        raise errors.TooLarge(
            "This map is too large",
            f"{len(lines)} rows of {asked.tokens} tokens are {cells:,} runs, and one map has at most {CELLS_MOST:,}",
            "Use a shorter text, or name fewer heads.", needed=cells, available=CELLS_MOST,
        )  # fmt: skip


def lines_of(loaded: Loaded, ask: PatchMapAsk) -> tuple[Line, ...]:
    """The rows of the map. Raises `BadQuestion` for heads that would be ignored."""
    anatomy = loaded.anatomy
    if ask.heads and ask.tap != "heads":
        raise errors.BadQuestion(
            "The heads named would be ignored", f"the map is of the tap `{ask.tap}`",
            "Ask with tap='heads', or name no head.",
        )  # fmt: skip
    if ask.tap == "residual":
        return tuple(Line(layer, name=f"after block {layer}") for layer in range(anatomy.shape.layers))
    if ask.tap == "ffn_out":
        return tuple(Line(layer, name=f"feed-forward {layer}") for layer in sorted(anatomy.feeds) or (0,))
    if ask.heads:
        return tuple(_line(head) for head in dict.fromkeys(ask.heads))
    layers = sorted(anatomy.projections) or anatomy.shape.attention_layers
    every = tuple(range(anatomy.shape.heads))
    return tuple(Line(layer, every, f"heads of layer {layer}") for layer in layers)


def _line(head: HeadName) -> Line:
    return Line(head.layer, (head.head,), f"head {head}")


def _places(ask: PatchMapAsk, line: Line, token: int) -> tuple[PatchPlace, ...]:
    heads: tuple[int | None, ...] = line.heads or (None,)
    return tuple(PatchPlace(tap=ask.tap, layer=line.layer, head=head, token=token) for head in heads)


async def study(model: OnModel, ask: PatchMapAsk, library: Library, report: Report) -> dict[str, Any]:
    """Measure every cell. Raises as `check`, and what a batch raises."""
    limits = library.limits

    def waiting() -> None:
        report("waiting for the model", 0, None, "")

    report("running both texts", 0, None, "")
    beginning = partial(begin, ask=ask, limits=limits)
    found = await model.patiently(beginning, partial(_cost_of_beginning, ask, limits), waiting)
    what, size, shown = "patching one cell at a time", ROWS, 0.0
    while found.done < len(found.cells):
        report(what, found.done, len(found.cells), "cells")
        batch = partial(measure, found=found, most=size)
        try:
            size = await model.patiently(batch, partial(_cost, ask, limits, size), waiting)
        except errors.OutOfMemory:
            if size == 1:
                raise
            size //= 2
        if time.monotonic() - shown >= PUBLISH_S:
            shown = time.monotonic()
            report.publish(found.answer().model_dump(mode="json"))
    report(what, len(found.cells), len(found.cells), "cells")
    return found.answer().model_dump(mode="json")


def begin(loaded: Loaded, cancel: Cancel, *, ask: PatchMapAsk, limits: Limits) -> Found:
    """Run both texts, and find out which cells differ."""
    _check(loaded, ask, limits)
    base = base_of(loaded, ask.view, ask.explain, limits, cancel)
    _, source = align(loaded, ask.view, ask.source, limits)
    lines = lines_of(loaded, ask)
    taps = {f"{ask.tap}.{line.layer}" for line in lines}
    ours, theirs = (held_by(loaded, each, taps, cancel) for each in (base.asked, source))
    logits_RT = torch.full((len(lines), base.asked.tokens), base.pair.explained.logits)
    cells = [
        (row, token)
        for token in reversed(range(base.pair.explained.token + 1))
        for row, line in enumerate(lines)
        if any(not torch.equal(vector_at(ours, at), vector_at(theirs, at)) for at in _places(ask, line, token))
    ]
    for row, token in cells:
        logits_RT[row, token] = torch.nan
    return Found(
        ask, loaded.conditions, base, source.read.ids, lines, _source_difference(loaded, base, source, cancel),
        words_of(loaded.tokenizer, base.pair.ids), theirs, cells, logits_RT,
    )  # fmt: skip


def measure(loaded: Loaded, cancel: Cancel, *, found: Found, most: int) -> int:
    """Measure the next cells; how many a batch may have."""
    size = min(most, at_once(loaded, found.base.asked.tokens))
    cells = found.cells[found.done : found.done + size]
    own: dict[str, Tensor] = {}
    variants = [_variant(found, row, token, own) for row, token in cells]
    logits = differences(loaded, found.base, variants, own, cancel)[1:]
    for (row, token), value in zip(cells, logits.tolist(), strict=True):
        found.logits_RT[row, token] = value
    found.done += len(cells)
    return size


def _variant(found: Found, row: int, token: int, own: dict[str, Tensor]) -> Variant:
    """The edits of one cell; their vectors are put into `own`."""
    edits = []
    for place in _places(found.ask, found.lines[row], token):
        id = made_up(f"patch {place}")
        own[id] = vector_at(found.theirs, place)
        edits.append(put(place, id))
    return tuple(edits)


def _source_difference(loaded: Loaded, base: Base, source: Asked, cancel: Cancel) -> float:
    final_BTD = forward.run(loaded, source.ids_BT, source.plan, types_BT=source.types_BT, cancel=cancel)
    return float(explain.differences(loaded, base.pair, final_BTD, source.plan, cancel)[0])


def _cost_of_beginning(ask: PatchMapAsk, limits: Limits, loaded: Any) -> int:
    taps = 2 * len(lines_of(loaded, ask))
    return batch_bytes(loaded, ask.view, limits, 1) + held_bytes(loaded, ask.view, taps, limits)


def _cost(ask: PatchMapAsk, limits: Limits, most: int, loaded: Any) -> int:
    tokens = align(loaded, ask.view, ask.source, limits)[0].tokens
    return batch_bytes(loaded, ask.view, limits, min(most, at_once(loaded, tokens)))
