"""Running the servers: one process and one port by default, or each side apart; progress of loading in the terminal."""

import asyncio
import errno
import gc
import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvicorn
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from backend.errors import LmscopeError
from backend.schema import Job
from backend.schema.reasons import by_field
from lmscope.client import AsyncClient
from lmscope.refused import sentences

if TYPE_CHECKING:
    from fastapi import FastAPI

    from backend.settings import Settings
    from frontend.settings import Settings as PageSettings

FAREWELL_S = 3
"""Seconds that open streams get to end after Ctrl+C."""
LOOK_S = 0.3
BEAT_S = 0.05
MEGABYTE = 1e6


class CannotServe(Exception):
    """Why the server does not start, and what to do instead."""


@contextmanager
def starting() -> Iterator[None]:
    """Read the two sides without garbage collection, which would go through all of their objects again and again.

    They stay until the process ends, so no later collection goes through them either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def backend_app(settings: "Settings") -> "FastAPI":
    """The backend alone. Raises `LmscopeError` for a model it could never load or a database it cannot use."""
    from backend.app import configure_logs, create_app, open_settings_store, open_shelf

    configure_logs(settings)
    quiet()
    shelf = open_shelf(settings)
    for name in settings.models:
        shelf.card(name)
    return create_app(settings, shelf, open_settings_store(settings))


def quiet() -> None:
    """Libraries neither draw bars of their own into ours nor log what only they care about."""
    from huggingface_hub.utils.tqdm import disable_progress_bars
    from transformers.utils import logging as transformers

    disable_progress_bars()
    transformers.disable_progress_bar()
    for name in ("httpx", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def with_pages(app: "FastAPI", settings: "Settings", pages: "PageSettings") -> AsyncClient:
    """Put the pages on the backend's own application; the client they ask through."""
    from frontend.app import create_app

    client = client_of(app, settings)
    create_app(pages, client, server=app)
    return client


def client_of(app: "FastAPI", settings: "Settings") -> AsyncClient:
    """A client of the backend in this process."""
    return AsyncClient(
        "http://127.0.0.1", app=app, key=None if settings.key is None else settings.key.get_secret_value()
    )


def pages_app(pages: "PageSettings") -> tuple[Any, AsyncClient]:
    """The pages alone, guarded as the backend is, and the client through which they ask it."""
    from backend.access.guard import Guard, names_loopback
    from frontend.app import create_app

    if pages.key is None and not names_loopback(pages.host):
        raise CannotServe(
            f"{pages.host} lets other machines connect, and there is no key. Set LMSCOPE_KEY, or listen on 127.0.0.1."
        )
    key = None if pages.key is None else pages.key.get_secret_value()
    client = AsyncClient(pages.backend_url, key=key)
    dash = create_app(pages, client)
    return Refusing(Guard(dash.server, loopback=names_loopback(pages.host), key=pages.key)), client


class Refusing:
    """Answers what the guard raises."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request or websocket."""
        from starlette.responses import Response

        try:
            await self._app(scope, receive, send)
        except LmscopeError as error:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": error.what[:100]})
                return
            headers = {"WWW-Authenticate": 'Basic realm="LMScope", charset="UTF-8"'} if error.status == 401 else None
            body = error.problem().model_dump_json()
            await Response(body, error.status, headers, "application/problem+json")(scope, receive, send)


class House:
    """What runs in this process beside the pages: nothing, when the backend is elsewhere."""

    def jobs(self) -> tuple[Job, ...]:
        """Long work, as it stands."""
        return ()

    async def close(self) -> None:
        """Turn everybody away."""


class Backend(House):
    """The backend of this process, once it has started."""

    def __init__(self, app: "FastAPI") -> None:
        self._app = app

    def jobs(self) -> tuple[Job, ...]:
        """Long work, as it stands."""
        jobs: tuple[Job, ...] = self._app.state.house.desk.jobs.all()
        return jobs

    async def close(self) -> None:
        """Turn everybody away."""
        await self._app.state.house.desk.close()


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises `CannotServe` in words when the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), port))
    except OSError as error:
        bound.close()
        raise CannotServe(_why_not(error, host, port)) from error
    return bound


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is taken; another LMScope may be running at {address(host, port)}. "
            f"Open that, stop it, or choose another port: lmscope serve --port {port + 1}"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"Port {port} is not yours to use ({error.strerror}); ports from 1024 on are: --port 8050"
    return f"{host} is no address of this machine ({error.strerror or error}); try --host 127.0.0.1"


def address(host: str, port: int) -> str:
    """What a person types into the browser."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def run(app: Any, bound: socket.socket, opened: str, client: AsyncClient, console: Console, house: House) -> None:
    """Serve until Ctrl+C. `opened` is said when the address answers; then jobs are shown until none is left."""
    config = uvicorn.Config(
        app, log_config=None, log_level="warning", access_log=False, timeout_graceful_shutdown=FAREWELL_S,
        ws_per_message_deflate=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(server, bound, opened, client, console, house))
    if not server.started:
        raise CannotServe("The server did not start; the log above says why.")
    console.print("Stopped.")


async def _serve(
    server: uvicorn.Server, bound: socket.socket, opened: str, client: AsyncClient, console: Console, house: House
) -> None:
    beside = [asyncio.create_task(_tell(server, opened, console, house)), asyncio.create_task(_end(server, house))]
    try:
        await server.serve(sockets=[bound])
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await client.aclose()


async def _tell(server: uvicorn.Server, opened: str, console: Console, house: House) -> None:
    while not server.started:
        await asyncio.sleep(BEAT_S)
    console.print(f"[bold]LMScope[/bold] is open at [bold]{opened}[/bold]   (Ctrl+C stops it)", highlight=False)
    await show_jobs(house.jobs, console)


async def _end(server: uvicorn.Server, house: House) -> None:
    """Streams last as long as their tab: at the end the desk has to close first, or the server waits for them."""
    while not (server.started and server.should_exit):
        await asyncio.sleep(BEAT_S)
    await house.close()


async def show_jobs(jobs: Callable[[], Iterable[Job]], console: Console) -> None:
    """Show jobs until none is left: bars in a terminal, a line for each new step elsewhere."""
    with Bars(console) as bars:
        while True:
            seen = tuple(jobs())
            for job in seen:
                bars.show(job)
            if not any(job.state in ("queued", "running") for job in seen):
                return
            await asyncio.sleep(LOOK_S)


class Bars:
    """Progress of long work in the terminal; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"), TimeRemainingColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}
        self._said: set[tuple[str, str]] = set()

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, job: Job) -> None:
        """One job as it stands."""
        if job.state in ("queued", "running"):
            self.step(job.id, job.what, job.done, job.total, job.unit)
        elif (job.id, job.state) not in self._said:
            self._said.add((job.id, job.state))
            self.remove(job.id)
            self._console.print(ended(job), highlight=False, markup=False)

    def step(self, id: str, what: str, done: float, total: float | None, unit: str) -> None:
        """Where some work stands."""
        if not self._console.is_terminal:
            if (id, what) not in self._said:
                self._said.add((id, what))
                self._console.print(f"{what} …", highlight=False, markup=False)
            return
        if id not in self._tasks:
            self._tasks[id] = self._progress.add_task(what, amount="")
        self._progress.update(
            self._tasks[id], description=what, completed=done, total=total, amount=amount(done, total, unit),
            refresh=True,
        )  # fmt: skip

    def remove(self, id: str) -> None:
        """The work has ended."""
        if id in self._tasks:
            self._progress.remove_task(self._tasks.pop(id))


def ended(job: Job) -> str:
    """How a job ended, in a sentence."""
    if job.problem is not None:
        return sentences(job.problem)
    model = (job.result or {}).get("model")
    if job.state == "done":
        return f"{model} is loaded." if model else f"{job.what}: done."
    return f"{job.what}: {job.state}."


def amount(done: float, total: float | None, unit: str) -> str:
    """`12 of 103 MB`."""
    if total is None:
        return ""
    if unit == "bytes":
        return f"{done / MEGABYTE:,.0f} of {total / MEGABYTE:,.0f} MB"
    return f"{done:,.0f} of {total:,.0f} {unit}".strip()


def errors_of(error: ValidationError) -> Iterable[str]:
    """What is wrong, a line each, without the values (a key may be among them)."""
    prefix = "LMSCOPE_" if error.title == "Settings" else ""
    for field, reason in by_field(error.errors(include_url=False, include_input=False)).items():
        name = f"{prefix}{field.upper() if prefix else field}: " if field else ""
        yield name + reason
