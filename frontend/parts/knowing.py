"""Long questions that are known by what they ask: what the server has answered before is found without asking again."""

from collections.abc import Mapping
from typing import Any

from dash import Input, Output, State, callback, dcc

from backend.schema import LongAsk
from frontend.parts import ids as shell
from frontend.parts.asking import client
from frontend.parts.following import Draw, Following, follow
from frontend.parts.panel import Asked, heard
from lmscope.client import Refused


class Knowing(Following):
    """Ids of one kind of question; assets/panel_answers.js writes `find` too."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.find, self.known = f"{name}-find", f"{name}-known"
        """Stores: {key, kind, ask}, and {key, id} of the job that has answered it, or None."""

    def stores(self) -> list[dcc.Store]:
        """What the panel must contain."""
        return [*super().stores(), *(dcc.Store(id=name) for name in (self.find, self.known))]


def know(ids: Knowing, forms: Mapping[str, type[LongAsk]], draw: Draw | None = None) -> None:
    """Register the callbacks of one kind of question: those of a job, and the look for one that has answered it."""

    @callback(Output(ids.known, "data"), Input(ids.find, "data"), State(shell.TAB, "data"), prevent_initial_call=True)
    async def find(asked: Asked, tab: str | None) -> dict[str, Any]:
        return await found(asked, forms, tab)

    follow(ids, forms, draw, hears="panelAnswers")
    heard("panelAnswers", {"knew": ids.known})


async def found(asked: Asked, forms: Mapping[str, type[LongAsk]], tab: str | None) -> dict[str, Any]:
    """The job that has answered this; a refusal means that there is none, for nobody has asked yet."""
    try:
        job = await client(tab).known(forms[asked["kind"]].model_validate(asked["ask"]))
    except Refused:
        job = None
    return {"key": asked["key"], "id": job and job.id}
