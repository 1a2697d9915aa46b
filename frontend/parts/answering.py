"""Questions of a panel that are answered at once: the browser names one, the client asks it, the browser draws."""

from collections.abc import Callable, Mapping
from typing import Any

import plotly.graph_objects as go
from dash import dcc
from pydantic import BaseModel

from frontend.figures.theme import Theme
from frontend.parts.asking import client
from frontend.parts.panel import Asked, asked_by, heard, theme_of

Draw = Callable[[Mapping[str, Any], Theme], go.Figure]


class Answering:
    """Ids of one question. `name` begins all of them; assets/panel_asks.js writes the first store."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ask, self.told, self.notice, self.figure = (
            f"{name}-ask", f"{name}-told", f"{name}-notice", f"{name}-figure",
        )  # fmt: skip
        """Stores: {name, kind, ask, key}, and {name, answer, key}; where a refusal stands; a picture, if any."""

    def stores(self) -> list[dcc.Store]:
        """What the panel must contain."""
        return [dcc.Store(id=name) for name in (self.ask, self.told)]


def answer(ids: Answering, forms: Mapping[str, type[BaseModel]], draw: Draw | None = None) -> None:
    """Register the callbacks of one question; `forms` are what it may be asked with, by the name in the browser."""
    if draw is None:

        @asked_by(ids.ask, ids.told, ids.notice)
        async def ask(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
            return await told(asked, forms, tab), None

    else:

        @asked_by(ids.ask, ids.told, ids.notice, ids.figure)
        async def show(asked: Asked, theme: str | None, tab: str | None) -> tuple[go.Figure, dict[str, Any], None]:
            found = await told(asked, forms, tab)
            return draw(found["answer"], theme_of(theme)), found, None

    heard("panelAsks", {"told": ids.told})


async def told(asked: Asked, forms: Mapping[str, type[BaseModel]], tab: str | None) -> dict[str, Any]:
    """The answer, with the key of its question."""
    found = await client(tab).raw(forms[asked["kind"]].model_validate(asked["ask"]))
    return {"name": asked["name"], "answer": found, "key": asked["key"]}
