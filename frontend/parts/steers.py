"""The sliders of the model that is chosen, for the Steer page and for the names in the edit bar of every page."""

from typing import Any

from frontend.parts import ids
from frontend.parts.asking import client
from frontend.parts.panel import Asked, asked_by


@asked_by(ids.STEERS_ASK, ids.STEERS, ids.STEERS_NOTICE, by_tab=False)
async def show_steers(asked: Asked) -> tuple[dict[str, Any], None]:
    """The shelf of sliders; asked by assets/steers.js when somebody wants it."""
    shelf = await client(None).steers(asked["model"], asked["revision"])
    return {"shelf": shelf.model_dump(mode="json"), "model": asked["model"], "revision": asked["revision"]}, None
