"""The database is made, brought up to date, shared and refused as it should be; what is written is what is read."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from filelock import FileLock
from hypothesis import HealthCheck, given
from hypothesis import settings as tuned
from hypothesis import strategies as st
from sqlalchemy import create_engine, inspect, text

from backend import errors
from backend.schema import Job, Problem
from backend.store import Store, StoredJob, open_store, opening, servers
from backend.store.migrating import config, upgrade
from backend.store.tables import Table
from backend.store.trouble import told

Open = Callable[[], Store]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Servers that share one database."""
    stores: list[Store] = []

    def one() -> Store:
        stores.append(open_store(None, tmp_path))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


def job(id: str = "a", state: str = "running", created: float = 1.0, **more: object) -> Job:
    known = {"kind": "test", "what": "counting", "updated": created}
    return Job.model_validate(known | {"id": id, "state": state, "created": created} | more)


def kill(store: Store) -> None:
    """What the system does to a server that is killed: its lock goes, and nothing else happens."""
    assert store.servers._lock is not None
    store.servers._lock.release()


def test_tables_and_migrations_agree() -> None:
    with create_engine("sqlite://").connect() as connection:
        upgrade(connection, connection.engine.url)
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []


def test_every_migration_goes_back_and_forth() -> None:
    with create_engine("sqlite://").connect() as connection:
        upgrade(connection, connection.engine.url)
        command.downgrade(config(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
        upgrade(connection, connection.engine.url)
        inspect(connection).clear_cache()
        assert set(inspect(connection).get_table_names()) == {*Table.metadata.tables, "alembic_version"}


def test_migrations_are_installed_with_the_package() -> None:
    import tomllib

    root = Path(__file__).resolve().parents[2]
    kept = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]["backend"]
    place = root / "backend" / "store" / "migrations"
    others = [path for path in place.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert others
    assert all(any(path.relative_to(root / "backend").match(pattern) for pattern in kept) for path in others)
    assert all((folder / "__init__.py").is_file() for folder in (place, place / "versions"))


def test_it_lies_in_the_cache_folder_and_lets_others_read_while_it_writes(tmp_path: Path) -> None:
    store = open_store(None, tmp_path / "cache")
    with store.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert int(connection.execute(text("PRAGMA busy_timeout")).scalar() or 0) >= 5000
    store.jobs.write(StoredJob(job()))
    store.close()
    assert (tmp_path / "cache" / "lmscope.db").is_file()
    again = open_store(None, tmp_path / "cache")
    assert again.jobs.get("a") == StoredJob(job())
    again.close()


TOGETHER = """
import sys
from pathlib import Path
from backend.schema import Job
from backend.store import StoredJob, open_store
print("here", flush=True)
sys.stdin.readline()
store = open_store(None, Path(sys.argv[1]))
store.jobs.write(StoredJob(Job(id=sys.argv[2], kind="test", state="done", what="", created=1, updated=1)))
print(len(store.jobs.newest(9)), flush=True)
sys.stdin.readline()
store.close()
"""


def test_two_processes_that_start_at_once_make_one_database(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", TOGETHER, str(tmp_path)]
    both = [
        subprocess.Popen([*command, id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for id in ("a", "b")
    ]
    for words in ("here", "12"):
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline().strip() in (words, *words)
        for process in both:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
    for process in both:
        process.communicate()
    assert [process.returncode for process in both] == [0, 0]
    store = open_store(None, tmp_path)
    assert {stored.job.id for stored in store.jobs.newest(9)} == {"a", "b"}
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT id FROM servers")).scalars().all() == [store.servers.id]
    store.close()


def test_starts_go_one_at_a_time_and_one_that_waits_too_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WAIT_S", 0.01)
    with FileLock(tmp_path / "lmscope.db.lock"):
        assert "another server" in refused(None, tmp_path).why
    assert not (tmp_path / "lmscope.db").exists()
    open_store(None, tmp_path).close()


def test_a_migration_that_breaks_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(servers.Servers, "bury", broken)  # after the tables, before the end of the transaction
        with pytest.raises(KeyboardInterrupt):
            open_store(None, tmp_path)
    bare = create_engine(f"sqlite:///{tmp_path}/lmscope.db")
    assert inspect(bare).get_table_names() == []
    bare.dispose()
    open_store(None, tmp_path).close()


def refused(url: str | None, place: Path) -> errors.StoreUnusable:
    with pytest.raises(errors.StoreUnusable) as caught:
        open_store(url, place)
    error = caught.value
    assert all((error.what, error.why, error.instead))
    assert (error.type, error.status) == ("store-unusable", 503)
    return error


def test_a_newer_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = open_store(None, tmp_path)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    error = refused(None, tmp_path)
    assert "newer" in error.why
    assert "9999" in error.why
    assert "update LMScope" in error.instead


@pytest.mark.parametrize("made_by", ["a newer journal", "an older journal"])
def test_a_database_that_cannot_be_written_is_refused(tmp_path: Path, made_by: str) -> None:
    file = tmp_path / "there.db"
    if made_by == "a newer journal":
        open_store(f"sqlite:///{file}", tmp_path).close()
    else:
        file.touch()
    assert "readonly" in refused(f"sqlite:///file:{file}?mode=ro&uri=true", tmp_path).why


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lmscope.db").write_bytes(b"a letter to my aunt, which is longer than a page of a database " * 99)
    assert "not a database" in refused(None, tmp_path).why
    assert "is a folder" in refused(f"sqlite:///{tmp_path}", tmp_path).why
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in refused(None, tmp_path / "file" / "below").why


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hush", "no address"),
        ("postgresql://me:hush@here:port/x", "no address"),
        ("foo://me:hush@here/x", "no kind of database"),
        ("oracle://me:hush@here/x", "not installed"),
        ("sqlite+aiosqlite:///x?password=hush", "aiosqlite"),
        ("sqlite:////dev/null/all.db?password=hush&mode=ro&uri=true", "/dev/null"),
    ],
)
def test_a_wrong_address_is_refused_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)  # an address may name a file from here on
    error = refused(url, tmp_path)
    assert said in error.why
    assert "hush" not in f"{error}{error.instead}{error.__cause__}"
    assert error.__suppress_context__


def test_a_driver_that_repeats_the_address_is_not_repeated() -> None:
    url = create_engine("sqlite://").url.set(drivername="postgresql", username="me", password="hush", host="there")
    with pytest.raises(errors.StoreUnusable) as caught, told(url):
        raise OSError("cannot reach postgresql://me:hush@there")
    assert "hush" not in str(caught.value)


def test_a_file_that_is_gone_is_noticed(opened: Open, tmp_path: Path) -> None:
    store = opened()
    store.check()
    file = tmp_path / "lmscope.db"
    file.rename(tmp_path / "elsewhere")
    with pytest.raises(errors.StoreUnusable, match="gone"):
        store.check()
    (tmp_path / "elsewhere").rename(file)
    store.check()


def test_another_server_s_jobs_are_left_to_it_while_it_lives(opened: Open) -> None:
    one = opened()
    one.jobs.write(StoredJob(job("of one")))
    other = opened()
    other.jobs.write(StoredJob(job("of other", created=2)))
    assert (one.jobs.take_up(), other.jobs.take_up()) == ((), ())
    assert {stored.job.id for stored in other.jobs.newest(9)} == {"of one", "of other"}


def test_what_a_dead_server_left_goes_to_one_of_the_others_only(opened: Open) -> None:
    dead = opened()
    for n, state in enumerate(("queued", "running", "done", "failed", "cancelled", "lost")):
        dead.jobs.write(StoredJob(job(f"{n}", state, created=9 - n), {"model": "x"}))
    kill(dead)
    heirs = opened(), opened()
    taken = [stored for heir in heirs for stored in heir.jobs.take_up()]
    assert [(stored.job.id, stored.resumed, stored.request) for stored in taken] == [
        ("1", 1, {"model": "x"}),
        ("0", 1, {"model": "x"}),
    ]
    assert dead.jobs.write(StoredJob(job("1", "done"))) is False  # it was only asleep: too late
    assert heirs[1].jobs.get("1") == next(stored for stored in taken if stored.job.id == "1")


def test_where_no_lock_tells_a_heartbeat_does(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_store("sqlite://", Path()).engine
    silent, alive, heir = (servers.Servers(engine, None) for _ in range(3))
    with engine.begin() as connection:
        for server in (silent, alive):
            server.enter(connection)
        connection.execute(text("UPDATE servers SET beat = beat - 61 WHERE id = :id"), {"id": silent.id})
        heir.bury(connection)
        left = set(connection.execute(text("SELECT id FROM servers")).scalars())
    assert alive.id in left
    assert silent.id not in left
    silent._say_alive()  # it had only slept
    with engine.begin() as connection:
        assert silent.id in connection.execute(text("SELECT id FROM servers")).scalars().all()
    monkeypatch.setattr(servers, "BEAT_S", 0.001)
    with engine.begin() as connection:
        connection.execute(text("UPDATE servers SET beat = 0 WHERE id = :id"), {"id": alive.id})
    alive._beating.start()
    beat: float = 0
    while not beat:
        time.sleep(0.005)
        with engine.begin() as connection:
            beat = connection.execute(text("SELECT beat FROM servers WHERE id = :id"), {"id": alive.id}).scalar_one()
    alive.leave()
    assert not alive._beating.is_alive()
    engine.dispose()


def test_a_wish_to_stop_reaches_the_server_that_runs_the_job(opened: Open) -> None:
    one, other = opened(), opened()
    assert one.jobs.write(StoredJob(job())) is False
    other.jobs.ask_to_stop("a")
    assert one.jobs.write(StoredJob(job(done=2.0))) is True
    stored = other.jobs.get("a")
    assert stored is not None
    assert (stored.stop, stored.job.done) == (True, 2.0)


def test_only_so_many_ended_jobs_are_kept_and_none_that_runs(opened: Open) -> None:
    store = opened()
    for n in range(6):
        store.jobs.write(StoredJob(job(f"{n}", "running" if n == 0 else "done", created=n)))
    store.jobs.forget_oldest(2)
    assert [stored.job.id for stored in store.jobs.newest(9)] == ["5", "4", "0"]


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
JSON = st.dictionaries(
    WORDS, st.recursive(st.none() | st.booleans() | st.integers() | NUMBERS | WORDS, st.lists, max_leaves=5), max_size=3
)
PROBLEMS = st.builds(
    Problem, type=WORDS, status=st.integers(400, 599), what=WORDS, why=WORDS, instead=WORDS, needed=st.none() | NUMBERS,
    available=st.none() | NUMBERS, request=WORDS,
)  # fmt: skip
JOBS = st.builds(
    Job, id=st.just(""), kind=WORDS, owner=WORDS, what=WORDS, unit=WORDS, done=NUMBERS,
    total=st.none() | NUMBERS, eta_s=st.none() | NUMBERS, partial=st.none() | JSON, result=st.none() | JSON,
    problem=st.none() | PROBLEMS, created=NUMBERS, updated=NUMBERS,
)  # fmt: skip


@tuned(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.builds(StoredJob, JOBS, JSON, st.integers(0, 9), st.booleans()))
def test_what_is_written_is_read(opened: Open, stored: StoredJob) -> None:
    store = _only(opened)
    stored = replace(stored, job=stored.job.model_copy(update={"id": uuid4().hex}))  # a wish to stop stays with its job
    for _ in range(2):
        store.jobs.write(stored)
        assert store.jobs.get(stored.job.id) == stored


ONE: dict[Open, Store] = {}


def _only(opened: Open) -> Store:
    """The one server of all examples."""
    if opened not in ONE:
        ONE.clear()
        ONE[opened] = opened()
    return ONE[opened]
