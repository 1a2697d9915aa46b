"""Prompt sets: named lists of texts, known by the digest of the texts."""

from typing import Annotated

from pydantic import Field

from backend.schema.frozen import Frozen
from backend.schema.vectors import VectorName
from backend.schema.view import Text


class SetAsk(Frozen):
    """POST /api/v1/sets: keep a list of texts."""

    name: VectorName
    texts: Annotated[tuple[Text, ...], Field(min_length=1, max_length=10_000)]
    licence: Annotated[str, Field(max_length=200)] = "not stated"
    about: Annotated[str, Field(max_length=2_000)] = ""


class SetCard(Frozen):
    """One prompt set."""

    name: str
    id: str
    """SHA-256 of the texts as canonical JSON, in hex."""
    texts: int
    characters: int
    licence: str
    about: str = ""
    ours: bool = False
    """It comes with the product."""


class PromptSet(Frozen):
    """GET /api/v1/sets/{id}."""

    card: SetCard
    texts: tuple[str, ...]


class PromptSets(Frozen):
    """GET /api/v1/sets."""

    sets: tuple[SetCard, ...]
