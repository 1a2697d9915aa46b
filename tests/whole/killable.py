"""Real servers as processes of their own, which may be killed in the middle of any stage of a job.

The processes are forked from one that has imported everything, so that a start costs a moment.
"""

import asyncio
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx
import uvicorn

import backend.app
from backend.desk import running
from backend.models import catalogue
from backend.models.cache import ModelsCache, is_whole
from backend.models.catalogue import PackageModel
from backend.settings import Settings
from backend.studies.asking import OnModel
from frontend import settings as pages
from frontend.app import create_app
from lmscope import serving
from lmscope.client import AsyncClient

TAB = "7f8b0d52-6d3c-4d0a-9d3b-1f4f3a6d2c11"
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["tests.whole.uncollected", "tests.whole.killable", "backend.models.opening", "tests.tiny"]
)


@dataclass(frozen=True)
class Place:
    """A cache folder with its database, a package model that pip finds, and the stage in which servers wait."""

    root: Path
    model: PackageModel | None
    small: Path
    """A model that every server opens at its start."""

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    def hold(self, stage: str) -> None:
        """From now on every server waits where a job says that it is at this stage; "" lets all go."""
        (self.root / "hold").write_text(stage)

    def held(self, what: str) -> bool:
        stage = (self.root / "hold").read_text()
        return bool(stage) and what.startswith(stage) and str(self.small) not in what

    def whole(self) -> list[str]:
        """The visible folders of the cache. Fails when one of them is not whole."""
        models = ModelsCache(self.cache).models
        folders = [path for path in models.glob("*") if not path.name.startswith(".")]
        assert all(map(is_whole, folders)), folders
        return [folder.name for folder in folders]

    def settings(self) -> Settings:
        return Settings(
            models=(str(self.small),), cache_dir=self.cache, database_url=None, device="cpu", memory_bytes=10**9
        )


@dataclass(frozen=True)
class Server:
    """One running server."""

    process: ForkServerProcess
    client: httpx.Client
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()

    def job(self, id: str) -> dict[str, Any]:
        answer = self.client.get(f"jobs/{id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def until(self, id: str, **known: str) -> dict[str, Any]:
        """Wait until the job begins to say this of itself."""
        while not all((job := self.job(id))[name].startswith(value) for name, value in known.items()):
            assert job["state"] in ("queued", "running"), job
        return job


@contextmanager
def serve(place: Place, port: int = 0) -> Iterator[Server]:
    """A server with its pages, once it answers."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_run, args=(place, port, theirs), daemon=True)
    process.start()
    theirs.close()
    address = ours.recv()
    with httpx.Client(base_url=f"{address}/api/v1/", timeout=60, headers={"X-Lmscope-Tab": TAB}) as client:
        try:
            yield Server(process, client, address)
        finally:
            ours.close()
            process.kill()
            process.join()


def _run(place: Place, port: int, told: Any) -> None:
    gc.freeze()
    gc.enable()  # as it is not where this was forked from
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        del os.environ[name]
    os.environ["PIP_CONFIG_FILE"] = str(place.root / "pip.conf")
    if place.model is not None:
        catalogue.CATALOGUE[place.model.name] = place.model
    _wait_at_stages(place)
    running.RECORD_S = 0.0
    bound = serving.listen("127.0.0.1", port)
    app = backend.app.create_app(place.settings())
    create_app(pages.Settings(), AsyncClient("http://127.0.0.1", app=app), app)
    config = uvicorn.Config(app, log_config=None, ws="websockets-sansio", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)

    async def run() -> None:
        async def tell() -> None:
            while not server.started:
                await asyncio.sleep(0.01)
            told.send(f"http://127.0.0.1:{bound.getsockname()[1]}")

        telling = asyncio.create_task(tell())
        await server.serve(sockets=[bound])
        telling.cancel()

    asyncio.run(run())


def _wait_at_stages(place: Place) -> None:
    """A job on a thread of its own waits where it reports; a study, which shares the loop, at its next question."""
    report, ask = running.Reporting.__call__, OnModel.patiently
    stage = ""

    def held(self: running.Reporting, what: str, done: float, total: float | None, unit: str) -> None:
        nonlocal stage
        report(self, what, done, total, unit)
        if threading.current_thread() is threading.main_thread():
            stage = what
            return
        while place.held(what):
            report(self, what, done, total, unit)

    async def held_ask(self: OnModel, *args: Any) -> Any:
        while place.held(stage):
            await asyncio.sleep(0.01)
        return await ask(self, *args)

    running.Reporting.__call__ = held  # type: ignore[method-assign]
    OnModel.patiently = held_ask  # type: ignore[method-assign]
