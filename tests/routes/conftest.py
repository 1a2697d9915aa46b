"""The application over tiny open models, asked in process."""

import threading
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from backend.app import create_app
from backend.settings import Settings
from tests.desk.pretend import PretendShelf
from tests.tiny import loaded


class TinyShelf(PretendShelf):
    """Real, tiny, open models: `tiny-llama` is open, `tiny-gpt2` opens when it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.tiny = {f"tiny-{kind}": loaded(kind) for kind in ("llama", "gpt2")}

    def card(self, name, revision=None):
        return super().card(name if name in self.tiny else "unknown", revision)

    def load(self, name, revision, progress):
        super().load(name, revision, progress)
        self.models[name] = self.tiny[name]
        return self.tiny[name]


@pytest.fixture(scope="session")
def tiny_shelf() -> TinyShelf:
    return TinyShelf()


@pytest.fixture
def shelf(tiny_shelf: TinyShelf) -> TinyShelf:
    tiny_shelf.models.clear()
    tiny_shelf.step_s, tiny_shelf.held_at, tiny_shelf.open = 0.0, None, threading.Event()
    tiny_shelf.models["tiny-llama"] = tiny_shelf.tiny["tiny-llama"]
    return tiny_shelf


@pytest.fixture
def settings() -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60)


@pytest.fixture
async def app(settings: Settings, shelf: TinyShelf) -> AsyncIterator[FastAPI]:
    app = create_app(settings, shelf)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8050/api/v1") as client:
        yield client
