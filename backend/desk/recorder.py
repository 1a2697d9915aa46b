"""The recorder: writes jobs to the store on a thread of its own, so that no loop and no work waits for a disk."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from backend import errors
from backend.desk.failures import log_broken
from backend.desk.running import Running
from backend.store import Jobs
from backend.store.jobs import UNFINISHED

log = logging.getLogger("lmscope.store")


class Recorder:
    """Writes the newest state of every job put to it; what cannot be written is tried again with the next one."""

    def __init__(self, table: Jobs | None, keep: Callable[[], int], stop: Callable[[str], None]) -> None:
        """`keep`: how many ended jobs are remembered. `stop`: told of jobs whose end was asked for elsewhere."""
        self._table, self._keep, self._stop = table, keep, stop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="job record")
        self._lock = Lock()
        self._unwritten: dict[str, Running] = {}
        self._next: Future[None] | None = None
        self._closed = self._in_trouble = False

    def put(self, running: Running) -> "Future[None]":
        """Have a job written as it stands then; the future ends when that was done or tried. Callable from any thread.

        Work that waits for the future is told of no trouble: it is logged, and asked for by `Store.check`.
        """
        with self._lock:
            if not self._closed and self._table is not None:
                self._unwritten[running.job.id] = running
                self._next = self._next or self._thread.submit(self._write)
            return self._next or done()

    def written(self) -> "Future[None]":
        """Ends when everything that was put was written or tried (again)."""
        with self._lock:
            return done() if self._closed else self._thread.submit(self._write)

    def close(self) -> None:
        """Write what is left, and end the thread."""
        with self._lock:
            if not self._closed:
                self._thread.submit(self._write)
            self._closed = True
        self._thread.shutdown(wait=True)

    def _write(self) -> None:
        with self._lock:
            self._next, waiting = None, tuple(self._unwritten.items())
        for id, running in waiting:
            with self._lock:
                del self._unwritten[id]
            if not self._wrote(running):
                with self._lock:
                    self._unwritten.setdefault(id, running)
                return

    def _wrote(self, running: Running) -> bool:
        """False when the store is in trouble and it has to be tried again."""
        assert self._table is not None
        stored = running.stored()
        try:
            asked_to_stop = self._table.write(stored)
            if stored.job.state not in UNFINISHED:
                self._table.forget_oldest(self._keep())
        except errors.StoreUnusable as error:
            if not self._in_trouble:
                log.error("jobs are not remembered", extra={"why": error.why, "instead": error.instead})
            self._in_trouble = True
            return False
        except Exception as failure:  # a job that cannot be written must not keep others from it
            log_broken(failure, f"recording the job {stored.job.kind}")
            return True
        self._in_trouble = False
        if asked_to_stop and not stored.stop:
            self._stop(stored.job.id)
        return True


def done() -> "Future[None]":
    """A future that has ended."""
    future: Future[None] = Future()
    future.set_result(None)
    return future
