"""Capture: raw tensors of named places, as a safetensors file that is sent while the model runs."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from backend.desk.question import Cancel, Send, Stream
from backend.models import capture as instrument
from backend.routes.asking import check_edits
from backend.routes.house import BASE, InHouse, Tab
from backend.routes.streaming import Streamed
from backend.schema import CaptureAsk, Problem
from backend.schema.capture import CUT, MEDIA_TYPE

router = APIRouter(prefix=BASE, tags=["instruments"])
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A safetensors file; its metadata has a CaptureAbout as JSON under `lmscope`. One that ends "
        "early is shorter than its header says, and ends with a line `lmscope-problem:` and a Problem",
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post("/capture", response_class=Response, responses=FILE)
async def capture(ask: CaptureAsk, house: InHouse, tab: Tab) -> Response:
    """Raw tensors of named places of one forward pass: ours, or the names of TransformerLens that are equal to them."""
    check_edits(ask.view, house.limits.edits)

    def pour(loaded: Any, send: Send, cancel: Cancel) -> None:
        instrument.pour(loaded, ask, house.limits, send, cancel)

    stream = Stream("capture", pour, lambda loaded: instrument.cost(loaded, ask, house.limits))
    pieces = house.desk.stream(ask.view.model, ask.view.revision, stream, tab=tab)
    return Streamed(pieces, MEDIA_TYPE, _last_words, house.limits.wait_s)


def _last_words(problem: Problem) -> bytes:
    return CUT + problem.model_dump_json(exclude_none=True).encode()
