"""What a slider does at every strength, how a direction is made and a steer moved: each answered by a job."""

from fastapi import APIRouter

from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import DirectionAsk, Job, SweepAsk, TransferAsk

router = APIRouter(prefix=BASE, tags=["steers"])


@router.post("/steers/direction", status_code=202)
async def direction(ask: DirectionAsk, asker: Asker) -> Job:
    """Make a direction of the residual stream from contrast pairs; the job's result is a Made."""
    return await asker.start(ask)


@router.post("/steers/sweep", status_code=202)
async def sweep(ask: SweepAsk, asker: Asker) -> Job:
    """Measure a slider, or two, at every strength; the job's partial and result are Sweeps."""
    return await asker.start(ask)


@router.post("/steers/transfer", status_code=202)
async def transfer(ask: TransferAsk, asker: Asker) -> Job:
    """Move a steer to another model and measure what survives; the job's result is a Transferred."""
    return await asker.start(ask)
