"""What the pages ask of their own server: one websocket a tab, and the opening of links."""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from backend.schema import Problem, View, reasons
from backend.schema.view import LINK_BYTES, LinkError, json_object
from frontend.parts import build
from frontend.parts.asking import client
from frontend.parts.writing import Writing, ended
from lmscope.client import Refused

log = logging.getLogger("lmscope.frontend")
router = APIRouter(include_in_schema=False)


@router.post("/view")
async def open_view(request: Request) -> Response:
    """Check what a link holds; answers the whole View, or the Problem with it."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LINK_BYTES:
            return _bad_link(f"The link unpacks to more than {LINK_BYTES} bytes.")
    try:
        view = View.model_validate(json_object(body.decode("utf-8")))
    except ValidationError as error:
        return _bad_link(f"{reasons.said(error.errors(include_url=False, include_input=False))}.")
    except (LinkError, UnicodeDecodeError) as error:
        return _bad_link(f"{error}.")
    return JSONResponse(view.model_dump(mode="json"))


def _bad_link(why: str) -> Response:
    problem = Problem(
        type="bad-link", status=400, what="This link cannot be opened", why=why,
        instead="Ask for the link again; the example is shown in the meantime.",
    )  # fmt: skip
    return Response(problem.model_dump_json(), status_code=400, media_type="application/problem+json")


@router.get("/alive")
async def alive() -> Response:
    """That these pages are served, and which; a page that lost its server looks here."""
    return Response(status_code=204, headers={build.HEADER: build.build(), "Cache-Control": "no-store"})


@router.websocket("/tab/{tab}")
async def relay(websocket: WebSocket, tab: str) -> None:
    """Tell a tab what waits, runs, loads and is written; when it closes, the backend learns that the tab is gone."""
    if not _same_origin(websocket):
        await websocket.close(code=4003, reason="another site may not listen")
        return
    await websocket.accept()
    writing = Writing(tab, partial(_say, websocket))
    tasks = [asyncio.create_task(_speak(websocket, tab)), asyncio.create_task(_listen(websocket, tab, writing))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await writing.stop()
        failures = await ended(*tasks)
    for failure in failures:
        log.error("a tab's websocket failed", exc_info=failure)
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.close()


async def _speak(websocket: WebSocket, tab: str) -> None:
    events = client(tab).events()
    try:
        async for event in events:
            await websocket.send_text(event.model_dump_json())
    except Refused as refused:
        await websocket.send_text(Problem.model_dump_json(refused.problem))
    except (WebSocketDisconnect, RuntimeError):
        return
    finally:
        await events.aclose()


async def _say(websocket: WebSocket, text: str) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # it has closed, which `_listen` hears
        await websocket.send_text(text)


async def _listen(websocket: WebSocket, tab: str, writing: Writing) -> None:
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text == "stop":
                with suppress(Refused):
                    await client(tab).stop()
            elif text is not None:  # nothing is understood in bytes
                await writing.hear(text)
    except WebSocketDisconnect:
        return


def _same_origin(websocket: WebSocket) -> bool:
    origin = websocket.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == websocket.headers.get("host")
