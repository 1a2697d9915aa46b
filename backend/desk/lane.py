"""A lane: the queue and the one thread of one loaded model. Tabs take turns, so do questions and steps of writing."""

import asyncio
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from backend import errors
from backend.desk.question import Work

Outcome = bytes | errors.LmscopeError
Ended = tuple[Work, Outcome]
STEP = "step"
"""What the thread is given when what is written shall go one token further."""


class Worker(Protocol):
    """What is done on the model's thread. Never raises."""

    def answer(self, work: Work) -> Outcome | None:
        """The outcome of a work; None: it is written from now on, step by step."""

    def step(self) -> list[Ended]:
        """One step of everything that is written; what has come to its end."""


class Lane:
    """Everything but the work itself happens on the event loop, so nothing here needs a lock.

    The lane holds no reference to its model between works. When the model is gone, so is the thread.
    """

    def __init__(
        self,
        loaded: Any,
        worker: Worker,
        ended: Callable[[Work, Outcome], None],
        changed: Callable[[], None],
        rows: int,
    ) -> None:
        """`rows`: how many the model may write at once."""
        self._loop = asyncio.get_running_loop()
        self._worker, self._ended, self._changed, self._rows = worker, ended, changed, rows
        self._tabs: OrderedDict[str, deque[Work]] = OrderedDict()
        """Waiting work of each tab; the first tab is next."""
        self.written: list[Work] = []
        """What the model writes now, one token further at every step."""
        self._busy = self._asked_last = False
        self._inbox: SimpleQueue[Work | str | None] = SimpleQueue()
        self._model = weakref.ref(loaded)
        weakref.finalize(loaded, self._inbox.put, None).atexit = False
        name = f"model {loaded.conditions.model}"
        self.thread = Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def serves(self, loaded: Any) -> bool:
        """Whether it is this model's lane."""
        return self._model() is loaded

    @property
    def gone(self) -> bool:
        """Whether the model was unloaded."""
        return self._model() is None

    def __len__(self) -> int:
        """How many works wait."""
        return sum(map(len, self._tabs.values()))

    def put(self, work: Work) -> None:
        """Let work wait for its turn."""
        self._tabs.setdefault(work.tab, deque()).append(work)
        self._advance()
        self._changed()

    def drop(self, work: Work) -> None:
        """Take waiting work out."""
        queue = self._tabs.get(work.tab)
        if queue is not None and work in queue:
            queue.remove(work)
            if not queue:
                del self._tabs[work.tab]

    def waiting(self) -> Iterator[Work]:
        """Waiting work in the order in which it will run if nothing else comes: one of each tab in turn."""
        turns = [list(queue) for queue in self._tabs.values()]
        for turn in range(max(map(len, turns), default=0)):
            yield from (queue[turn] for queue in turns if turn < len(queue))

    def close(self) -> None:
        """End the thread after the work that it runs; what is being written, and nobody waits for, goes with a step."""
        self._tabs.clear()
        if self.written:
            self._inbox.put(STEP)
        self._inbox.put(None)

    def _advance(self) -> None:
        """Give an idle thread its next work: one question, one step of what is written, and so on in turn."""
        if self._busy:
            return
        work = None if self.written and self._asked_last else self._next()
        self._asked_last = work is not None
        if work is not None:
            work.running = True
            self._changed()
        if work is not None or self.written:
            self._busy = True
            self._inbox.put(work or STEP)

    def _next(self) -> Work | None:
        """Take out the next work that can begin. What is to be written waits for room, and nothing is written before
        what came earlier; other questions need not wait for that.
        """
        room = self._rows - sum(work.question.rows for work in self.written)
        for tab, queue in self._tabs.items():
            for work in queue:
                if work.question.rows <= room:
                    self.drop(work)
                    if tab in self._tabs:
                        self._tabs.move_to_end(tab)
                    return work
                room = 0
        return None

    def _done(self, work: Work, outcome: Outcome | None) -> None:
        self._busy = False
        if outcome is None:
            self.written.append(work)
        else:
            self._ended(work, outcome)
        self._changed()
        self._advance()

    def _stepped(self, ended: list[Ended]) -> None:
        self._busy = False
        for work, outcome in ended:
            self.written.remove(work)
            self._ended(work, outcome)
        if ended:
            self._changed()
        self._advance()

    def _work(self) -> None:
        while (work := self._inbox.get()) is not None:
            if isinstance(work, Work):
                tell = partial(self._done, work, self._worker.answer(work))
            else:
                tell = partial(self._stepped, self._worker.step())
            try:
                self._loop.call_soon_threadsafe(tell)
            except RuntimeError:  # the loop is closed, and nobody listens any more
                return
            del work, tell  # an idle thread must not keep a model alive
