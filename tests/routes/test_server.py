"""Health, readiness, measurements, documentation and the committed document."""

import re
import threading
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from backend import errors
from backend.app import create_app, openapi_text
from backend.models.progress import Progress
from backend.schema import Health, Problem
from backend.settings import Settings
from tests.desk.pretend import PretendModel, PretendShelf

ROOT = Path(__file__).resolve().parents[2]


async def test_a_living_server_says_so(client: httpx.AsyncClient) -> None:
    assert Health.model_validate_json((await client.get("health")).content).status == "alive"


@pytest.mark.parametrize("address", ["health", "ready", "models", "jobs", "openapi.json", "docs"])
async def test_whoever_watches_may_ask_without_reading(client: httpx.AsyncClient, address: str) -> None:
    asked, read = await client.head(address), await client.get(address)
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers["content-type"] == read.headers["content-type"]
    assert asked.headers["content-length"] == read.headers["content-length"]


async def test_measurements_may_be_asked_for_without_reading(client: httpx.AsyncClient) -> None:
    answer = await client.head("http://127.0.0.1:8050/metrics")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("address", ["health", "models", "openapi.json", "nothing", "http://127.0.0.1:8050/metrics"])
async def test_no_answer_is_anything_that_a_browser_should_run_or_frame(
    client: httpx.AsyncClient, address: str
) -> None:
    headers = (await client.get(address)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_asking_without_reading_opens_no_stream_and_no_question(client: httpx.AsyncClient) -> None:
    refused = [await client.head(address) for address in ("attention", f"tabs/{UUID(int=1)}/events", "nothing")]
    assert [(answer.status_code, answer.content) for answer in refused] == [(405, b""), (405, b""), (404, b"")]


class HeldShelf(PretendShelf):
    """Loads when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()

    def load(self, name: str, revision: str | None, progress: Progress) -> PretendModel:
        assert self.open.wait(60)
        return super().load(name, revision, progress)


async def test_a_server_is_ready_when_its_models_are_loaded() -> None:
    shelf = HeldShelf()
    app = create_app(Settings(models=("a",)), shelf)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1") as client,
    ):
        early = await client.get("ready")
        assert (early.status_code, Problem.model_validate_json(early.content).type) == (503, "loading")
        assert early.headers["retry-after"] == "1"
        shelf.open.set()
        (job,) = app.state.house.warming
        await app.state.house.desk.jobs.ended(job)
        assert Health.model_validate_json((await client.get("ready")).content).status == "ready"


async def test_measurements_name_routes_and_never_what_fills_them(client: httpx.AsyncClient) -> None:
    await client.get("jobs/secret-id")
    await client.post("tokens", json={"view": {"model": "tiny-llama", "text": "secret text"}})
    text = (await client.get("http://127.0.0.1:8050/metrics")).text
    assert 'lmscope_request_seconds_count{method="POST",route="/api/v1/tokens",status="200"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    assert "secret" not in text


async def test_the_documentation_fetches_nothing_from_anywhere(client: httpx.AsyncClient) -> None:
    response = await client.get("docs")
    assert response.headers["content-type"].startswith("text/html")
    assert not re.search(r"https?://|<script|@import|url\(", response.text)
    for path in ("/api/v1/attention/head", "/api/v1/models/{name}", "HeadScale", "Problem"):
        assert path in response.text


async def test_the_document_is_served(client: httpx.AsyncClient, app: FastAPI) -> None:
    assert (await client.get("openapi.json")).json() == app.openapi()


@pytest.mark.filterwarnings("error")
def test_the_committed_document_is_what_the_application_does() -> None:
    committed = (ROOT / "backend" / "openapi.json").read_text("utf-8")
    assert openapi_text() == committed, "run: python -m backend.app > backend/openapi.json"


async def test_what_nobody_foresaw_is_a_problem_too(app: FastAPI, client: httpx.AsyncClient, caplog) -> None:
    async def broken() -> None:
        raise RuntimeError("secret")

    app.router.routes.insert(0, APIRoute("/api/v1/broken", broken))
    answer = await client.get("broken", headers={"X-Request-Id": "mine"})
    problem = Problem.model_validate_json(answer.content)
    assert (answer.status_code, problem.type, problem.request) == (500, "broken", "mine")
    assert caplog.messages.count("broken") == 1
    assert "secret" not in answer.text


def test_what_is_needed_is_left_out_of_a_problem_where_it_is_no_finite_number() -> None:
    problem = errors.CannotShow("a", "b", "c", needed=float("inf"), available=float("nan")).problem()
    assert (problem.needed, problem.available) == (None, None)
