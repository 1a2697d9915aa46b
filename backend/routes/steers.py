"""The shelf of steers, and the making of one."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from pydantic import WrapValidator
from starlette.convertors import Convertor, register_url_convertor

from backend.models.steers import fit_of
from backend.routes import problems
from backend.routes.asking import Asker
from backend.routes.house import BASE, House, InHouse
from backend.schema import ExamplesAsk, ExamplesCard, ExamplesShelf, Job, MakeAsk, SteerShelf
from backend.schema.pieces import WrongFields, in_pieces
from backend.schema.view import ModelName, Revision


class Hex(Convertor[str]):
    """The digits of an id, so that `steers/examples` and its like are addresses of their own."""

    regex = "[0-9a-f]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("hex", Hex())
router = APIRouter(prefix=BASE, tags=["steers"])
UNREAD = WrapValidator(lambda told, _: told)
"""A body that FastAPI, which reads on the event loop, leaves as JSON values."""


@router.get("/steers")
async def steers(
    house: InHouse,
    model: Annotated[ModelName, Query(description="the model that the steers shall fit")],
    revision: Annotated[Revision, Query(description="of the model")] = None,
) -> SteerShelf:
    """Every steer and direction of the shelf, and whether it fits this model; those that fit come first."""
    fit = await house.library.open(model, revision, "steers").ask(lambda loaded, _: fit_of(loaded), lambda loaded: 0)
    return await asyncio.to_thread(house.library.steers.shelf, fit)


@router.post("/steers", status_code=202)
async def make(ask: MakeAsk, asker: Asker) -> Job:
    """Make a steer from examples; the job's partial and result are a Made, and its curve grows while it runs."""
    return await asker.start(ask)


@router.delete("/steers/{id:hex}", status_code=204)
async def remove(id: str, house: InHouse) -> None:
    """Take a steer off the shelf and delete its numbers; those that come with the product stay."""
    await asyncio.to_thread(house.library.steers.remove, id)


@router.post("/steers/examples", status_code=201)
async def keep_examples(ask: Annotated[ExamplesAsk, UNREAD, Body()], house: InHouse) -> ExamplesCard:
    """Check labelled texts and keep them, as rows, as two sets or as a file; a steer is made from the card's id."""
    return await asyncio.to_thread(_keep_examples, house, ask)


@router.get("/steers/examples")
async def examples(house: InHouse) -> ExamplesShelf:
    """Every set of examples that is kept here."""
    return await asyncio.to_thread(house.library.examples.cards)


@router.get("/steers/examples/{id}")
async def one(id: str, house: InHouse) -> ExamplesCard:
    """The card of one set of examples."""
    return await asyncio.to_thread(house.library.examples.card, id)


def _keep_examples(house: House, told: Any) -> ExamplesCard:
    """Off the event loop, which the checking of many rows would hold. `told`: JSON values."""
    try:
        ask = in_pieces(ExamplesAsk, told)
    except WrongFields as wrong:
        raise problems.wrong_fields(str(wrong)) if isinstance(told, dict) else problems.no_object() from None
    return house.library.examples.keep(ask)
