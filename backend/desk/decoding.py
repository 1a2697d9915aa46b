"""The decode loop of one model: who joins it, who leaves it, and what becomes of them. For the model's thread.

Everybody who writes shares one batch. When a step runs is the lane's to say; between two steps lines come and go.
"""

from typing import Any

from backend import errors
from backend.desk.answers import written
from backend.desk.lane import Ended, Outcome
from backend.desk.question import Work, Writing
from backend.models.decoding import Batch, Line, Next


class DecodeLoop:
    """What one model writes at once. It holds no model while nobody writes."""

    def __init__(self) -> None:
        self._batch: Batch | None = None
        self._writings: dict[Work, Writing] = {}

    @property
    def works(self) -> list[Work]:
        """Whatever is being written."""
        return list(self._writings)

    def begin(self, work: Work, writing: Writing) -> Outcome | None:
        """Let new lines join, up to their first token; its outcome when that was all.

        Raises what their own pass over the text raises: then they have not joined, and the others go on.
        """
        if not writing.lines:
            return written(writing.answer())
        loaded: Any = work.loaded
        batch = self._batch or Batch(loaded)
        found = batch.join(writing.lines, work.check)
        self._batch, self._writings[work] = batch, writing
        return self._take(work, found)

    def step(self) -> list[Ended]:
        """One token for everybody who is still wanted; whoever has come to an end.

        Raises what a step raises: then nobody goes on, and `clear` is due.
        """
        ended: list[Ended] = [(work, work.stopped()) for work in self.works if work.cancelled]
        for work, _ in ended:
            self._leave(work)
        if self._batch is None:
            return ended
        found = self._batch.step(self._check)
        for work in self.works:
            outcome = self._take(work, found)
            if outcome is not None:
                ended.append((work, outcome))
        return ended

    def clear(self) -> None:
        """Forget everything that is being written."""
        self._batch = None
        self._writings.clear()

    def _check(self) -> None:
        """Stop in the middle of a step that nobody waits for any more."""
        for work in self._writings:
            if not work.cancelled:
                return
        raise next(iter(self._writings)).stopped()

    def _take(self, work: Work, found: dict[Line, Next]) -> Outcome | None:
        """Hand a work the tokens of its lines; its outcome when it has come to an end."""
        writing = self._writings[work]
        lines = writing.lines
        for line in lines:
            told = found[line]
            if isinstance(told, errors.LmscopeError):
                self._leave(work, lines)
                return told
            writing.take(line, told)
        still = {id(line) for line in writing.lines}
        if not still:
            self._leave(work, lines)
            return written(writing.answer())
        self._part([line for line in lines if id(line) not in still])
        return None

    def _leave(self, work: Work, lines: list[Line] | None = None) -> None:
        """Take a work out, with all its lines or with these, some of which it may have ended."""
        writing = self._writings.pop(work)
        self._part(writing.lines if lines is None else lines)

    def _part(self, lines: list[Line]) -> None:
        if self._batch is not None and lines:
            self._batch.leave(lines)
        if not self._writings:
            self._batch = None
