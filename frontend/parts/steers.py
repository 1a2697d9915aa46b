"""The sliders of the model that is chosen, for the Steer page and for the names in the edit bar of every page."""

from typing import Any

from dash import Input, Output, callback

from frontend.parts import ids
from frontend.parts.asking import client
from frontend.parts.panel import Asked


@callback(
    Output(ids.STEERS, "data"),
    Output(ids.STEERS_NOTICE, "children"),
    Input(ids.STEERS_ASK, "data"),
    prevent_initial_call=True,
)
async def show_steers(asked: Asked) -> tuple[dict[str, Any], None]:
    """The shelf of sliders; asked by assets/steers.js when somebody wants it."""
    shelf = await client(None).steers(asked["model"], asked["revision"])
    return {"shelf": shelf.model_dump(mode="json"), "model": asked["model"], "revision": asked["revision"]}, None
