"""Notes as a team keeps them: one a part of a model, written by whoever comes last, read by all servers of a store."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import URL, Connection, Engine, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from backend.schema import Imported, Note
from backend.store.tables import NoteRow
from backend.store.trouble import told

KEY = ("digest", "part", "layer", "place")
INSERTS = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
"""Both know `ON CONFLICT`, which makes writing over one step: two servers may write at once."""


class Notes:
    """The table of notes. Every method raises `StoreUnusable`."""

    def __init__(self, engine: Engine, url: URL) -> None:
        self._engine, self._url = engine, url

    def write(self, note: Note) -> None:
        """Put a note in the place of what was there; one without name and text takes it away."""
        with told(self._url), self._engine.begin() as connection:
            _write(connection, (note,), newer=False)

    def read(self, digest: str | None = None, search: str = "") -> tuple[Note, ...]:
        """Notes, the newest first: of one model's weights, and with these words in name, text, part or model."""
        rows = select(NoteRow.__table__).order_by(NoteRow.updated.desc(), *(getattr(NoteRow, name) for name in KEY))
        rows = rows if digest is None else rows.where(NoteRow.digest == digest)
        with told(self._url), self._engine.begin() as connection:
            found = tuple(map(_note, connection.execute(rows).all()))
        # not in SQL: SQLite folds the case of ASCII only
        return tuple(note for note in found if all(word in _said(note) for word in search.casefold().split()))

    def take(self, notes: tuple[Note, ...]) -> Imported:
        """Take notes in, all or none; of two about the same part the newer one stays, wherever the other comes from."""
        by_age = sorted(notes, key=lambda note: note.updated)
        newest = {(note.digest, note.part, note.layer, note.index): note for note in by_age}
        with told(self._url), self._engine.begin() as connection:
            written = _write(connection, tuple(newest.values()), newer=True)
        return Imported(written=written, older=len(notes) - written)


def _write(connection: Connection, notes: Sequence[Note], *, newer: bool) -> int:
    """How many were written; with `newer` only over what is older. Each part is named once.

    Two statements whatever the number: nobody else can write to SQLite meanwhile.
    """
    kept = [_values(note) for note in notes if note.name or note.text]
    empty = [_values(note) for note in notes if not (note.name or note.text)]
    put, taken = _put(connection.dialect.name, newer), _take_away(newer)
    return sum(connection.execute(how, rows).rowcount for how, rows in ((put, kept), (taken, empty)) if rows)


def _put(dialect: str, newer: bool) -> Any:
    row: Any = INSERTS[dialect](NoteRow)
    changed = {column.name: column for column in row.excluded if column.name not in KEY}
    return row.on_conflict_do_update(
        index_elements=KEY, set_=changed, where=NoteRow.updated < row.excluded.updated if newer else None
    )


def _take_away(newer: bool) -> Any:
    older = (NoteRow.updated < bindparam("updated"),) if newer else ()
    return delete(NoteRow).where(*(getattr(NoteRow, name) == bindparam(name) for name in KEY), *older)


def _values(note: Note) -> dict[str, Any]:
    values = note.model_dump()
    return values | {"place": values.pop("index")}


def _note(row: Any) -> Note:
    values = dict(row._mapping)
    return Note.model_validate(values | {"index": values.pop("place")})


def _said(note: Note) -> str:
    """Everything that a search goes through; a value is written both ways, a head as everywhere."""
    place = (
        f"L{note.layer}U{note.index} L{note.layer}D{note.index}"
        if note.part == "value"
        else f"{note.layer}.{note.index}"
    )
    return f"{note.name}\n{note.text}\n{place}\n{note.model}".casefold()
