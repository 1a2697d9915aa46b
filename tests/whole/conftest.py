"""The whole server over tiny open models on a real shelf."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI

from backend.app import create_app
from backend.settings import Settings
from lmscope.client import AsyncClient
from tests.tiny import folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two tiny models as a person would have them: folders on disk."""
    place = tmp_path_factory.mktemp("models")
    return {kind: folder(kind, place / kind) for kind in ("llama", "gpt2")}


@pytest.fixture
def settings(folders: dict[str, Path], tmp_path: Path) -> Settings:
    names = tuple(map(str, folders.values()))
    return Settings(models=names, cache_dir=tmp_path, memory_bytes=10**9, device="cpu", wait_s=30, database_url=None)


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        for job in app.state.house.warming:
            await app.state.house.desk.jobs.ended(job)
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(app=app) as client:
        yield client


@pytest.fixture
async def address(app: FastAPI) -> AsyncIterator[str]:
    """The application behind a real server on a free port."""
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await serving
