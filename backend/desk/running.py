"""One job while it runs: written by its thread, read by the loop and by whoever records it."""

import asyncio
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

from backend import errors
from backend.schema import Job
from backend.schema.job import JobState
from backend.store import StoredJob

Result = dict[str, Any] | None

TELL_S = 0.2
"""Watchers hear of progress at most this often."""
RECORD_S = 1.0
"""Progress is recorded at most this often."""
ETA_AFTER_S = 0.5
"""No time left is told before a stage has run this long."""


class Report(Protocol):
    """How a job tells what it does: a `Progress` that can also publish what was found so far."""

    def __call__(self, what: str, done: float, total: float | None, unit: str) -> None:
        """Where it stands. Raises `Cancelled` when the job shall end."""

    def publish(self, partial: dict[str, Any]) -> None:
        """A part of the result, as JSON, in the place of the part before. Raises `Cancelled` when the job shall end."""

    def check(self) -> None:
        """Raises `Cancelled` when the job shall end."""


class Running:
    """One job's state."""

    def __init__(self, stored: StoredJob, share: str, loop: asyncio.AbstractEventLoop) -> None:
        self.lock = Lock()
        self.share = share
        self.job, self.request, self.resumed = stored.job, stored.request, stored.resumed
        self.final: Job | None = None
        self.passing = False
        """Whether another job needed it, and nobody else asked for it."""
        self.cancelled = stored.stop
        self.error: errors.LmscopeError | None = None
        self.ended: asyncio.Future[None] = loop.create_future()
        self.stage: tuple[str, float | None, str] | None = None
        self.stage_began = self.told = self.recorded = 0.0
        self.stage_done = self.stage_newest = 0.0
        """Of the stage: what was done when it began, and last."""

    def stored(self) -> StoredJob:
        """What is to be remembered now; its end already before anybody is told of it."""
        with self.lock:
            return StoredJob(self.final or self.job, self.request, self.resumed, self.cancelled)

    def update(self, **changes: Any) -> None:
        """Put the job with changes, a new value, in the place of the old one."""
        with self.lock:
            self.job = self.job.model_copy(update={**changes, "updated": time.time()})

    def begin(self) -> bool:
        """Go from queued to running, unless it was cancelled before."""
        with self.lock:
            if not self.cancelled:
                self.job = self.job.model_copy(update={"state": "running", "updated": time.time()})
            return not self.cancelled

    def cancel(self) -> bool:
        """Mark as cancelled; True when it has not begun and never will."""
        with self.lock:
            self.cancelled = True
            return self.job.state == "queued"

    def end(self, state: JobState, result: Result, error: errors.LmscopeError | None) -> None:
        """Settle how it ends; `tell_end` makes that known. What was found so far stays, unless the result is there."""
        with self.lock:
            self.error = error
            changes = {
                "state": state, "result": result, "problem": None if error is None else error.problem(), "eta_s": None,
                "done": self.job.done if state != "done" or self.job.total is None else self.job.total,
                "partial": None if state == "done" else self.job.partial, "updated": time.time(),
            }  # fmt: skip
            self.final = self.job.model_copy(update=changes)

    def tell_end(self) -> None:
        """Show the end to everybody. Belongs to the event loop."""
        with self.lock:
            self.job = self.final or self.job
        self.ended.set_result(None)

    def eta(self, what: str, done: float, total: float | None, unit: str) -> float | None:
        """Seconds left of this stage, from how fast it has gone so far."""
        now = time.monotonic()
        if self.stage != (what, total, unit) or done < self.stage_newest:  # it begins, or begins again
            self.stage, self.stage_began, self.stage_done = (what, total, unit), now, done
        self.stage_newest = done
        went, passed = done - self.stage_done, now - self.stage_began
        if total is None or went <= 0 or passed < ETA_AFTER_S:
            return None
        return max(total - done, 0.0) * passed / went


class Reporting:
    """The `Report` of one job."""

    def __init__(self, running: Running, tell: Callable[[], None], record: Callable[[], object]) -> None:
        self._running, self._tell, self._record = running, tell, record

    def __call__(self, what: str, done: float, total: float | None, unit: str) -> None:
        """Where it stands."""
        self.check()
        eta_s = self._running.eta(what, done, total, unit)
        self._changed(what=what, done=done, total=total, unit=unit, eta_s=eta_s)

    def publish(self, partial: dict[str, Any]) -> None:
        """What was found so far."""
        self.check()
        self._changed(partial=partial)

    def check(self) -> None:
        """Whether it may go on."""
        if self._running.cancelled:
            raise errors.Cancelled("This job was stopped", "somebody asked for it", "Start it again")

    def _changed(self, **changes: Any) -> None:
        running, moment = self._running, time.monotonic()
        running.update(**changes)
        if moment - running.told >= TELL_S:
            running.told = moment
            self._tell()
        if moment - running.recorded >= RECORD_S:
            running.recorded = moment
            self._record()
