"""Patching: what another text's run holds at a place, as an edit."""

from typing import Any

from fastapi import APIRouter, Response

from backend.desk.question import Cancel
from backend.models import patch as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import Limits, PatchAnswer, PatchAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/trace/patch", response_model=PatchAnswer)
async def patch(ask: PatchAsk, asker: Asker) -> Response:
    """Edits that put what the source's run holds at some places into the view; its vectors are stored."""

    def answer(loaded: Any, ask: PatchAsk, limits: Limits, cancel: Cancel) -> PatchAnswer:
        return instrument.patch(loaded, ask, limits, asker.house.vectors, cancel)

    return await asker.answered("trace patch", ask, answer, instrument.patch_bytes)
