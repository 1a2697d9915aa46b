"""Jobs: how far long work is, and its end."""

from fastapi import APIRouter

from backend.desk.jobs import shown
from backend.routes.house import BASE, InHouse, Tab
from backend.schema import Job

router = APIRouter(prefix=BASE, tags=["jobs"])


@router.get("/jobs")
async def jobs(house: InHouse, tab: Tab) -> tuple[Job, ...]:
    """Every job that is remembered, also from before a restart, the newest first."""
    return tuple(shown(job, tab) for job in await house.desk.jobs.listed())


@router.get("/jobs/{id}")
async def job(id: str, house: InHouse, tab: Tab) -> Job:
    """One job as it stands now, or as it ended."""
    return shown(await house.desk.jobs.find(id), tab)


@router.delete("/jobs/{id}")
async def cancel(id: str, house: InHouse, tab: Tab) -> Job:
    """Ask a job to stop; it does so at its next step."""
    return shown(await house.desk.jobs.stop(id), tab)
