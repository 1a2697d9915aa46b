"""How a study of weights goes: what was found before is found again by its content, and the rest is asked step by step.

Each step is a question of its own on the model's lane. What a study makes `once` is kept by its content: a job that was
stopped or killed goes on behind it, and whoever asks the same later waits for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor

from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.models.kept_answers import KeptAnswers, content_of
from backend.schema import Conditions
from backend.schema.frozen import Frozen
from backend.studies.asking import OnModel

T = TypeVar("T")
PUBLISH_S = 1.0
SHARE = 0.05
"""What was found so far is shown so rarely that making it takes at most this share of the time."""


def pieces(given: Tensor, rows: int) -> list[Tensor]:
    """Some rows at a time: what one question does, so that others are answered in between."""
    return [given[first : first + rows] for first in range(0, len(given), rows)]


@dataclass
class Weighing:
    """One study as it runs."""

    model: OnModel
    report: Report
    kept: KeptAnswers
    shown: float = 0.0
    took: float = 0.0
    conditions: Conditions | None = field(default=None)

    def waiting(self) -> None:
        """The model is busy, or being loaded."""
        self.report("waiting for the model", 0, None, "")

    async def ask(self, answer: Callable[[Any, Cancel], T], cost: Callable[[Any], int]) -> T:
        """One question on the model's lane."""
        return await self.model.patiently(answer, cost, self.waiting)

    async def begun(self, answer: Callable[[Any, Cancel], T]) -> T:
        """The first question: it costs nothing, and from then on it is known under which conditions."""
        found = await self.ask(answer, lambda loaded: 0)
        self.conditions = self.model.conditions
        return found

    def content(self, ask: Frozen, *more: object) -> str:
        """What names an answer."""
        assert self.conditions is not None, "begun before"
        return content_of(self.conditions, ask, *more)

    async def once(self, kind: str, content: str, make: Callable[[], Any]) -> Any:
        """What was kept, or what the coroutine of `make` gives, kept from now on; JSON."""
        found = await asyncio.to_thread(self.kept.find, kind, content)
        if found is None:
            found = await make()
            await asyncio.to_thread(self.kept.keep, kind, content, found)
        return found

    async def publish(self, answer: Callable[[], Frozen | None], *, now: bool = False) -> None:
        """Show what was found so far, not too often; it is put together on another thread."""
        begun = time.monotonic()
        if not now and begun - self.shown < max(PUBLISH_S, self.took / SHARE):
            return
        told = await asyncio.to_thread(lambda: None if (found := answer()) is None else found.model_dump(mode="json"))
        if told is not None:
            self.report.publish(told)
        self.shown, self.took = time.monotonic(), time.monotonic() - begun
