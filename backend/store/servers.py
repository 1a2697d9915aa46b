"""Which servers live: told by locks beside a database file, by heartbeats in a database that machines share."""

import os
import platform
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from backend.store.tables import ServerRow

BEAT_S = 10.0
DEAD_AFTER_S = 60.0
"""A server that has not said for so long that it lives is taken for dead."""


class Servers:
    """This server among those that share the database; entered at the start, left at the end."""

    def __init__(self, engine: Engine, locks: Path | None) -> None:
        """`locks`: folder beside the database file; None where heartbeats tell."""
        self.id = uuid4().hex
        self._engine, self._locks = engine, locks
        # not bound to a thread: taken at the start and let go of at the end, by whichever thread
        self._lock = None if locks is None else FileLock(locks / self.id, thread_local=False)
        self._left = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="store beat", daemon=True)

    def enter(self, connection: Connection) -> None:
        """Make this server known; nobody takes its jobs from now on."""
        if self._lock is not None:
            Path(self._lock.lock_file).parent.mkdir(exist_ok=True)
            self._lock.acquire(timeout=0)
        connection.execute(insert(ServerRow).values(self._row()))

    def live_on(self) -> None:
        """Begin to say that it lives, where no lock tells."""
        if self._lock is None and self._engine.dialect.name != "sqlite":
            self._beating.start()

    def bury(self, connection: Connection) -> None:
        """Forget every server that has died. Its jobs then belong to nobody."""
        others = select(ServerRow.id, ServerRow.beat).where(ServerRow.id != self.id)
        for id, beat in connection.execute(others).all():
            if self._died(id, beat):
                connection.execute(delete(ServerRow).where(ServerRow.id == id))

    def leave(self) -> None:
        """Its end; whatever it did not finish belongs to nobody."""
        self._left.set()
        if self._beating.is_alive():
            self._beating.join()
        try:
            with self._engine.begin() as connection:
                connection.execute(delete(ServerRow).where(ServerRow.id == self.id))
        finally:
            if self._lock is not None:
                self._lock.release()
                Path(self._lock.lock_file).unlink(missing_ok=True)

    def _died(self, id: str, beat: float) -> bool:
        if self._locks is None:
            return time.time() - beat > DEAD_AFTER_S
        self._locks.mkdir(exist_ok=True)
        lock = FileLock(self._locks / id)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return False
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)
        return True

    def _row(self) -> dict[str, Any]:
        now = time.time()
        return {"id": self.id, "host": platform.node(), "pid": os.getpid(), "began": now, "beat": now}

    def _say_alive(self) -> None:
        with self._engine.begin() as connection:
            mine = update(ServerRow).where(ServerRow.id == self.id).values(beat=time.time())
            if not connection.execute(mine).rowcount:  # it slept for so long that it was taken for dead
                connection.execute(insert(ServerRow).values(self._row()))

    def _beat(self) -> None:
        while not self._left.wait(BEAT_S):
            try:
                self._say_alive()
            except SQLAlchemyError:
                continue  # the next write of a job says what is wrong
