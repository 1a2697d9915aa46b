"""Notes: what a team calls a value or a head, and what it knows of it."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.edit import Layer, Unit
from backend.schema.frozen import Frozen

ModelDigest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""The digest of the weights, as `Conditions.digest` has it: a note is about numbers, whatever the model is called."""
NO_NUL = "^[^\\x00]*$"
"""PostgreSQL keeps no such character."""


class NoteAsk(Frozen):
    """PUT /api/v1/notes: write, or write over; a note without name and text is taken away."""

    digest: ModelDigest
    part: Literal["value", "head"]
    layer: Annotated[Layer, Field(strict=True)]
    index: Annotated[Unit, Field(strict=True)]
    """Unit or head."""
    name: Annotated[str, Field(max_length=120, pattern=NO_NUL)] = ""
    text: Annotated[str, Field(max_length=10_000, pattern=NO_NUL)] = ""


class Note(NoteAsk):
    """One note."""

    model: Annotated[str, Field(max_length=512, pattern=NO_NUL)] = ""
    """The model's name when the note was written."""
    updated: Annotated[float, Field(strict=True, ge=0)]
    """Seconds since 1970 (UTC)."""


class Notes(Frozen):
    """GET /api/v1/notes, and what is exported and imported: an imported note without name and text is taken away."""

    notes: tuple[Note, ...]


class Imported(Frozen):
    """POST /api/v1/notes/import."""

    written: int
    older: int
    """Left as they were, because the note that was there is newer."""
