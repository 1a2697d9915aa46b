"""What a model's thread does with one question: price it, answer it, and survive running out of memory."""

import re

from pydantic import BaseModel

from backend import errors
from backend.desk.answers import written
from backend.desk.decoding import DecodeLoop
from backend.desk.failures import as_refusal
from backend.desk.lane import Ended, Outcome
from backend.desk.memory import Memory, ran_out, too_little
from backend.desk.question import Work
from backend.models.memory import give_back


class Answering:
    """The work of one lane, on its thread. Never raises."""

    def __init__(self, memory: Memory, wait_s: float) -> None:
        self._memory, self._wait_s = memory, wait_s
        self._written = DecodeLoop()

    def answer(self, work: Work) -> Outcome | None:
        """The answer's JSON, or the error that the callers get; None: it goes on step by step."""
        try:
            outcome = self._priced(work)
        except Exception as error:
            if not ran_out(error):
                return self._over(work, as_refusal(error, f"answering a question of {work.question.instrument}"))
            asked_for = _asked_for(error)
        else:
            return None if outcome is None else self._over(work, outcome)
        # Outside `except`: its traceback would keep the tensors that have to go.
        return self._over(work, self._make_room(work, asked_for))

    def step(self) -> list[Ended]:
        """One token of everything that is written; what has come to its end."""
        try:
            ended = self._written.step()
        except Exception as error:
            if not ran_out(error):
                return self._all_over(as_refusal(error, "a step of writing"))
            asked_for = _asked_for(error)
        else:
            return [(work, self._over(work, outcome)) for work, outcome in ended]
        works = self._written.works
        self._written.clear()
        return self._all_over(self._make_room(works[0], asked_for), works)

    def _all_over(self, error: errors.LmscopeError, works: list[Work] | None = None) -> list[Ended]:
        """Nothing that was being written goes on."""
        works = self._written.works if works is None else works
        self._written.clear()
        return [(work, self._over(work, error)) for work in works]

    def _priced(self, work: Work) -> Outcome | None:
        work.check()
        work.needed = work.question.cost(work.loaded)
        device = work.loaded.conditions.device
        # What is being written gives its memory back on this very thread: there is nothing to wait for.
        wait_s = 0.0 if self._written.works else self._wait_s
        self._memory.reserve(device, work.needed, wait_s, work.check)
        work.reserved = work.needed
        answer = work.question.answer(work.loaded, work.check)
        if answer is None or isinstance(answer, BaseModel):
            return written(answer)
        outcome = self._written.begin(work, answer)
        if outcome is None:
            self._give_back(work, max(work.reserved - answer.bytes, 0))
        return outcome

    def _over(self, work: Work, outcome: Outcome) -> Outcome:
        """Give back what the work had spoken for."""
        self._give_back(work, work.reserved)
        return outcome

    def _give_back(self, work: Work, bytes: int) -> None:
        self._memory.give_back(work.loaded.conditions.device, bytes)
        work.reserved -= bytes

    def _make_room(self, work: Work, asked_for: int) -> errors.OutOfMemory:
        work.loaded.kept.clear()
        give_back()
        return too_little(max(asked_for, work.needed), self._memory.free(work.loaded.conditions.device))


def _asked_for(error: Exception) -> int:
    """Bytes of the allocation that failed, where torch says them."""
    found = re.search(r"tried to allocate (\d+) bytes", str(error))
    return int(found[1]) if found else 0
