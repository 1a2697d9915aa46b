"""The steer page's own questions."""

from typing import Any

from dash import ClientsideFunction, Input, Output, clientside_callback

from backend.schema import SteerAsk
from frontend.pages.steer import ids
from frontend.parts.asking import client
from frontend.parts.client_code import CALLS, client_calls
from frontend.parts.panel import Asked, asked_by, heard


@asked_by(ids.ASK, ids.ANSWER, ids.NOTICE)
async def show_steered(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """The next token, base against steered, at the newest place of a slider."""
    return await _answered(asked, tab), None


@asked_by(ids.TEXT_ASK, ids.TEXT, ids.TEXT_NOTICE)
async def show_text(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """The same, and its divergence over the whole text; a newer move of a slider takes its place."""
    return await _answered(asked, tab), None


async def _answered(asked: Asked, tab: str | None) -> dict[str, Any]:
    return asked | {"ask": None, "answer": await client(tab).raw(SteerAsk.model_validate(asked["ask"]))}


@asked_by(ids.CODE_ASK, ids.CODE, ids.CODE_NOTICE, by_tab=False)
async def show_code(asked: Asked) -> tuple[dict[str, str], None]:
    """What a panel asked, as calls of our client, in order."""
    asks = [CALLS[name].form.model_validate(each) for name, given in asked["asks"].items() for each in given]
    return {"client": client_calls(asks, asked["origin"])}, None


clientside_callback(ClientsideFunction("steer", "start"), Output(ids.STARTED, "data"), Input(ids.PAGE, "id"))
heard("steer", {"answer": ids.ANSWER, "text": ids.TEXT, "code": ids.CODE})
