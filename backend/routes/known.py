"""Long questions about weights that were answered before."""

from fastapi import APIRouter

from backend.desk.jobs import shown
from backend.routes.house import BASE, InHouse, Tab
from backend.schema import Known, KnownAsk

router = APIRouter(prefix=BASE, tags=["studies"])


@router.post("/weights/known")
async def known(ask: KnownAsk, house: InHouse, tab: Tab) -> Known:
    """The job that has answered exactly this, if this server remembers one; nothing is loaded or begun."""
    job = await house.studies.known(ask.ask, owner=tab)
    return Known(job=None if job is None else shown(job, tab))
