"""One question's way from a route to the desk and back, for as long as somebody waits for the answer."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.responses import Response

from backend import errors
from backend.desk.answers import question_key
from backend.desk.jobs import shown
from backend.desk.question import Cancel, Question
from backend.models.checks import check_named
from backend.routes.house import House, InHouse, Tab
from backend.schema import Job, Limits, View
from backend.schema.frozen import Frozen
from backend.studies import studies

Asked = TypeVar("Asked", bound=Frozen)
T = TypeVar("T")


@dataclass(frozen=True)
class Visit:
    """One request: what its question is put to, and who asks."""

    request: Request
    house: House
    tab: str

    async def answered(
        self,
        instrument: str,
        ask: Asked,
        answer: Callable[[Any, Asked, Limits, Cancel], Frozen],
        cost: Callable[[Any, Asked, Limits], int],
        more: str = "",
    ) -> Response:
        """The answer as the response, in the bytes that the desk keeps.

        `ask` has a `view`, or `model` and `revision`; `cost` is in bytes; `more`: what decides the answer beside the
        ask as `question_key` takes it. Raises what the desk and the instrument raise.
        """
        limits = self.house.limits
        check_views(ask, limits.edits)
        question = Question(
            instrument,
            question_key(f"{instrument} {more}" if more else instrument, ask),
            lambda loaded, cancel: answer(loaded, ask, limits, cancel),
            lambda loaded: cost(loaded, ask, limits),
            check=(lambda loaded: None) if hasattr(ask, "view") else (lambda loaded: check_named(loaded, ask)),
        )
        about: Any = getattr(ask, "view", ask)
        asking = self.house.desk.ask(about.model, about.revision, question, tab=self.tab)
        return Response(await while_here(self.request, asking), media_type="application/json")

    async def start(self, ask: studies.Ask) -> Job:
        """The job that answers a study; its partial and result are the answer."""
        check_views(ask, self.house.limits.edits)
        job = await while_here(self.request, self.house.studies.start(ask, owner=self.tab))
        return shown(job, self.tab)


async def _visit(request: Request, house: InHouse, tab: Tab) -> Visit:
    return Visit(request, house, tab)


Asker = Annotated[Visit, Depends(_visit)]


async def while_here(request: Request, answering: Coroutine[Any, Any, T]) -> T:
    """Await an answer, or drop it as soon as the client has left. Raises `Cancelled` then."""
    task = asyncio.ensure_future(answering)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise errors.Cancelled("The question was dropped", "the client closed the connection", "Ask again")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def check_views(ask: Frozen, most: int) -> None:
    """Raise `BadQuestion` when a view of the question carries more edits than this server allows."""
    for view in (getattr(ask, name, None) for name in ("view", "source")):
        if isinstance(view, View):
            check_edits(view, most)


def check_edits(view: View, most: int) -> None:
    """Raise `BadQuestion` when a view carries more edits than this server allows."""
    if len(view.edits) > most:
        raise errors.BadQuestion(
            "The view carries too many edits",
            f"it has {len(view.edits)}, and this server allows {most}",
            "Take some out",
            needed=len(view.edits),
            available=most,
        )
