"""Opening the database: made when it is not there, brought to this program's tables, or refused in words."""

import sqlite3
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from backend.store.jobs import Jobs
from backend.store.migrating import upgrade
from backend.store.notes import Notes
from backend.store.servers import Servers
from backend.store.tables import JobRow
from backend.store.trouble import told, unusable

FILE = "lmscope.db"
WAIT_S = 60.0
"""How long a start waits for another's; a migration of a large table takes a while."""
BUSY_MS = 10_000
IN_MEMORY: dict[str, Any] = {
    "poolclass": QueuePool, "pool_size": 1, "max_overflow": 0, "connect_args": {"check_same_thread": False},
}  # fmt: skip
"""A database in memory is its one connection, which goes from thread to thread."""
ADVISORY = 0x6C6D7363
"""The lock of starts in a PostgreSQL: a number of our own."""


@dataclass(frozen=True)
class Store:
    """What is remembered after a restart. Every method may be called from any thread, none from an event loop."""

    url: URL
    engine: Engine
    servers: Servers
    jobs: Jobs
    notes: Notes

    def check(self) -> None:
        """Raises `StoreUnusable` when the database is gone."""
        file = _file(self.url)
        if file is not None and not file.exists():
            raise unusable("its file is gone", "restart the server, which makes it anew", url=self.url)
        with told(self.url), self.engine.begin() as connection:
            connection.execute(select(JobRow.id).limit(1)).all()

    def close(self) -> None:
        """This server's end."""
        with told(self.url):
            try:
                self.servers.leave()
            finally:
                self.engine.dispose()


def open_store(url: str | None, cache_dir: Path) -> Store:
    """The database at `url`, by default a SQLite file in the cache folder; `sqlite://` is one in memory.

    Raises `StoreUnusable`. Starts go one at a time, so that two servers may be started at once.
    """
    place = _parsed(url or f"sqlite:///{(Path(cache_dir) / FILE).absolute().as_posix()}")
    file = _file(place)
    with told(place):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        with _start_lock(file, place):
            engine = _engine(place)
            try:
                return _entered(
                    place, engine, Servers(engine, None if file is None else file.with_name(f"{file.name}.servers"))
                )
            except BaseException:
                engine.dispose()
                raise


def _entered(url: URL, engine: Engine, servers: Servers) -> Store:
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY})"))
        upgrade(connection, url)
        servers.bury(connection)
        servers.enter(connection)
    servers.live_on()
    return Store(url, engine, servers, Jobs(engine, url, servers.id), Notes(engine, url))


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # the address itself is not repeated: it may hold a password
        why = "LMSCOPE_DATABASE_URL is no address of a database"
        raise unusable(why, "write it as sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/NAME") from None


def _file(url: URL) -> Path | None:
    """The SQLite file; None for a database in memory or elsewhere."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    file = Path(url.database.removeprefix("file:")).absolute()
    if file.is_dir():
        raise unusable(f"{file} is a folder", "name a file in it", url=url)
    return file


def _start_lock(file: Path | None, url: URL) -> "FileLock | nullcontext[None]":
    if file is None:
        return nullcontext()
    lock = FileLock(file.with_name(f"{file.name}.lock"))
    try:
        lock.acquire(timeout=WAIT_S)
    except Timeout:
        why = f"another server has been opening it for {WAIT_S:.0f} s"
        raise unusable(why, "wait for that one, or end it", url=url) from None
    return lock


def _engine(url: URL) -> Engine:
    in_memory = url.get_backend_name() == "sqlite" and _file(url) is None
    try:
        engine = create_engine(url, **(IN_MEMORY if in_memory else {"pool_pre_ping": True}))
    except NoSuchModuleError:
        raise unusable(
            f"there is no kind of database {url.drivername!r}", "use sqlite or postgresql", url=url
        ) from None
    except ModuleNotFoundError as error:
        instead = f"install it beside LMScope: pip install {error.name} (for PostgreSQL: 'psycopg[binary]', with an "
        instead += "address that begins postgresql+psycopg://)"
        raise unusable(f"its driver {error.name} is not installed", instead, url=url) from None
    if engine.dialect.is_async:
        raise unusable(f"{url.drivername} is an asynchronous driver", "use sqlite:// or postgresql+psycopg://", url=url)
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine, in_memory)
    return engine


def _prepare_sqlite(engine: Engine, in_memory: bool) -> None:
    """Readers beside a writer, waiting instead of failing, and transactions that are whole even for new tables."""

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # sqlite3 would begin late, and not for new tables
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        if not in_memory:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
