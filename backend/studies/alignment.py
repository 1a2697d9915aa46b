"""Which layers of two models are alike in embedding space, group by group, and matched one to one.

Source: Dar et al. 2023, §5.1. Axes: L layers of `model`, M of `other`, P and Q vectors, R and S directions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.array import to_array
from backend.measure.assignment import assigned, order, same_by_chance
from backend.measure.embedding_space import Spaces
from backend.measure.tokens import BLOCK_BYTES
from backend.models import vector_groups
from backend.models.layer_vectors import PARTS, WHOLE_HEADS, Ready, products, ready_of, score_of
from backend.models.loaded import Loaded
from backend.models.vector_groups import Way, way_of
from backend.schema import (
    AlignedGroup,
    AlignedLayers,
    AlignmentAnswer,
    AlignmentAsk,
    Assignment,
    LayerPair,
    ReadAs,
    SharedTokens,
)
from backend.studies.asking import OnModel
from backend.studies.effects import PUBLISH_S
from backend.studies.library import Library
from backend.studies.two_models import (
    Shared,
    Side,
    both_sides,
    moments_of,
    reading_of,
    shared_tokens,
    sides_at_once,
)

KIND = "weights.alignment"
GROUPS: tuple[AlignedGroup, ...] = get_args(AlignedGroup)
KEPT_BYTES = 256 * 1024 * 1024
"""Vectors of the other model that are kept ready between two rows of the grid."""
PRODUCTS_AT_ONCE = {"cpu": 2e10, "cuda": 2e12}
"""Multiplications of one question, so that others wait for about a second."""
WIDTHS = "{} has a stream of {} numbers and {} one of {}, so their coordinates cannot be laid beside each other."
ABOUT = (
    "Two vectors, one of each model, are compared by the Pearson correlation of their scores over {tokens:,} tokens "
    "that both have: {reading}. The score of two layers is {score}. Layers are matched one to one so that the sum of "
    "scores is as large as can be (Hungarian algorithm). Control: the same with vectors as they lie in the streams, "
    "correlated over coordinates. Source: Dar et al. 2023, §5.1."
)
READINGS: dict[ReadAs, str] = {
    "folded": "what reads the stream through the gain of the norm before it and the input embedding, what writes "
    "through the final norm's gain and the output embedding",
    "raw": "the bare product with the input embedding (what reads the stream) or the output embedding (what writes)",
}
SCORES = {
    "mean": "the mean |correlation| over all pairs of their vectors, as published",
    "best": "the mean of every vector's best |correlation| with a vector of the other layer",
}
WHOLE = "Heads as whole tables tokens × tokens: all pairs of tokens, so that coordinates inside a head do not matter."


@dataclass
class Group:
    """One group's grid as it stands."""

    name: AlignedGroup
    layers: tuple[int, ...]
    other_layers: tuple[int, ...]
    score_LM: Tensor
    control_LM: Tensor | None
    vectors: int = 0
    other_vectors: int = 0
    constant: int = 0

    def answer(self) -> AlignedLayers:
        """For the wire."""
        return AlignedLayers(
            group=self.name, vectors=self.vectors, other_vectors=self.other_vectors, constant=self.constant,
            projected=self._matched(self.score_LM),
            control=None if self.control_LM is None else self._matched(self.control_LM),
        )  # fmt: skip

    def _matched(self, score_LM: Tensor) -> Assignment:
        inside_LM = score_LM[list(self.layers)][:, list(self.other_layers)]
        if bool(inside_LM.isnan().any()):
            return Assignment(scores=to_array(score_LM))
        pairs = [(self.layers[row], self.other_layers[column]) for row, column in assigned(inside_LM)]
        return Assignment(
            scores=to_array(score_LM), same=sum(one == other for one, other in pairs), order=order(pairs),
            same_by_chance=same_by_chance(self.layers, self.other_layers),
            pairs=tuple(LayerPair(layer=at, other=to, score=float(score_LM[at, to])) for at, to in pairs),
        )  # fmt: skip


@dataclass
class Found:
    """The study as it stands."""

    ask: AlignmentAsk
    sides: tuple[Side, Side]
    shared: Shared
    reading: ReadAs
    why: dict[str, str]
    notices: tuple[str, ...]
    groups: list[Group] = field(default_factory=list)

    @property
    def comparable(self) -> bool:
        """Whether there is an un-projected control."""
        return self.sides[0].width == self.sides[1].width

    def answer(self) -> AlignmentAnswer:
        """For the wire; NaN where two layers were not compared yet."""
        one, other = self.sides
        told: SharedTokens = self.shared.told
        about = ABOUT.format(tokens=told.tokens, reading=READINGS[self.reading], score=SCORES[self.ask.score])
        return AlignmentAnswer(
            conditions=one.conditions, other_conditions=other.conditions, shared=told, reading=self.reading,
            score=self.ask.score, layers=tuple(range(one.layers)), other_layers=tuple(range(other.layers)),
            groups=tuple(group.answer() for group in self.groups), why=self.why,
            control_why="" if self.comparable else WIDTHS.format(one.name, one.width, other.name, other.width),
            about=about + (f" {WHOLE}" if any(group.name in WHOLE_HEADS for group in self.groups) else ""),
            notices=self.notices,
        )  # fmt: skip


async def before(model: OnModel, ask: AlignmentAsk, library: Library) -> None:
    """Raise what both models say of themselves, before there is a job."""
    begun(ask, *await sides_at_once(model, library.open(ask.other, ask.other_revision, KIND)))


async def study(model: OnModel, ask: AlignmentAsk, library: Library, report: Report) -> dict[str, Any]:
    """Compare every layer with every layer, group by group. Raises as `begun`, and what a batch raises."""

    def waiting() -> None:
        report("waiting for a model", 0, None, "")

    report("reading both vocabularies", 0, None, "")
    other, *sides = await both_sides(model, ask, library, KIND, waiting)
    found = begun(ask, sides[0], sides[1])
    grid = Grid(found, (model, other), report, waiting)
    for name in chosen(found):
        await grid.fill(name)
    return found.answer().model_dump(mode="json")


def begun(ask: AlignmentAsk, one: Side, other: Side) -> Found:
    """Raise `CannotShow` where the vocabularies differ, and where no group can be compared."""
    shared = shared_tokens(one, other, ask.by_string)
    asked = ask.groups or GROUPS
    why: dict[str, str] = {}
    for group in asked:
        for side in (one, other):
            missing = [part for part in PARTS[group] if part not in side.groups]
            if missing:
                why.setdefault(group, f"{side.name}: {side.why[missing[0]]}")
    parts = {part for group in asked if group not in why for part in PARTS[group]}
    reading, unread, notice = reading_of(ask, one, other, parts)
    for group in asked:
        reasons = [unread[part] for part in PARTS[group] if part in unread]
        if group not in why and reasons:
            why[group] = reasons[0]
    found = Found(ask, (one, other), shared, reading, why, tuple(filter(None, [notice, one.notice, other.notice])))
    if not chosen(found):
        raise errors.CannotShow(
            f"The layers of {one.name} and {other.name} cannot be compared", "; ".join(dict.fromkeys(why.values())),
            "Ask for other groups, or with the reading `raw`.",
        )  # fmt: skip
    return found


def chosen(found: Found) -> tuple[AlignedGroup, ...]:
    """The groups that are compared, in order."""
    return tuple(group for group in dict.fromkeys(found.ask.groups or GROUPS) if group not in found.why)


class Grid:
    """Fills the grid of one group after the other."""

    def __init__(
        self, found: Found, models: tuple[OnModel, OnModel], report: Report, waiting: Callable[[], None]
    ) -> None:
        self._found, self._models, self._report, self._waiting = found, models, report, waiting
        self._spaces: dict[Way, Spaces] = {}
        self._shown = 0.0

    async def fill(self, name: AlignedGroup) -> None:
        """All layers of `model` against all of `other`."""
        found, parts = self._found, PARTS[name]
        one, other = found.sides
        layers, others = (
            tuple(sorted(set.intersection(*(set(side.groups[part]) for part in parts)))) for side in (one, other)
        )
        empty_LM = torch.full((one.layers, other.layers), torch.nan)
        group = Group(name, layers, others, empty_LM, empty_LM.clone() if found.comparable else None)
        found.groups.append(group)
        spaces = [await self._space(way_of(part)) for part in parts]
        kept: dict[int, Ready] = {}
        for place, layer in enumerate(layers):
            self._report(f"comparing layers by {TOLD.get(name, name)}", place, len(layers), "layers")
            ready = await self._models[0].patiently(
                partial(lead, name=name, layer=layer, reading=found.reading, spaces=spaces),
                _ready_bytes, self._waiting,
            )  # fmt: skip
            group.vectors = ready.count
            group.constant += ready.constant
            await self._row(group, layer, ready, spaces, kept)

    async def _row(
        self, group: Group, layer: int, ready: Ready, spaces: Sequence[Spaces], kept: dict[int, Ready]
    ) -> None:  # fmt: skip
        left = list(group.other_layers)
        while left:
            step = partial(
                compare, group=group, layer=layer, left=left, ready=ready, reading=self._found.reading, spaces=spaces,
                kept=kept, score=self._found.ask.score,
            )  # fmt: skip
            left = await self._models[1].patiently(step, _compare_bytes, self._waiting)
            if time.monotonic() - self._shown >= PUBLISH_S:
                self._shown = time.monotonic()
                self._report.publish(self._found.answer().model_dump(mode="json"))

    async def _space(self, way: Way) -> Spaces:
        one, other = self._found.sides
        if way == "writes" and one.tied and other.tied:
            way = "reads"
        if way not in self._spaces:
            moments = await moments_of(self._models, self._found.shared, way, self._report, self._waiting)
            self._spaces[way] = Spaces.of(moments)
        return self._spaces[way]


TOLD: dict[str, str] = {str(group): told for group, told in vector_groups.NAMES.items()}
TOLD |= {"vo": "W_VO of whole heads", "qk": "W_QK of whole heads"}


def lead(
    loaded: Loaded, cancel: Cancel, *, name: AlignedGroup, layer: int, reading: ReadAs, spaces: Sequence[Spaces]
) -> Ready:  # fmt: skip
    """A layer of the first model."""
    return ready_of(loaded, name, layer, reading, spaces, lead=True)


def compare(
    loaded: Loaded, cancel: Cancel, *, group: Group, layer: int, left: list[int], ready: Ready, reading: ReadAs,
    spaces: Sequence[Spaces], kept: dict[int, Ready], score: Literal["mean", "best"],
) -> list[int]:  # fmt: skip
    """Compare one layer with the next few of the other model; those that are left."""
    allowed = PRODUCTS_AT_ONCE.get(loaded.anatomy.device.type, PRODUCTS_AT_ONCE["cpu"])
    done, spent = 0, 0.0
    while done < len(left) and (not done or spent < allowed):
        cancel()
        at = left[done]
        theirs = kept.get(at)
        if theirs is None:
            theirs = ready_of(loaded, group.name, at, reading, spaces, lead=False)
            group.other_vectors = theirs.count
            if layer == group.layers[0]:
                group.constant += theirs.constant
            if theirs.bytes * len(group.other_layers) <= KEPT_BYTES:
                kept[at] = theirs
        group.score_LM[layer, at] = score_of(ready.projected, theirs.projected, score, cancel)
        if group.control_LM is not None:
            group.control_LM[layer, at] = score_of(ready.plain, theirs.plain, score, cancel)
        done, spent = done + 1, spent + products(ready, theirs)
    return left[done:]


def _ready_bytes(loaded: Loaded) -> int:
    """A layer's vectors in float64, a few times."""
    shape = loaded.anatomy.shape
    vectors = max(loaded.anatomy.units or 0, shape.heads * shape.head_width)
    return 8 * 6 * vectors * shape.width


def _compare_bytes(loaded: Loaded) -> int:
    shape = loaded.anatomy.shape
    return _ready_bytes(loaded) + KEPT_BYTES + 2 * BLOCK_BYTES + 8 * 4 * (shape.heads * shape.head_width) ** 2
