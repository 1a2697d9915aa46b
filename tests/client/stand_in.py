"""A server that speaks LMScope's routes with made-up answers and remembers who asked for what."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from backend.schema import (
    FiresAsk,
    HeadAsk,
    HeadsAsk,
    Health,
    Imported,
    Job,
    LoadAsk,
    LookupAsk,
    ModelCard,
    Models,
    Note,
    NoteAsk,
    Notes,
    OverviewAsk,
    Problem,
    SearchAsk,
    Source,
    TabEvent,
    TokensAsk,
    TraceAsk,
    ValueAsk,
    Waiting,
)
from tests.figures import made_up_values
from tests.figures.answers import MadeUp

BUSY = Problem(
    type="busy", status=503, what="The queue is full", why="64 questions wait for m", instead="Ask again later",
    needed=65, available=64, request="r1",
)  # fmt: skip


class StandIn:
    """`app` is the server; the rest is what it saw and what it is told to do."""

    def __init__(self) -> None:
        self.made = MadeUp()
        self.seen: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.refuse: list[Problem] = []
        self.steps = 3
        self.state = "queued"
        self.left = asyncio.Event()
        self.app = FastAPI()
        self.route()

    def job(self) -> Job:
        """The loading job as it stands; each look moves it on."""
        self.steps -= self.state == "running"
        if self.state in ("queued", "running"):
            self.state = "running" if self.steps else "done"
        return Job(id="j 1", kind="models.load", state=self.state, what="loading m", done=3 - self.steps, total=3,
                   unit="steps", created=0, updated=0)  # fmt: skip

    def refused(self) -> Response | None:
        """The refusal that was ordered, if any."""
        if not self.refuse:
            return None
        problem = self.refuse.pop(0)
        return Response(problem.model_dump_json(), problem.status, media_type="application/problem+json")

    def route(self) -> None:
        """All routes of the contract."""
        app, made = self.app, self.made

        @app.middleware("http")
        async def remember(request: Request, call_next: Any) -> Any:
            self.seen.append((request.method, request.scope["raw_path"].decode() + "?" + request.url.query))
            self.headers.append(dict(request.headers))
            return self.refused() or await call_next(request)

        @app.post("/api/v1/tokens")
        async def tokens(ask: TokensAsk) -> Any:
            return made.tokens(ask.view)

        @app.post("/api/v1/attention")
        async def attention(ask: OverviewAsk) -> Any:
            return made.overview(ask)

        @app.post("/api/v1/attention/head")
        async def head(ask: HeadAsk) -> Any:
            return made.head(ask)

        @app.post("/api/v1/heads")
        async def heads(ask: HeadsAsk) -> Any:
            return made.all_heads(ask)

        @app.post("/api/v1/trace")
        async def trace(ask: TraceAsk) -> Any:
            return made.trace(ask)

        @app.post("/api/v1/values")
        async def value(ask: ValueAsk) -> Any:
            return made_up_values.value(ask)

        @app.post("/api/v1/values/fires")
        async def fires(ask: FiresAsk) -> Any:
            return made_up_values.fires(ask)

        @app.post("/api/v1/values/search")
        async def search(ask: SearchAsk) -> Any:
            return made_up_values.search(ask)

        @app.post("/api/v1/values/lookup")
        async def lookup(ask: LookupAsk) -> Any:
            return made_up_values.lookup(ask)

        note = Note(digest="0" * 64, part="value", layer=1, index=5, name="Cities", updated=1)

        @app.get("/api/v1/notes")
        @app.get("/api/v1/notes/export")
        async def notes() -> Notes:
            return Notes(notes=(note,))

        @app.put("/api/v1/notes")
        async def write(ask: NoteAsk) -> Note | None:
            return note if ask.name else None

        @app.post("/api/v1/notes/import")
        async def take(notes: Notes) -> Imported:
            return Imported(written=len(notes.notes), older=0)

        @app.get("/api/v1/models")
        async def models() -> Models:
            card = ModelCard(name="m", state="loaded", source=Source(kind="package", name="m"))
            return Models(default="m", budget_bytes=10, used_bytes=1, models=(card,))

        @app.post("/api/v1/models", status_code=202)
        async def load(ask: LoadAsk) -> Job:
            return self.job()

        @app.delete("/api/v1/models/{name:path}", status_code=204)
        async def unload(name: str) -> None:
            self.seen.append(("unloaded", name))

        @app.get("/api/v1/jobs")
        async def jobs() -> tuple[Job, ...]:
            return (self.job(),)

        @app.get("/api/v1/jobs/{id}")
        async def job(id: str) -> Job:
            self.seen.append(("looked at", id))
            return self.job()

        @app.delete("/api/v1/jobs/{id}")
        async def cancel(id: str) -> Job:
            self.state = "cancelled"
            return self.job()

        @app.delete("/api/v1/tabs/{tab}", status_code=204)
        async def stop(tab: str) -> None:
            self.seen.append(("stopped", tab))

        @app.get("/api/v1/tabs/{tab}/events")
        async def events(tab: str) -> StreamingResponse:
            return StreamingResponse(self.events(), media_type="text/event-stream")

        @app.get("/api/v1/health")
        async def health() -> Health:
            return Health(status="alive", version="0.1.0")

        @app.get("/api/v1/ready")
        async def page() -> HTMLResponse:
            return HTMLResponse("<html>")

    async def events(self) -> AsyncIterator[str]:
        """Three situations, with everything between them that a stream may hold, then silence until the reader goes."""
        try:
            yield ": hello\n\nretry: 1000\n\nevent: other\ndata: {}\n\n"
            for position in (2, 1, 0):
                waiting = Waiting(question="q", instrument="attention", model="m", position=position,
                                  state="waiting" if position else "running")  # fmt: skip
                yield f"event: tab\ndata: {TabEvent(questions=(waiting,)).model_dump_json()}\n\n"
            await asyncio.sleep(60)
        finally:
            self.left.set()
