"""Two models with one vocabulary: each question is answered by a job."""

from fastapi import APIRouter

from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import AlignmentAsk, ChangesAsk, Job, StitchingAsk

router = APIRouter(prefix=BASE, tags=["studies"])


@router.post("/weights/changes", status_code=202)
async def changes(ask: ChangesAsk, asker: Asker) -> Job:
    """How the parameters of one model differ from those of another; the job's partial and result are ChangesAnswers."""
    return await asker.start(ask)


@router.post("/weights/alignment", status_code=202)
async def alignment(ask: AlignmentAsk, asker: Asker) -> Job:
    """Match the layers of two models in embedding space; the job's partial and result are AlignmentAnswers."""
    return await asker.start(ask)


@router.post("/weights/stitching", status_code=202)
async def stitching(ask: StitchingAsk, asker: Asker) -> Job:
    """Run lower blocks of one model and upper ones of another; the job's partial and result are StitchingAnswers."""
    return await asker.start(ask)
