"""The shelf: what there is, load, unload."""

import asyncio

from fastapi import APIRouter, Query, Response

from backend.desk.jobs import shown
from backend.routes.house import BASE, InHouse, Tab
from backend.schema import Job, LoadAsk, ModelCard, Models

router = APIRouter(prefix=BASE, tags=["models"])


@router.get("/models")
async def models(house: InHouse) -> Models:
    """Every model that this server knows, with what each can show."""
    shelf = await asyncio.to_thread(house.shelf.cards)

    def with_job(card: ModelCard) -> ModelCard:
        job = house.desk.loading(card)
        return card if job is None else card.model_copy(update={"job": job.id})

    return shelf.model_copy(update={"models": tuple(map(with_job, shelf.models))})


@router.post("/models", status_code=202)
async def load(ask: LoadAsk, house: InHouse, tab: Tab) -> Job:
    """Start loading a model, or find the job that already does. The job survives the server."""
    return shown(await house.desk.load(ask.model, ask.revision, owner=tab), tab)


@router.delete("/models/{name:path}", status_code=204)
async def unload(name: str, house: InHouse, revision: str | None = Query(None, max_length=256)) -> Response:
    """Put a model away and return its memory; refused while it is in use."""
    await asyncio.to_thread(house.shelf.unload, name, revision)
    return Response(status_code=204)
