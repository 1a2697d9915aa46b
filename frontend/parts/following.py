"""Long questions of a panel: a job is started, looked at until it ends, and stopped; the same three acts everywhere."""

from asyncio import gather
from collections.abc import Callable, Mapping
from typing import Any

import plotly.graph_objects as go
from dash import Input, Output, State, callback, dcc, no_update
from pydantic import BaseModel

from backend.schema import Job
from frontend.figures.theme import Theme
from frontend.parts import ids as shell
from frontend.parts.asking import client
from frontend.parts.panel import Asked, asked_by, heard, theme_of
from lmscope.client import Refused

Answer = Mapping[str, Any]
Draw = Callable[[Answer, Mapping[str, Any], Theme], go.Figure]
"""What a job found, how it shall be drawn, and the theme."""


class Following:
    """Ids of one panel's job. `name` begins all of them; assets/panel_jobs.js writes the first three stores."""

    def __init__(self, name: str) -> None:
        self.ask, self.look, self.stop = f"{name}-ask", f"{name}-look", f"{name}-stop"
        self.began, self.told = f"{name}-began", f"{name}-told"
        """Stores: {key, turn, jobs: {name: id}}, and {answer, job, key}."""
        self.notice, self.look_notice = f"{name}-notice", f"{name}-look-notice"
        self.figure = f"{name}-figure"

    def stores(self) -> list[dcc.Store]:
        """What the panel must contain."""
        return [dcc.Store(id=name) for name in (self.ask, self.look, self.stop, self.began, self.told)]


def follow(
    ids: Following, forms: Mapping[str, type[BaseModel]], draw: Draw | None = None, hears: str = "panelJobs"
) -> None:
    """Register the callbacks of one panel; `forms` are what its jobs are asked with, by the name in the browser.

    `hears`: the functions of an asset that are told, `began` and `told`.
    """

    @asked_by(ids.ask, ids.began, ids.notice)
    async def start(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
        return await started(asked, forms, tab), None

    stopped_by(ids.stop, ids.notice)

    if draw is None:

        @asked_by(ids.look, ids.told, ids.look_notice)
        async def look(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
            return await told(asked, tab), None

    else:

        @asked_by(ids.look, ids.told, ids.look_notice, ids.figure)
        async def show(asked: Asked, theme: str | None, tab: str | None) -> tuple[Any, dict[str, Any], None]:
            found = await told(asked, tab)
            figure: go.Figure | Any = no_update
            if found["answer"] is not None:
                figure = draw(found["answer"], found["drawn"], theme_of(theme))
            return figure, found, None

    heard(hears, {"began": ids.began, "told": ids.told})


def stopped_by(stop: str, notice: str) -> None:
    """Register the callback that ends jobs; both are ids, and the place of refusals is told that it has happened."""

    @callback(Output(notice, "data-stopped"), Input(stop, "data"), State(shell.TAB, "data"), prevent_initial_call=True)
    async def end(asked: Asked, tab: str | None) -> str:
        return await stopped(asked, tab)


async def started(asked: Asked, forms: Mapping[str, type[BaseModel]], tab: str | None) -> dict[str, Any]:
    """Start what is asked, one job a form; an equal one that runs is shared."""
    jobs = {
        each["kind"]: await client(tab).raw(forms[each["kind"]].model_validate(each["ask"])) for each in asked["asks"]
    }
    return {"key": asked["key"], "turn": asked["turn"], "jobs": {kind: job["id"] for kind, job in jobs.items()}}


async def told(asked: Asked, tab: str | None) -> dict[str, Any]:
    """How far a job is and what it has found; one that no server remembers has been lost."""
    try:
        job = await client(tab).job(asked["id"])
    except Refused as refused:
        if refused.problem.status != 404:
            raise
        job = Job(id=asked["id"], kind="", state="lost", what="", problem=refused.problem, created=0, updated=0)
    answer = job.result or job.partial
    bare = job.model_copy(update={"result": None, "partial": None}).model_dump(mode="json")
    return {"answer": answer, "job": bare, "key": asked["key"], "drawn": asked.get("drawn") or {}}


async def stopped(asked: Asked, tab: str | None) -> str:
    """End jobs that nobody looks at any more, or that a person stops."""
    await gather(*(client(tab).cancel_job(id) for id in asked["ids"]), return_exceptions=True)
    return "yes"
