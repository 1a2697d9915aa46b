"""Jobs: long work with progress, time left, a result and an end that can be asked for, remembered over a restart.

The work runs on threads of this server; the store is told of every change of state, and of progress once a second. An
end is recorded before anybody is told of it, so that what was seen as done is done after a kill, too.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from backend import errors
from backend.desk.failures import again, as_refusal
from backend.desk.recorder import Recorder, done
from backend.desk.running import Report, Reporting, Result, Running
from backend.schema import Job
from backend.schema.job import JobState
from backend.store import Jobs as Table
from backend.store import StoredJob
from backend.store.jobs import UNFINISHED

Long = Callable[[Report], Result]
"""Runs on a job thread, reports its progress, and stops when that raises."""
Ending = tuple[JobState, Result, errors.LmscopeError | None]

THREADS = 2
WAITING_THREADS = 16
"""For jobs that only wait for their questions at a model's lane: they must not keep a model from being loaded."""
ENDED_KEPT = 100
"""How many ended jobs are remembered."""
PASSING_KEPT = 4
"""How many of those that another job needed."""
ENDED_SHOWN_S = 30.0
"""How long tabs are told of a job that has ended."""
UNFINISHED_MOST = 32
RESUMED_MOST = 1
"""A job whose server died so often after it was taken up may be what kills it, and is not tried again."""


class Work(NamedTuple):
    """What a job does."""

    what: str
    """In words, until it says more."""
    run: Long
    share: str = ""
    """What is equal for two jobs that do the same."""
    waits: bool = False
    """It only waits: its work is done on other threads."""


Again = Callable[[dict[str, Any]], Awaitable[Work]]
"""Makes the work of a job anew from what was asked. May refuse, as when it was asked first."""


class Jobs:
    """All jobs of this server. Its methods belong to the event loop; the work runs on threads of its own."""

    def __init__(self, changed: Callable[[], None] = lambda: None, table: Table | None = None) -> None:
        """`table` None: nothing is remembered after a restart."""
        self._loop = asyncio.get_running_loop()
        self._changed, self._table = changed, table
        self._threads = {
            False: ThreadPoolExecutor(THREADS, thread_name_prefix="job"),
            True: ThreadPoolExecutor(WAITING_THREADS, thread_name_prefix="waiting job"),
        }
        """By whether their jobs only wait."""
        self._recorder = Recorder(table, lambda: ENDED_KEPT, partial(self._on_loop, self._asked_elsewhere))
        self._jobs: dict[str, Running] = {}
        self._closing = False

    def all(self) -> tuple[Job, ...]:
        """Every job of this server that is remembered, the newest first."""
        return tuple(running.job for running in reversed(self._jobs.values()))

    async def listed(self) -> tuple[Job, ...]:
        """Every job that is remembered, of all servers of the store and from before their start, the newest first."""
        table = self._table
        if table is None:
            return self.all()
        stored = await asyncio.to_thread(table.newest, ENDED_KEPT + UNFINISHED_MOST)
        jobs = {each.job.id: each.job for each in stored} | {job.id: job for job in self.all()}
        return tuple(sorted(jobs.values(), key=lambda job: job.created, reverse=True))

    def current(self) -> tuple[Job, ...]:
        """The jobs that have not ended, and those that ended just now."""
        since = time.time() - ENDED_SHOWN_S
        return tuple(job for job in self.all() if job.state in UNFINISHED or job.updated > since)

    def get(self, id: str) -> Job:
        """One job of this server. Raises `UnknownJob`."""
        return self._find(id).job

    async def find(self, id: str) -> Job:
        """One job, of whichever server and from before whichever start. Raises `UnknownJob`."""
        if id in self._jobs or self._table is None:
            return self.get(id)
        stored = await asyncio.to_thread(self._table.get, id)
        return self.get(id) if stored is None else stored.job

    async def done(self, kind: str, asked: Mapping[str, Any]) -> AsyncIterator[Job]:
        """Jobs of a kind that are done and whose request holds what is in `asked`, the newest first."""
        table = self._table
        if table is None:
            known = tuple((id, each.request) for id, each in reversed(self._jobs.items()) if each.job.kind == kind)
        else:
            known = await asyncio.to_thread(table.done, kind)
        for id, request in known:
            if asked.items() <= request.items():
                with suppress(errors.UnknownJob):  # forgotten meanwhile
                    job = await self.find(id)
                    if job.state == "done":
                        yield job

    def shared(self, share: str) -> Job | None:
        """The unfinished job of a `share`."""
        for running in self._jobs.values():
            if running.share == share and not running.ended.done() and not running.cancelled:
                return running.job
        return None

    def start(
        self, kind: str, what: str, work: Long, *, share: str = "", owner: str = "",
        request: dict[str, Any] | None = None, waits: bool = False, passing: bool = False,
    ) -> Job:  # fmt: skip
        """Queue work as a job; an unfinished job of the same `share` is returned instead of a second one.

        `owner`: the tab that asks. `request`: what was asked, as JSON; kinds that can be resumed start again from it.
        `waits`: the work is done on other threads, such as a model's. `passing`: another job needs it, and asks for it
        again after a kill; it is not recorded, and forgotten soon after its end, so that it takes nobody's place.
        """
        if share and (shared := self.shared(share)) is not None:
            if not passing:
                self._remember(shared.id)
            return shared
        unfinished = sum(not running.ended.done() for running in self._jobs.values())
        if unfinished >= UNFINISHED_MOST:
            raise errors.Busy(
                "Too many jobs are waiting", f"{unfinished} are not finished, and {UNFINISHED_MOST} are allowed",
                "Wait for one to end, or cancel one", needed=unfinished + 1, available=UNFINISHED_MOST,
            )  # fmt: skip
        now = time.time()
        job = Job(id=uuid4().hex, kind=kind, owner=owner, state="queued", what=what, created=now, updated=now)
        running = Running(StoredJob(job, request or {}), share, self._loop)
        running.passing = passing
        return self._launch(running, work, waits)

    async def recorded(self) -> None:
        """Wait until the store was told of everything up to now."""
        await asyncio.wrap_future(self._recorder.written())

    async def take_up(self, kinds: Mapping[str, Again]) -> None:
        """Go on with what servers that died have left, if its kind says how; what cannot go on is `lost`."""
        if self._table is None:
            return
        for left in await asyncio.to_thread(self._table.take_up):
            running = Running(left, "", self._loop)
            try:
                work = await self._again(left, kinds.get(left.job.kind))
            except errors.Lost as error:
                self._end_left(running, "lost", error)
            except errors.Cancelled as error:
                self._end_left(running, "cancelled", error)
            except Exception as failure:
                self._end_left(running, "failed", as_refusal(failure, f"resuming the job {left.job.kind}"))
            else:
                running.share = work.share
                running.update(state="queued", what=work.what, done=0.0, total=None, unit="", eta_s=None, partial=None)
                self._launch(running, work.run, work.waits)

    def cancel(self, id: str) -> Job:
        """Ask a job of this server to stop: at once while it is queued, else at its next step."""
        running = self._find(id)
        if running.ended.done():
            return running.job
        if running.cancel():
            running.end("cancelled", None, self._stopped())
            self._end(running)
        self._record(running)
        return running.job

    async def stop(self, id: str) -> Job:
        """Ask a job of whichever server to stop; its wish outlives a kill. Raises `UnknownJob`."""
        job = await self.find(id)
        if id in self._jobs:
            job = self.cancel(id)
            await self.recorded()
        elif job.state in UNFINISHED and self._table is not None:
            await asyncio.to_thread(self._table.ask_to_stop, id)
        return job

    async def ended(self, id: str) -> Job:
        """Wait until a job has ended, however it ended."""
        running = self._find(id)
        await asyncio.shield(running.ended)
        return running.job

    def raise_for(self, id: str) -> None:
        """Raise what made a job fail, if it failed."""
        error = self._find(id).error
        if error is not None:
            raise again(error)

    async def close(self) -> None:
        """Stop every job, wait for the threads, and record how each ended."""
        self._closing = True
        for id in tuple(self._jobs):
            self.cancel(id)
        for threads in self._threads.values():
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)
        await asyncio.to_thread(self._recorder.close)

    def _launch(self, running: Running, work: Long, waits: bool) -> Job:
        self._jobs[running.job.id] = running
        self._record(running)
        self._threads[waits].submit(self._run, running, work)
        self._changed()
        return running.job

    def _run(self, running: Running, work: Long) -> None:
        if not running.begin():
            return
        self._record(running)
        self._on_loop(self._changed)
        report = Reporting(running, partial(self._on_loop, self._changed), partial(self._record, running))
        try:
            ending: Ending = "done", work(report), None
        except errors.Cancelled:
            ending = "cancelled", None, self._stopped()
        except Exception as failure:
            ending = "failed", None, as_refusal(failure, f"the job {running.job.kind}")
        running.end(*ending)
        self._record(running).result()
        self._on_loop(self._end, running)

    def _record(self, running: Running) -> Future[None]:
        """Have it written, if it is to be remembered."""
        if running.passing:
            return done()
        return self._recorder.put(running)

    def _remember(self, id: str) -> None:
        """Somebody asked for a passing job by itself."""
        running = self._jobs[id]
        if running.passing:
            running.passing = False
            self._record(running)

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _end(self, running: Running) -> None:
        if running.ended.done():
            return
        running.tell_end()
        self._forget_oldest()
        self._changed()

    def _asked_elsewhere(self, id: str) -> None:
        if id in self._jobs:
            self.cancel(id)

    async def _again(self, left: StoredJob, again: Again | None) -> Work:
        """The work of a job whose server died. Raises `Lost`, `Cancelled`, or why it is refused now."""
        if left.stop:
            raise self._stopped()
        if again is None:
            raise _lost("jobs of this kind cannot go on from the middle", "Start it again")
        if left.resumed > RESUMED_MOST:
            times = f"its server died {left.resumed} times while it ran, perhaps because of it"
            raise _lost(times, "See why the server ended, for instance for want of memory, before you start it again")
        work = await again(left.request)
        if work.share and (same := self.shared(work.share)) is not None:
            raise _lost("another job does the same", f"Watch the job {same.id}")
        return work

    def _end_left(self, running: Running, state: JobState, error: errors.LmscopeError) -> None:
        self._jobs[running.job.id] = running
        running.end(state, None, error)
        self._recorder.put(running)
        self._end(running)

    def _stopped(self) -> errors.Cancelled:
        why = "the server was stopped" if self._closing else "somebody asked for it"
        return errors.Cancelled("This job was stopped", why, "Start it again")

    def _find(self, id: str) -> Running:
        if id not in self._jobs:
            raise errors.UnknownJob("There is no such job", "it never existed, or ended long ago", "Start it again")
        return self._jobs[id]

    def _forget_oldest(self) -> None:
        ended = [id for id, running in self._jobs.items() if running.ended.done()]
        passing = [id for id in ended if self._jobs[id].passing]
        ended = [id for id in ended if not self._jobs[id].passing]
        for id in (*ended[: max(len(ended) - ENDED_KEPT, 0)], *passing[: max(len(passing) - PASSING_KEPT, 0)]):
            del self._jobs[id]


def shown(job: Job, tab: str) -> Job:
    """A job as a tab may see it: another tab's name is nobody's business, for it stops that tab's questions."""
    return job if job.owner in ("", tab) else job.model_copy(update={"owner": "another"})


def _lost(why: str, instead: str) -> errors.Lost:
    return errors.Lost("This job was lost when its server died", why, instead)
