"""One FastAPI application out of all rooms. `python -m backend.app` prints its OpenAPI document."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp

from backend.access.guard import Guard
from backend.desk.desk import Desk
from backend.models.cache import sweep_all
from backend.models.shelf import Shelf
from backend.routes import (
    attention,
    capture,
    cell,
    contributions,
    docs,
    heads,
    health,
    jobs,
    known,
    links,
    metrics,
    models,
    notes,
    patch,
    problems,
    sets,
    steer,
    steer_studies,
    steers,
    studies,
    tabs,
    tokens,
    trace,
    two_models,
    unknown,
    values,
    vectors,
    weight_studies,
    weights,
    write,
)
from backend.routes import house as houses
from backend.routes.body import BodyLimit
from backend.routes.envelope import Envelope
from backend.routes.head import Head
from backend.settings import Settings
from backend.store import Store, open_store
from backend.studies.library import Library
from backend.studies.studies import Studies
from lmscope import __version__

ABOUT = "A language model, opened while it works: attention, entropy and edits of any head, on your own text."
UPLOADS = ("vectors", "sets", "notes/import", "steers/examples")
"""Paths that take what people keep in files."""
PAGE_UPLOADS = ("/examples",)
"""Those of the pages, which send on what the browser has read."""
NOT_MEASURED: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


class Server(FastAPI):
    """FastAPI whose outermost layers are ours, whatever is added to it later."""

    settings: Settings

    def build_middleware_stack(self) -> ASGIApp:
        """Id and log, then who may come in, then how much is read, then everything else."""
        limits = self.settings.limits
        uploads = {f"{houses.BASE}/{path}": limits.upload_bytes for path in UPLOADS}
        uploads |= dict.fromkeys(PAGE_UPLOADS, limits.upload_bytes)
        routes = super().build_middleware_stack()
        if isinstance(routes, ServerErrorMiddleware):  # it answers in plain text; the envelope answers with a Problem
            routes = routes.app
        inner = BodyLimit(Head(routes), limits.body_bytes, uploads)
        guard = Guard(inner, loopback=self.settings.loopback, key=self.settings.key)
        return Envelope(guard, self.state.meters)


def create_app(
    settings: Settings | None = None, shelf: houses.Shelf | None = None, store: Store | None = None
) -> FastAPI:
    """The backend as an application; what it needs is made when it starts and ended when it stops.

    Pages may be added to it afterwards: what is under /api never reaches them. Raises `pydantic.ValidationError` in
    words when others could connect and there is no key.
    """
    settings = settings or Settings()
    app = Server(
        title="LMScope",
        version=__version__,
        description=ABOUT,
        openapi_url=f"{houses.BASE}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        telemetry=NOT_MEASURED,
        lifespan=_lifespan(settings, shelf, store),
    )
    app.settings = settings
    app.state.meters = metrics.Meters()
    problems.install(app)
    for room in (
        tokens,
        attention,
        heads,
        trace,
        two_models,
        cell,
        contributions,
        patch,
        steer,
        studies,
        write,
        capture,
        vectors,
        sets,
        steers,
        steer_studies,
        links,
        models,
        known,
        jobs,
        tabs,
        health,
        values,
        weights,
        weight_studies,
        notes,
    ):
        app.include_router(room.router, responses=problems.DOCUMENTED)
    app.include_router(docs.router)
    app.include_router(metrics.router)
    app.include_router(unknown.router)
    return app


def _lifespan(settings: Settings, shelf: houses.Shelf | None, store: Store | None) -> Any:
    @asynccontextmanager
    async def open_house(app: FastAPI) -> AsyncIterator[None]:
        models_shelf = shelf or open_shelf(settings)
        remembered = await asyncio.to_thread(open_settings_store, settings) if store is None else store
        desk = Desk(models_shelf, settings.limits, jobs=remembered.jobs)
        await asyncio.to_thread(sweep_all, settings.cache_dir)
        library = Library.below(settings.cache_dir, settings.limits, desk)
        long = Studies(desk, library)
        try:
            await desk.take_up(long.kinds())
            warming = [await desk.load(name) for name in settings.models]
            app.state.house = houses.House(
                models_shelf, desk, settings.limits, library, long, remembered, tuple(job.id for job in warming)
            )  # fmt: skip
            yield
        finally:
            await desk.close()
            await asyncio.to_thread(remembered.close)

    return open_house


def open_settings_store(settings: Settings) -> Store:
    """The database that the settings describe. Raises `StoreUnusable`."""
    url = settings.database_url
    return open_store(None if url is None else url.get_secret_value(), settings.cache_dir)


def open_shelf(settings: Settings) -> Shelf:
    """The shelf that the settings describe."""
    token = settings.hub_token
    return Shelf(
        cache_dir=settings.cache_dir,
        budget_bytes=settings.memory_bytes,
        device=settings.device,
        dtype=settings.dtype,
        allow=settings.allow,
        hub_token=None if token is None else token.get_secret_value(),
        kept_bytes=settings.kept_bytes,
        models=settings.models,
    )


def configure_logs(settings: Settings) -> None:
    """Write every log line of this process to stderr in one form, with the request's id."""
    before: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]
    last = (
        structlog.processors.JSONRenderer()
        if settings.log_form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    form = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(form)
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    if settings.log_level != "debug":  # it tells of every start that there was nothing to migrate
        logging.getLogger("alembic").setLevel(logging.WARNING)


def openapi_text() -> str:
    """The OpenAPI document as it is committed."""
    return json.dumps(create_app(Settings.model_construct()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
