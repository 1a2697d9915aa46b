"""The cell instrument, and LM-Debugger's switch."""

from fastapi import APIRouter, Response

from backend.models import cell as instrument
from backend.models import switch as switching
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import CellAnswer, CellAsk, SwitchAnswer, SwitchAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/trace/cell", response_model=CellAnswer)
async def cell(ask: CellAsk, asker: Asker) -> Response:
    """One layer and token of the lens: before and after the feed-forward block, what moved, the values written."""
    return await asker.answered("cell", ask, instrument.cell, instrument.cell_bytes)


@router.post("/trace/switch", response_model=SwitchAnswer)
async def switch(ask: SwitchAsk, asker: Asker) -> Response:
    """The edit that does what LM-Debugger's on or off did to one value."""
    return await asker.answered("switch", ask, switching.switch, switching.switch_bytes)
