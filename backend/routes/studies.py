"""Studies: long experiments, each answered by a job."""

from fastapi import APIRouter, Request

from backend.routes.asking import Asker, while_here
from backend.routes.house import BASE, InHouse
from backend.schema import EffectsAsk, Job, MeanAnswer, MeanAsk, PatchMapAsk

router = APIRouter(prefix=BASE, tags=["studies"])


@router.post("/trace/effects", status_code=202)
async def effects(ask: EffectsAsk, asker: Asker) -> Job:
    """Remove parts one at a time and see what the prediction does; the job's partial and result are EffectsAnswers."""
    return await asker.start(ask)


@router.post("/trace/patch/map", status_code=202)
async def patch_map(ask: PatchMapAsk, asker: Asker) -> Job:
    """Patch every cell of the grid, one at a time; the job's partial and result are PatchMaps."""
    return await asker.start(ask)


@router.post("/trace/mean")
async def mean(ask: MeanAsk, request: Request, house: InHouse) -> MeanAnswer:
    """A part's mean over a prompt set, as an edit; the first question about a set reads all of it."""
    return await while_here(request, house.studies.mean(ask))
