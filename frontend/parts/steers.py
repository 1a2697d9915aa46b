"""The sliders of the model that is chosen, for the Steer page and for the names in the edit bar of every page."""

from typing import Any

from dash import Input, Output, callback
from dash.exceptions import PreventUpdate

from frontend.parts import ids
from frontend.parts.asking import client


@callback(
    Output(ids.STEERS, "data"),
    Output(ids.STEERS_NOTICE, "children"),
    Input(ids.STEERS_ASK, "data"),
)
async def show_steers(asked: dict[str, Any] | None) -> tuple[dict[str, Any], None]:
    """The shelf of sliders; asked by assets/steers.js when somebody wants it."""
    if asked is None:
        raise PreventUpdate
    shelf = await client(None).steers(asked["model"], asked["revision"])
    return {"shelf": shelf.model_dump(mode="json"), "model": asked["model"], "revision": asked["revision"]}, None
