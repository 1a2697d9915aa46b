"""Labelled examples on their way from the browser to the backend: files are too large for a callback of Dash."""

import asyncio
import json

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from backend.schema import ExamplesAsk, Problem, reasons
from backend.schema.limits import Limits
from backend.schema.pieces import in_pieces
from frontend.parts.asking import client
from lmscope.client import Refused

PATH = "examples"
SAID_BYTES = 64 * 1024
"""Room for names and JSON around a file."""

router = APIRouter(include_in_schema=False)


def file_bytes(most: int = Limits().upload_bytes) -> int:
    """Bytes that a file may have so that it fits into a body, for it travels as base64."""
    return (most - SAID_BYTES) // 4 * 3


@router.post(f"/{PATH}")
async def take(request: Request) -> Response:
    """Check and keep examples (`ExamplesAsk` as JSON); answers their card, or the Problem with them."""
    most, body = Limits().upload_bytes, bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            return _problem(_too_large(len(body), most))
    try:
        ask = await asyncio.to_thread(lambda: in_pieces(ExamplesAsk, json.loads(body)))
        return JSONResponse(await client(request.headers.get("x-lmscope-tab")).raw(ask))
    except Refused as refused:
        return _problem(refused.problem)
    except (ValueError, RecursionError) as error:
        return _problem(_unfit(reasons.short(error)))


def _problem(problem: Problem) -> Response:
    return Response(problem.model_dump_json(), problem.status, media_type="application/problem+json")


def _unfit(why: str) -> Problem:
    return Problem(
        type="invalid", status=422, what="These examples cannot be read", why=why,
        instead="Correct them and check them again; nothing was kept.",
    )  # fmt: skip


def _too_large(needed: int, most: int) -> Problem:
    return Problem(
        type="too-large", status=413, what="These examples are too large",
        why=f"they have {needed:,} bytes or more, and at most {most:,} are read",
        instead="Send fewer of them: a few thousand texts of each pole are enough.", needed=needed, available=most,
    )  # fmt: skip
