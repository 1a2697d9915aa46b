"""Unknown addresses and methods under the API are Problems, whatever else is mounted on the application."""

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import HTMLResponse

from backend.schema import Problem

BASE = "http://127.0.0.1:8050"


@pytest.fixture
def page(app: FastAPI) -> None:
    """What Dash adds when it starts: one page for every path."""
    app.add_api_route("/{path:path}", lambda: HTMLResponse("<p>the page"), methods=["GET"], include_in_schema=False)


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/tokens/", "/api/v2/x", "/api/v1/%00"]
)
async def test_an_unknown_address_is_a_problem_and_not_the_page(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(BASE + path)
    assert response.status_code == 404
    assert Problem.model_validate_json(response.content).type == "not-found"


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "tokens", "POST"),
        ("PUT", "attention/head", "POST"),
        ("POST", "health", "GET"),
        ("PATCH", "models", "GET, POST"),
        ("OPTIONS", "jobs/x", "GET, DELETE"),
        ("POST", "docs", "GET"),
    ],
)
async def test_an_unknown_method_names_the_ones_there_are(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allowed
    assert Problem.model_validate_json(response.content).type == "wrong-method"


@pytest.mark.usefixtures("page")
async def test_everything_else_may_be_the_page(client: httpx.AsyncClient) -> None:
    assert (await client.get(BASE + "/attention")).text == "<p>the page"


async def test_an_address_outside_is_a_problem_too(client: httpx.AsyncClient) -> None:
    response = await client.get(BASE + "/nothing")
    assert Problem.model_validate_json(response.content).status == response.status_code == 404
