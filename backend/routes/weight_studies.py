"""Long questions about weights, each answered by a job: all heads at once, and studies of weights read as words."""

from fastapi import APIRouter

from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import ActiveAsk, Job, KeepAsk, SimilarityAsk, SummariesAsk, TablesAsk

router = APIRouter(prefix=BASE, tags=["studies"])


@router.post("/weights/tables", status_code=202)
async def tables(ask: TablesAsk, asker: Asker) -> Job:
    """The largest entries of every head's W_VO or W_QK; the job's partial and result are HeadTables."""
    return await asker.start(ask)


@router.post("/weights/heads", status_code=202)
async def heads(ask: SummariesAsk, asker: Asker) -> Job:
    """W_VO of every head in numbers; the job's partial and result are HeadSummaries."""
    return await asker.start(ask)


@router.post("/weights/keep", status_code=202)
async def keep(ask: KeepAsk, asker: Asker) -> Job:
    """How much the k largest words of vectors keep; the job's partial and result are KeepStudies."""
    return await asker.start(ask)


@router.post("/weights/active", status_code=202)
async def active(ask: ActiveAsk, asker: Asker) -> Job:
    """R_k of the most active vectors of every layer; the job's partial and result are ActiveStudies."""
    return await asker.start(ask)


@router.post("/weights/similarity", status_code=202)
async def similarity(ask: SimilarityAsk, asker: Asker) -> Job:
    """Words shared by vectors that belong together, against chance; the job's partial and result are SimilarityStudies.
    """  # fmt: skip
    return await asker.start(ask)
