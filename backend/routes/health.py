"""Health: that the server lives, and that it can answer."""

import asyncio
from contextlib import suppress

from fastapi import APIRouter

from backend import errors
from backend.routes.house import BASE, InHouse
from backend.schema import Health
from lmscope import __version__

router = APIRouter(prefix=BASE, tags=["server"])


@router.get("/health")
async def health() -> Health:
    """That the server lives. The only address that never asks for a key."""
    return Health(status="alive", version=__version__)


@router.get("/ready")
async def ready(house: InHouse) -> Health:
    """That the models of the settings were loaded and jobs are remembered; else 503, `loading` or `store-unusable`."""
    await asyncio.to_thread(house.store.check)
    await house.desk.jobs.recorded()
    for id in house.warming:
        with suppress(errors.UnknownJob):  # it ended so long ago that it is forgotten
            job = house.desk.jobs.get(id)
            house.desk.jobs.raise_for(id)
            if job.state != "done":
                raise errors.Loading("The server is not ready yet", job.what, f"Watch the job {id}")
    return Health(status="ready", version=__version__)
