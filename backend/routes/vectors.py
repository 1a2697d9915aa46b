"""Stored vectors: the directions and steers that edits name by their digest."""

import asyncio

from fastapi import APIRouter

from backend import errors
from backend.measure.array import from_array
from backend.routes.house import BASE, InHouse
from backend.schema import VectorAsk, VectorCard, VectorShelf

router = APIRouter(prefix=BASE, tags=["vectors"])
FIELDS = {"direction": ("vector",), "steer": ("left", "right")}


@router.get("/vectors")
async def vectors(house: InHouse) -> VectorShelf:
    """Every stored direction and steer."""
    return VectorShelf(vectors=await asyncio.to_thread(house.vectors.cards))


@router.post("/vectors", status_code=201)
async def keep(ask: VectorAsk, house: InHouse) -> VectorCard:
    """Store a direction or a steer and learn the id that edits name it by. Equal numbers have equal ids."""
    given = {name: array for name in ("vector", "left", "right") if (array := getattr(ask, name)) is not None}
    if tuple(given) != FIELDS[ask.kind]:
        raise errors.BadQuestion(
            f"This is no {ask.kind}", f"it holds {' and '.join(given) or 'no numbers'}",
            f"Send {' and '.join(FIELDS[ask.kind])}.",
        )  # fmt: skip
    card = VectorCard(kind=ask.kind, name=ask.name, recipe=ask.recipe)
    numbers = {name: from_array(array) for name, array in given.items()}
    return await asyncio.to_thread(house.vectors.keep, card, numbers)
