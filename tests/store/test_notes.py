"""Notes are written over, taken away, searched and exchanged as their users think, by several servers at once."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tuned
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.dialects import postgresql

from backend.schema import Imported, Note
from backend.store import Store, notes, open_store
from backend.store.tables import NoteRow

ONE, OTHER = "1" * 64, "2" * 64


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = open_store(None, tmp_path)
    yield found
    found.close()


def note(index: int = 34, *, updated: float = 1.0, **more: object) -> Note:
    fields = {"digest": ONE, "part": "value", "layer": 12, "index": index, "name": "Cities", "updated": updated}
    return Note.model_validate(fields | more)


def test_a_note_is_kept_over_a_restart(tmp_path: Path) -> None:
    first = open_store(None, tmp_path)
    first.notes.write(note(text="fires on capitals", model="m"))
    first.close()
    again = open_store(None, tmp_path)
    assert again.notes.read() == (note(text="fires on capitals", model="m"),)
    again.close()


def test_writing_again_writes_over_and_nothing_written_takes_away(store: Store) -> None:
    store.notes.write(note())
    store.notes.write(note(name="Capitals", updated=0.5))
    assert store.notes.read() == (note(name="Capitals", updated=0.5),)
    store.notes.write(note(name="", text="", updated=0.25))
    assert store.notes.read() == ()
    store.notes.write(note(name="", text=""))
    assert store.notes.read() == ()


def test_a_note_belongs_to_one_part_of_one_model(store: Store) -> None:
    apart = [note(), note(35), note(layer=1), note(part="head"), note(digest=OTHER)]
    for each in apart:
        store.notes.write(each)
    assert len(store.notes.read()) == len(apart)
    assert store.notes.read(OTHER) == (note(digest=OTHER),)
    assert store.notes.read("3" * 64) == ()


@pytest.mark.parametrize(
    ("search", "found"),
    [("cities", 1), ("CIT", 1), ("straße", 1), ("STRASSE", 1), ("l12u34", 2), ("L12D34", 2), ("5.3", 1),
     ("ti fires", 1), ("%", 0), ("nothing", 0), ("", 3), ("smol", 3)],
)  # fmt: skip
def test_a_search_finds_what_it_says_anywhere_and_in_any_case(store: Store, search: str, found: int) -> None:
    store.notes.write(note(text="fires on STRASSE", model="smollm2"))
    store.notes.write(note(345, name="x", model="smollm2"))
    store.notes.write(note(3, part="head", layer=5, name="induction", model="smollm2"))
    assert len(store.notes.read(search=search)) == found


def test_the_newest_comes_first(store: Store) -> None:
    for index, updated in ((1, 2.0), (2, 3.0), (3, 1.0)):
        store.notes.write(note(index, updated=updated))
    assert [each.index for each in store.notes.read()] == [2, 1, 3]


def test_of_two_about_the_same_part_the_newer_one_stays(store: Store) -> None:
    store.notes.write(note(1, name="mine", updated=5))
    store.notes.write(note(2, name="mine", updated=5))
    store.notes.write(note(3, name="mine", updated=5))
    given = (
        note(1, name="older", updated=4), note(2, name="newer", updated=6), note(3, name="", text="", updated=6),
        note(4, name="new", updated=1), note(5, name="", text="", updated=9),
    )  # fmt: skip
    assert store.notes.take(given) == Imported(written=3, older=2)
    assert {each.index: each.name for each in store.notes.read()} == {1: "mine", 2: "newer", 4: "new"}
    assert store.notes.take(given) == Imported(written=0, older=5)


noted = st.builds(
    note, st.integers(0, 3), updated=st.floats(0, 1e12), part=st.sampled_from(["value", "head"]),
    name=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=120),
    text=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=300), model=st.text(st.characters(
        exclude_characters="\0", codec="utf-8"), max_size=20),
)  # fmt: skip


@given(st.lists(noted, max_size=6))
@tuned(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_what_is_exported_and_imported_is_the_same(tmp_path_factory: pytest.TempPathFactory, given: list[Note]) -> None:
    first, second = (open_store("sqlite://", tmp_path_factory.mktemp("none")) for _ in range(2))
    for each in given:
        first.notes.write(each)
    exported = first.notes.read()
    assert second.notes.take(exported).written == len(exported)
    assert second.notes.read() == exported
    for store in (first, second):
        store.close()


def test_servers_of_one_store_write_at_once_and_read_the_same(tmp_path: Path) -> None:
    both = [open_store(None, tmp_path) for _ in range(2)]

    def write(store: Store, name: str) -> None:
        for index in range(20):
            store.notes.write(note(index, name=name))

    threads = [threading.Thread(target=write, args=pair) for pair in zip(both, ("one", "other"), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert both[0].notes.read() == both[1].notes.read()
    assert len(both[0].notes.read()) == 20
    for store in both:
        store.close()


def test_postgresql_is_asked_to_write_over_in_one_step_too() -> None:
    seen: list[str] = []

    class Result:
        rowcount = 1

    class Connection:
        dialect = postgresql.dialect()

        def execute(self, statement: object, rows: list[dict[str, object]]) -> Result:
            seen.append(str(statement.compile(dialect=self.dialect)))  # type: ignore[attr-defined]
            return Result()

    assert notes._write(Connection(), (note(),), newer=True) == 1  # type: ignore[arg-type]
    assert "ON CONFLICT (digest, part, layer, place) DO UPDATE" in seen[0]
    assert "notes.updated < excluded.updated" in seen[0]
    assert NoteRow.__tablename__ == "notes"


def test_an_import_of_many_keeps_nobody_from_writing(store: Store) -> None:
    """SQLite lets one connection write at a time, and others wait a few seconds: a statement a note takes longer."""
    statements = []
    event.listen(store.notes._engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
    many = tuple(note(index, name="" if index % 3 == 0 else "n") for index in range(3_000))
    assert store.notes.take(many) == Imported(written=2_000, older=1_000)
    assert store.notes.take(many) == Imported(written=0, older=3_000)
    assert len(statements) == 2 * 3  # begin, what is put there, what is taken away


def test_of_two_in_one_import_the_newer_one_stays_whichever_comes_first(store: Store) -> None:
    given = (
        note(1, name="new", updated=6), note(1, name="old", updated=5), note(2, name="old", updated=5),
        note(2, name="new", updated=6), note(3, name="", updated=6), note(3, name="old", updated=5),
    )  # fmt: skip
    assert store.notes.take(given) == Imported(written=2, older=4)
    assert {each.index: each.name for each in store.notes.read()} == {1: "new", 2: "new"}
