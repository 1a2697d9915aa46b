"""What changed from one model to another of the same shape: sizes by layer and group, and the vectors that changed most
as words. Source: Dar et al. 2023, §4.3 (fine-tuning vectors) and appendix D. Axes: P vectors, D width.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from backend import errors
from backend.desk.running import Report
from backend.measure.embedding_space import Moments, Space
from backend.models.changes import EMBEDDINGS
from backend.models.vector_groups import GROUPS, Way, way_of
from backend.schema import ChangedGroup, ChangesAsk, VectorGroup
from backend.studies import subtracting
from backend.studies.asking import OnModel
from backend.studies.changed import Found
from backend.studies.effects import PUBLISH_S
from backend.studies.labels import labels_of, read_labels, taken_labels
from backend.studies.library import Library
from backend.studies.two_models import (
    TOKENS_AT_ONCE,
    Side,
    both_sides,
    reading_of,
    shared_tokens,
    sides_at_once,
)

KIND = "weights.changes"
ROWS = "Rows of the {} of tokens that are not in both, or have no place in both, are left out ({:,})."


async def before(model: OnModel, ask: ChangesAsk, library: Library) -> None:
    """Raise what both models say of themselves, before there is a job."""
    begun(ask, *await sides_at_once(model, library.open(ask.other, ask.other_revision, KIND)))


def begun(ask: ChangesAsk, one: Side, other: Side) -> Found:
    """Raise `CannotShow` where shapes or vocabularies differ, or the layer asked for is none."""
    apart = [f"{name}: {size} and {other.sizes[name]}" for name, size in one.sizes.items() if other.sizes[name] != size]
    if apart:
        raise errors.CannotShow(
            f"{one.name} and {other.name} cannot be subtracted", f"they differ in their shape ({'; '.join(apart)})",
            "Choose a model and a fine-tuned one of it, or compare their layers by alignment.",
        )  # fmt: skip
    if ask.layer is not None and ask.layer >= one.layers:
        raise errors.CannotShow(
            f"There is no layer {ask.layer}", f"these models have {one.layers}, counted from 0",
            f"Choose one below {one.layers}.", needed=ask.layer + 1, available=one.layers,
        )  # fmt: skip
    shared = shared_tokens(one, other, ask.by_string)
    groups = {group for group in GROUPS if group in one.groups and group in other.groups}
    reading, unread, notice = reading_of(ask, one, one, groups)
    why: dict[str, str] = {}
    for group in GROUPS:
        if group not in groups:
            why[group] = one.why.get(group) or other.why.get(group, "")
        elif group in unread:
            why[group] = unread[group]
    return Found(ask, (one, other), shared, reading, why, list(filter(None, [notice, one.notice])))


async def study(model: OnModel, ask: ChangesAsk, library: Library, report: Report) -> dict[str, Any]:
    """Subtract group by group. Raises as `begun`, and what a batch raises."""

    def waiting() -> None:
        report("waiting for a model", 0, None, "")

    report("looking at both models", 0, None, "")
    other, *sides = await both_sides(model, ask, library, KIND, waiting)
    found = begun(ask, sides[0], sides[1])
    work = Subtracting(found, (model, other), report, waiting)
    await work.classifiers()
    for layer in range(sides[0].layers):
        report("subtracting", layer, sides[0].layers, "layers")
        for group in GROUPS:
            if layer in sides[0].groups.get(group, ()) and layer in sides[1].groups.get(group, ()):
                await work.vectors(group, layer)
        work.publish()
    await work.biases()
    await work.others()
    await work.embeddings()
    return found.answer().model_dump(mode="json")


class Subtracting:
    """Takes numbers from the other model and subtracts them on the lane of the first, which reads them."""

    def __init__(
        self, found: Found, models: tuple[OnModel, OnModel], report: Report, waiting: Callable[[], None]
    ) -> None:
        self._found, self._models, self._report, self._waiting = found, models, report, waiting
        self._spaces: dict[Way, Space] = {}
        self._shown = 0.0

    def publish(self) -> None:
        """Show what was found so far, not too often."""
        if time.monotonic() - self._shown >= PUBLISH_S:
            self._shown = time.monotonic()
            self._report.publish(self._found.answer().model_dump(mode="json"))

    async def classifiers(self) -> None:
        """What each label of either model reads, and what became of it."""
        sides: tuple[tuple[Literal["model", "other"], OnModel], ...] = (
            ("model", self._models[0]), ("other", self._models[1]),
        )  # fmt: skip
        for side, model in sides:
            told = await model.patiently(
                partial(read_labels, top=self._found.ask.top), subtracting.read_bytes, self._waiting
            )
            if told is None:
                continue
            words, notice, read = told
            self._found.classifier += labels_of(side, read)
            (self._found.words if side == "model" else self._found.other_words).update(words)
            self._found.notices += [notice] if notice else []
        after = await self._models[1].patiently(taken_labels, subtracting.read_bytes, self._waiting)
        if after is None or self._found.ask.layer is not None:
            return
        step = partial(subtracting.subtract_labels, found=self._found, after=after, space=await self._space("writes"))
        await self._models[0].patiently(step, subtracting.read_bytes, self._waiting)

    async def vectors(self, group: VectorGroup, layer: int) -> None:
        """One group of one layer."""
        after_PD = await self._models[1].patiently(
            partial(subtracting.taken_rows, group=group, layer=layer), subtracting.rows_bytes, self._waiting
        )
        space = await self._space(way_of(group)) if self._found.ask.by == "moved" else None
        subtract = partial(
            subtracting.subtract_rows, found=self._found, group=group, layer=layer, after_PD=after_PD, space=space
        )
        await self._models[0].patiently(subtract, subtracting.rows_bytes, self._waiting)

    async def biases(self) -> None:
        """What attention and feed-forward parts write every time."""
        after = await self._models[1].patiently(subtracting.taken_biases, subtracting.rows_bytes, self._waiting)
        if not after:
            return
        step = partial(subtracting.subtract_biases, found=self._found, after=after, space=await self._space("writes"))
        await self._models[0].patiently(step, subtracting.rows_bytes, self._waiting)

    async def others(self) -> None:
        """Everything that is counted, not read."""
        after, told = await self._models[1].patiently(subtracting.taken_others, subtracting.rows_bytes, self._waiting)
        await self._models[0].patiently(
            partial(subtracting.subtract_others, found=self._found, after=after, other=told),
            subtracting.rows_bytes,
            self._waiting,
        )

    async def embeddings(self) -> None:
        """Token by token, over those that both have, and of one vocabulary also the rows that stand for no token."""
        shared = self._found.shared
        for group in EMBEDDINGS:
            rows, other_rows = [
                await model.patiently(
                    partial(subtracting.table_rows, group=group), subtracting.read_bytes, self._waiting
                )
                for model in self._models
            ]
            if not rows or not other_rows:
                if rows or other_rows:
                    self._found.leave_out(subtracting.ONE_ALONE, [group])
                continue
            rest_N = shared.ids_N[:0] if shared.told.by_string else _beside(shared.ids_N, min(rows, other_rows))
            if missed := max(rows, other_rows) - len(shared.ids_N) - len(rest_N):
                self._found.leave_out(ROWS.format(group, missed))
            await self._rows(group, shared.ids_N, shared.other_ids_N, named=True)
            await self._rows(group, rest_N, rest_N, named=False)

    async def _rows(self, group: ChangedGroup, ids_N: Tensor, other_ids_N: Tensor, *, named: bool) -> None:
        """Rows of an embedding; those that are not `named` are counted alone."""
        space = await self._space("reads" if group == "embedding" else "writes") if named else None
        for first in range(0, len(ids_N), TOKENS_AT_ONCE):
            self._report(f"subtracting the {group}s", first, len(ids_N), "tokens")
            some = slice(first, first + TOKENS_AT_ONCE)
            take = partial(subtracting.taken_embedding, group=group, ids_N=other_ids_N[some])
            after_ND = await self._models[1].patiently(take, subtracting.block_bytes, self._waiting)
            step = partial(
                subtracting.subtract_embedding, found=self._found, group=group, ids_N=ids_N[some], after_ND=after_ND,
                space=space, listed=named,
            )  # fmt: skip
            await self._models[0].patiently(step, subtracting.block_bytes, self._waiting)
            self.publish()

    async def _space(self, way: Way) -> Space | None:
        """Of the first model's embedding, where it ranks vectors: how far each moves the words, without its words."""
        if self._found.ask.by != "moved":
            return None
        if way not in self._spaces:
            moments, size, first = Moments(), 1, 0
            while first < size:
                step = partial(subtracting.add_rows, way=way, moments=moments, first=first)
                size = await self._models[0].patiently(step, subtracting.block_bytes, self._waiting)
                first += TOKENS_AT_ONCE
            self._spaces[way] = Space.of(moments.covariances[0], moments.means[0])
        return self._spaces[way]


def _beside(ids_N: Tensor, rows: int) -> Tensor:
    """Rows that stand for none of the tokens."""
    beside = torch.ones(rows, dtype=torch.bool)
    beside[ids_N[ids_N < rows]] = False
    return beside.nonzero()[:, 0]
