"""The trace instrument."""

from fastapi import APIRouter, Response

from backend.models import trace as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import TraceAnswer, TraceAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/trace", response_model=TraceAnswer)
async def trace(ask: TraceAsk, asker: Asker) -> Response:
    """The residual stream of every layer and token as words; or its last row and one column, which come first."""
    return await asker.answered(f"trace {ask.part}", ask, instrument.trace, instrument.trace_bytes)
