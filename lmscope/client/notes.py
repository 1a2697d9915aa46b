"""What the team calls values and heads."""

from pydantic import RootModel

from backend.schema import Imported, Note, NoteAsk, Notes
from lmscope.client.connection import Connection
from lmscope.client.reading import typed


class Noted(RootModel[Note | None]):
    """PUT /api/v1/notes."""


class NotesClient(Connection):
    async def notes(self, *, digest: str | None = None, search: str = "") -> tuple[Note, ...]:
        """What the team calls values and heads; of one model's weights (`conditions.digest`), or with these words."""
        query = {name: given for name, given in (("digest", digest), ("search", search)) if given}
        return typed(Notes, await self._send("GET", "notes", query=query)).notes

    async def note(self, note: NoteAsk) -> Note | None:
        """Write a note, or write over it; None: it had neither name nor text, and is taken away."""
        found: Note | None = typed(Noted, await self._send("PUT", "notes", note)).root
        return found

    async def export_notes(self) -> Notes:
        """All notes, as `import_notes` takes them."""
        return typed(Notes, await self._send("GET", "notes/export"))

    async def import_notes(self, notes: Notes) -> Imported:
        """Take notes in; of two about the same part the newer one stays."""
        return typed(Imported, await self._send("POST", "notes/import", notes))
