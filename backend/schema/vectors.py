"""Vectors: directions and steers that edits name by the digest of their numbers."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from backend.schema.array import Array
from backend.schema.frozen import Frozen

VectorName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


class VectorAsk(Frozen):
    """POST /api/v1/vectors: store a direction (`vector`) or a steer (`left` and `right`, W = left right)."""

    kind: Literal["direction", "steer"]
    name: VectorName
    """What people call it: small letters, digits, `.`, `_` and `-`."""
    recipe: Annotated[str, Field(max_length=10_000)] = ""
    """How it was made: model, text, place, method. Kept beside the numbers."""
    vector: Array | None = None
    """float32 [width] of a stream, or [head width] of a head."""
    left: Array | None = None
    """float32 [width, rank]."""
    right: Array | None = None
    """float32 [rank, width]."""

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        for array in (self.vector, self.left, self.right):
            try:
                _ = None if array is None else array.data
            except ValueError as error:
                raise ValueError("bdata is not base64") from error
        return self


class VectorCard(Frozen):
    """One stored vector."""

    kind: Literal["direction", "steer"]
    name: str
    id: str = ""
    """What edits name it by: SHA-256 of its numbers, in hex."""
    shape: tuple[int, ...] = ()
    """[width] of a direction, [width, rank] of a steer."""
    recipe: str = ""


class VectorShelf(Frozen):
    """GET /api/v1/vectors."""

    vectors: tuple[VectorCard, ...]
