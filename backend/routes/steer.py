"""The steer instrument: the next token under the sliders, what in a text shows them, and a steer taken apart."""

from fastapi import APIRouter, Response

from backend.models import sliders, steer_evidence, steer_inside
from backend.models import steer as instrument
from backend.routes.asking import Asker
from backend.routes.house import BASE
from backend.schema import EvidenceAnswer, EvidenceAsk, InsideAnswer, InsideAsk, SteerAnswer, SteerAsk

router = APIRouter(prefix=BASE, tags=["instruments"])


@router.post("/steer", response_model=SteerAnswer)
async def steer(ask: SteerAsk, asker: Asker) -> Response:
    """The next token with the view's sliders and without them; a new value of a steer needs no forward pass."""
    named = f"{sliders.places(ask.view)}"  # the answer names sliders by their places among edits that are off, too
    return await asker.answered("steer", ask, instrument.steer, instrument.steer_bytes, named)


@router.post("/steer/evidence", response_model=EvidenceAnswer)
async def evidence(ask: EvidenceAsk, asker: Asker) -> Response:
    """Which words of the text are likelier with the sliders, the best spans, and what chance would give."""
    return await asker.answered("steer.evidence", ask, steer_evidence.evidence, steer_evidence.evidence_bytes)


@router.post("/steer/inside", response_model=InsideAnswer)
async def inside(ask: InsideAsk, asker: Asker) -> Response:
    """The singular directions of a steer as words."""
    return await asker.answered("steer.inside", ask, steer_inside.inside, steer_inside.inside_bytes)
