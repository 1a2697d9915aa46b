"""The shelf as the picker shows it: asked for when the page opens and whenever a model was loaded."""

from typing import Any

from dash import Input, Output, callback

from backend.schema import ModelCard, Models, View
from frontend.parts import ids
from frontend.parts.asking import client

ORDER = ("loaded", "loading", "cached", "known", "failed")


def card_of(shelf: Models, view: View) -> ModelCard | None:
    """The best card of the model that a view names: of its revision, and one that works before one that does not."""
    fits = (card for card in shelf.models if card.name == view.model and view.revision in (None, card.revision))
    return min(fits, key=lambda card: ORDER.index(card.state), default=None)


@callback(
    Output(ids.SHELF, "data"),
    Output(ids.SHELF_NOTICE, "children"),
    Input(ids.SHELF_DUE, "data"),
)
async def show_shelf(_due: int | None) -> tuple[dict[str, Any], None]:
    """The models of the server."""
    return (await client(None).models()).model_dump(mode="json"), None
