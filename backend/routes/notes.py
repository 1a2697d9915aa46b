"""Notes on values and heads: kept in the store, for everybody who uses it."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query

from backend.routes.house import BASE, House, InHouse
from backend.schema import Imported, Note, NoteAsk, Notes
from backend.schema.notes import NO_NUL, ModelDigest

router = APIRouter(prefix=BASE, tags=["notes"])


@router.get("/notes")
async def notes(
    house: InHouse,
    digest: Annotated[ModelDigest | None, Query(description="of the weights of one model")] = None,
    search: Annotated[str, Query(max_length=256, pattern=NO_NUL, description="words that all must be there")] = "",
) -> Notes:
    """What the team calls values and heads, the newest first; a search goes through names, texts, parts and models."""
    return Notes(notes=await asyncio.to_thread(house.store.notes.read, digest, search))


@router.put("/notes")
async def write(ask: NoteAsk, house: InHouse) -> Note | None:
    """Write a note, or write over it; one without name and text takes what was there away, and the answer is null."""
    note = Note(**ask.model_dump(), model=await _name(house, ask.digest), updated=time.time())
    await asyncio.to_thread(house.store.notes.write, note)
    return note if note.name or note.text else None


@router.get("/notes/export")
async def export(house: InHouse) -> Notes:
    """All notes, as an import takes them."""
    return Notes(notes=await asyncio.to_thread(house.store.notes.read))


@router.post("/notes/import")
async def take(given: Notes, house: InHouse) -> Imported:
    """Take notes in, all or none; of two about the same part the newer one stays."""
    return await asyncio.to_thread(house.store.notes.take, given.notes)


async def _name(house: House, digest: str) -> str:
    """What the shelf calls these weights; empty when it does not know them."""
    shelf = await asyncio.to_thread(house.shelf.cards)
    return next((card.name for card in shelf.models if card.digest == digest), "")
