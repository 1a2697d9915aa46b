"""Prompt sets: named lists of texts."""

import asyncio

from fastapi import APIRouter

from backend.routes.house import BASE, InHouse
from backend.schema import PromptSet, PromptSets, SetAsk, SetCard

router = APIRouter(prefix=BASE, tags=["sets"])


@router.get("/sets")
async def sets(house: InHouse) -> PromptSets:
    """Every prompt set, first the one that comes with the product."""
    return await asyncio.to_thread(house.sets.cards)


@router.post("/sets", status_code=201)
async def keep(ask: SetAsk, house: InHouse) -> SetCard:
    """Store a list of texts and learn the id that questions name it by. Equal texts have equal ids."""
    return await asyncio.to_thread(house.sets.keep, ask)


@router.get("/sets/{id}")
async def one(id: str, house: InHouse) -> PromptSet:
    """One set with its texts."""
    return await asyncio.to_thread(house.sets.get, id)
