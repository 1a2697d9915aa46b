"""The write instrument: a continuation, whole or token by token."""

from typing import Any

from fastapi import APIRouter, Request, Response

from backend.desk.answers import writing_key
from backend.desk.question import Question, WriteStream
from backend.models import write as instrument
from backend.routes.asking import check_edits, while_here
from backend.routes.house import BASE, House, InHouse, Tab
from backend.routes.streaming import Streamed
from backend.schema import Problem, WriteAnswer, WriteAsk, WriteEvent

router = APIRouter(prefix=BASE, tags=["instruments"])
INSTRUMENT = "write"
MEDIA_TYPE = "text/event-stream"
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events `write`, each with a WriteEvent as its data. One that ends early ends with "
        "an event `problem` and a Problem",
        "content": {
            MEDIA_TYPE: {
                "itemSchema": {
                    "type": "object",
                    "properties": {"event": {"enum": ["write", "problem"]}, "data": {"type": "string"}},
                    "required": ["event", "data"],
                }
            }
        },
    }
}


@router.post("/write", response_model=WriteAnswer)
async def write(ask: WriteAsk, request: Request, house: InHouse, tab: Tab) -> Response:
    """A continuation; of a view that compares, edited and unedited under the same random numbers."""
    _check(ask, house)
    question = Question(
        INSTRUMENT,
        writing_key(INSTRUMENT, ask),
        lambda loaded, cancel: instrument.Writer(loaded, ask, house.limits),
        lambda loaded: instrument.cost(loaded, ask, house.limits),
        instrument.rows_of(ask),
    )
    body = await while_here(request, house.desk.ask(ask.view.model, ask.view.revision, question, tab=tab))
    return Response(body, media_type="application/json")


@router.post("/write/stream", response_class=Response, responses=EVENTS)
async def write_stream(ask: WriteAsk, house: InHouse, tab: Tab) -> Response:
    """The same, token by token. Closing it, or the tab, ends the writing within a token."""
    _check(ask, house)

    def begin(loaded: Any, send: Any) -> instrument.Writer:
        return instrument.Writer(loaded, ask, house.limits, lambda event: send(_event(event)), kept=False)

    stream = WriteStream(
        INSTRUMENT, begin, lambda loaded: instrument.cost(loaded, ask, house.limits), instrument.rows_of(ask)
    )
    pieces = house.desk.stream(ask.view.model, ask.view.revision, stream, tab=tab)
    return Streamed(pieces, MEDIA_TYPE, _last_words, house.limits.wait_s)


def _check(ask: WriteAsk, house: House) -> None:
    check_edits(ask.view, house.limits.edits)
    instrument.check_limits(ask, house.limits)


def _event(event: WriteEvent) -> bytes:
    return f"event: write\ndata: {event.model_dump_json(exclude_defaults=True)}\n\n".encode()


def _last_words(problem: Problem) -> bytes:
    return f"event: problem\ndata: {problem.model_dump_json(exclude_none=True)}\n\n".encode()
