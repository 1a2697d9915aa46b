"""One model, asked batch by batch from the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import uuid4

from backend import errors
from backend.desk.desk import Desk
from backend.desk.question import Cancel, Question, Writing
from backend.schema import Conditions

T = TypeVar("T")
Writes = TypeVar("Writes", bound=Writing)
AGAIN_S = 0.5
"""Pause before a batch that was turned away is asked again."""


def no_word() -> None:
    """For whom nobody waits."""


class OnModel:
    """Asks one model; each call is a question of its own, and waits for its turn among all tabs."""

    def __init__(self, desk: Desk, model: str, revision: str | None, instrument: str) -> None:
        self._desk, self._model, self._revision, self._instrument = desk, model, revision, instrument
        self._tab = f"study {uuid4().hex}"
        self._conditions: Conditions | None = None

    async def ask(self, answer: Callable[[Any, Cancel], T], cost: Callable[[Any], int]) -> T:
        """What `answer` gives on the model's thread. Raises as `Desk.ask`, and `Lost` when the model is another now."""
        found: list[T] = []

        def keep(loaded: Any, cancel: Cancel) -> None:
            self._check(loaded.conditions)
            found[:] = [answer(loaded, cancel)]

        question = Question(self._instrument, uuid4().hex, keep, cost, of_job=True)
        await self._desk.ask(self._model, self._revision, question, tab=self._tab)
        return found[0]

    async def patiently(
        self, answer: Callable[[Any, Cancel], T], cost: Callable[[Any], int], waiting: Callable[[], None] = no_word
    ) -> T:
        """The same, asked again for as long as the model is only busy or being loaded; `waiting` is told."""
        return await _patiently(lambda: self.ask(answer, cost), waiting)

    async def write(
        self,
        begin: Callable[[Any], Writes],
        cost: Callable[[Any], int],
        rows: int,
        waiting: Callable[[], None] = no_word,
    ) -> Writes:
        """What `begin` gives on the model's thread, once it is written: its lines go into the batch that everybody's
        continuations share. Asked again as `patiently`, from its first token.
        """  # fmt: skip

        async def once() -> Writes:
            found: list[Writes] = []

            def keep(loaded: Any, cancel: Cancel) -> Writing:
                self._check(loaded.conditions)
                found[:] = [begin(loaded)]
                return found[0]

            question = Question(self._instrument, uuid4().hex, keep, cost, rows, of_job=True)
            await self._desk.ask(self._model, self._revision, question, tab=f"{self._tab} {uuid4().hex}")
            return found[0]

        return await _patiently(once, waiting)

    @property
    def conditions(self) -> Conditions:
        """Under which it was asked so far."""
        assert self._conditions is not None, "nothing was asked yet"
        return self._conditions

    def _check(self, conditions: Conditions) -> None:
        if self._conditions is None:
            self._conditions = conditions
        elif conditions != self._conditions:
            names = ", ".join(self._conditions.differences(conditions))
            raise errors.Lost(
                "The model was exchanged in the middle of the study",
                f"it was opened again and differs in {names}, so its numbers cannot stand beside the earlier ones",
                "Start it again.",
            )


async def _patiently(ask: Callable[[], Awaitable[T]], waiting: Callable[[], None]) -> T:
    while True:
        try:
            return await ask()
        except (errors.Busy, errors.Waited, errors.Loading):
            waiting()
            await asyncio.sleep(AGAIN_S)
