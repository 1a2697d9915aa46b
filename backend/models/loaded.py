"""Loaded: one open model with everything that is known about it, and the attention inputs kept for the next click."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from backend.measure.statistics import Means
from backend.models.anatomy import Anatomy
from backend.models.classifier import Classifier
from backend.models.kernel import FUSED, Call
from backend.models.keys import Keys
from backend.models.points import Points
from backend.models.projections import Projections
from backend.models.vectors import NO_VECTORS, Stored
from backend.schema import Conditions, ModelCard

Way = Literal["together", "alone", "again"]
"""How a model writes: lines that share one cache, lines with a cache each, or each text run anew for every token."""


class Kept:
    """What a question may need again, by question, least recently used dropped first, within `budget` bytes.

    Calls of attention layers for the next click on a head; states of the residual stream for the rest of a lens.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.bytes = 0
        self._items: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def find(self, key: str) -> Any:
        """What is kept of a question; None when nothing is."""
        if key not in self._items:
            return None
        self._items.move_to_end(key)
        return self._items[key][0]

    def keep(self, key: str, item: Any, size: int) -> None:
        """Keep something of `size` bytes, when it fits at all."""
        self.drop(key)
        if size > self.budget:
            return
        while self.bytes + size > self.budget:
            self.drop(next(iter(self._items)))
        self._items[key] = (item, size)
        self.bytes += size

    def drop(self, key: str) -> None:
        """Forget a question."""
        if key in self._items:
            self.bytes -= self._items.pop(key)[1]

    def clear(self) -> None:
        """Forget everything, such as when memory has run out."""
        self._items.clear()
        self.bytes = 0


def calls_bytes(calls: dict[int, Call]) -> int:
    """What keeping the calls of several layers holds: masks that they share are counted once."""
    masks = {id(call.mask_BTS): call.mask_BTS.numel() for call in calls.values() if call.mask_BTS is not None}
    return sum(call.bytes for call in calls.values()) + sum(masks.values())


@dataclass
class Loaded:
    """One open model. Used on its own thread only."""

    name: str
    revision: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    anatomy: Anatomy
    conditions: Conditions
    card: ModelCard
    kept: Kept
    vectors: Stored = NO_VECTORS
    """Where the directions and steers that edits name come from."""
    points: Points = field(default_factory=Points)
    """The places that a capture may read (found at load)."""
    keys: Keys = field(default_factory=Keys)
    """What makes the coefficients of the feed-forward units (found at load)."""
    projections: Projections = field(default_factory=Projections)
    """What makes the queries, keys and values of the heads (found at load)."""
    classifier: Classifier | None = None
    """What names texts or tokens, where its checkpoint is a classifier's."""
    drawn: frozenset[str] = frozenset()
    """Parameters of the model that its files lack: a pooler, drawn at random, which no state is of."""
    unused: frozenset[str] = frozenset()
    """Weights in its files that no open part uses: heads for other tasks."""
    noise: float = 0.0
    """Largest change of any map when the same text is computed alone and beside others (measured at load)."""
    read: dict[tuple[str, int], Any] = field(default_factory=dict)
    """The last few texts, tokenised."""
    reduces: bool = False
    """Whether maps were seen to be what the calls' `scores` say, so that they need not be made to be reduced."""
    constants: bool = False
    """Whether its stream was seen to hold constants that no part writes."""
    writes: Way = "again"
    """How it may write (seen at load to give what a run of the whole text gives)."""
    induction: dict[int, Means] | None = None
    """Induction score of every head by layer, measured once."""

    @property
    def fused(self) -> bool:
        """Whether its kernel makes no maps itself."""
        return bool(self.model.config._attn_implementation == FUSED)

    @property
    def context(self) -> int | None:
        """Tokens the model was made for."""
        return self.anatomy.shape.context
