"""Who may come in: loopback by its own name, others with the key, pages and websockets included, and no other site."""

import asyncio
import hmac
import logging
from base64 import b64encode
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, WebSocket
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.responses import HTMLResponse

from backend.access import guard
from backend.access.guard import names_loopback
from backend.app import create_app
from backend.schema import Problem
from backend.settings import Settings
from tests.desk.pretend import PretendShelf

KEY = "correct horse battery staple"


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8050", "127.0.0.1", "127.0.0.1:1", "127.1.2.3:80", "[::1]", "[::1]:8050"],
)
def test_these_name_loopback(host: str) -> None:
    assert names_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "", "example.org", "localhost.example.org", "127.0.0.1.example.org", "example.org:127", "[::2]:80", "[::1",
        "0.0.0.0", "128.0.0.1", "localhost@example.org", "example.org@localhost", "localhost/x", "::1", "２１２.0.0.1",
    ],
)  # fmt: skip
def test_these_do_not(host: str) -> None:
    assert not names_loopback(host)


@given(st.text(max_size=40))
def test_no_host_breaks_it(host: str) -> None:
    names_loopback(host)


def with_pages(app: FastAPI) -> FastAPI:
    """What the pages add: a catch-all page and a websocket."""

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("open")

    app.add_api_websocket_route("/socket", socket)
    app.add_api_route("/{path:path}", lambda: HTMLResponse("<p>the page"), methods=["GET"], include_in_schema=False)
    return app


async def started(**settings: Any) -> AsyncIterator[FastAPI]:
    app = with_pages(create_app(Settings(models=("a",), **settings), PretendShelf("a")))
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def local() -> AsyncIterator[FastAPI]:
    async for app in started():
        yield app


@pytest.fixture
async def shared() -> AsyncIterator[FastAPI]:
    async for app in started(host="0.0.0.0", key=KEY):
        yield app


def client_of(app: FastAPI, base_url: str = "http://127.0.0.1:8050", **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url, headers=headers)


async def socket_of(app: FastAPI, **headers: str) -> dict[str, Any]:
    """The first thing a websocket is told."""
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {
        "type": "websocket", "path": "/socket", "raw_path": b"/socket", "scheme": "ws", "query_string": b"",
        "root_path": "", "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8050), "subprotocols": [], "asgi": {"version": "3.0"},
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    await app(scope, receive, told.put)  # type: ignore[arg-type]
    return told.get_nowait()


PLACES = ("/api/v1/models", "/api/v1/docs", "/api/v1/openapi.json", "/metrics", "/", "/attention", "/api/v1/nothing")


@pytest.mark.parametrize("path", PLACES)
async def test_another_name_for_this_machine_is_refused(local: FastAPI, path: str) -> None:
    async with client_of(local, "http://example.org") as client:
        response = await client.get(path)
    assert response.status_code == 421
    assert Problem.model_validate_json(response.content).type == "wrong-host"


async def test_a_websocket_under_another_name_is_refused(local: FastAPI) -> None:
    assert (await socket_of(local, host="example.org"))["type"] == "websocket.close"
    assert (await socket_of(local, host="localhost:8050"))["type"] == "websocket.accept"


async def test_another_site_cannot_use_this_browser(local: FastAPI) -> None:
    async with client_of(local, Origin="http://example.org") as client:
        assert (await client.delete("/api/v1/models/a")).status_code == 403
        assert (await client.get("/api/v1/models")).status_code == 200
    async with client_of(local, Origin="http://127.0.0.1:8050") as client:
        assert (await client.delete("/api/v1/models/a")).status_code == 204
    assert (await socket_of(local, host="localhost:8050", origin="http://example.org"))["type"] == "websocket.close"
    assert (await socket_of(local, host="localhost:8050", origin="http://localhost:8050"))["type"] == "websocket.accept"


async def test_another_site_cannot_use_a_browser_that_knows_the_key(shared: FastAPI) -> None:
    async with client_of(shared, Authorization=basic(KEY), Origin="http://example.org") as client:
        assert (await client.delete("/api/v1/models/a")).status_code == 403
    told = await socket_of(shared, host="x", authorization=basic(KEY), origin="http://example.org")
    assert told["type"] == "websocket.close"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", ""])
def test_no_key_no_start_where_others_can_connect(host: str) -> None:
    with pytest.raises(ValidationError, match="there is no key"):
        create_app(Settings(host=host), PretendShelf())


@pytest.mark.parametrize("key", ["", "zq1xk"])
def test_a_weak_key_is_no_key(key: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(host="0.0.0.0", key=key)
    assert key == "" or key not in str(refused.value)


@pytest.mark.parametrize("path", PLACES)
async def test_without_the_key_nothing_opens(shared: FastAPI, path: str) -> None:
    async with client_of(shared, "http://example.org") as client:
        response = await client.get(path)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Basic")
    assert Problem.model_validate_json(response.content).type == "key-needed"


def basic(password: str, user: str = "me") -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


GIVEN = [f"Bearer {KEY}", f"bearer {KEY}", basic(KEY), basic(KEY, user="")]
WRONG = ["", KEY, f"Bearer {KEY}x", "Bearer", "Bearer ", basic(KEY + "x"), basic(""), "Basic !!!", "Basic", "Digest x"]


@pytest.mark.parametrize("given", GIVEN)
async def test_with_the_key_everything_opens(shared: FastAPI, given: str) -> None:
    async with client_of(shared, "http://example.org", Authorization=given) as client:
        assert [(await client.get(path)).status_code for path in PLACES] == [200] * 6 + [404]
    assert (await socket_of(shared, host="x", authorization=given))["type"] == "websocket.accept"


@pytest.mark.parametrize("given", WRONG)
async def test_with_another_key_nothing_does(shared: FastAPI, given: str) -> None:
    async with client_of(shared, Authorization=given) as client:
        assert (await client.get("/api/v1/models")).status_code == 401
    assert (await socket_of(shared, host="x", authorization=given))["type"] == "websocket.close"


@pytest.mark.parametrize("given", [f"Bearer {KEY}", f"Bearer {KEY[:-1]}x", "Bearer x", basic(KEY), "", "Cookie"])
async def test_keys_and_passes_are_compared_in_constant_time(
    shared: FastAPI, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[tuple[int, int]] = []

    def compared(one: bytes, other: bytes) -> bool:
        lengths.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(guard, "hmac", SimpleNamespace(compare_digest=compared, digest=hmac.digest))
    headers = {"Cookie": "lmscope_pass=" + "0" * 64} if given == "Cookie" else {"Authorization": given}
    async with client_of(shared, **headers) as client:
        await client.get("/api/v1/models")
    assert lengths
    assert all(one == other for one, other in lengths), "digests of equal length, whatever was given"


async def test_health_is_open_to_whoever_watches(shared: FastAPI) -> None:
    async with client_of(shared) as client:
        assert (await client.get("/api/v1/health")).status_code == 200


async def test_a_browser_that_gave_the_key_keeps_a_pass_for_its_websockets(shared: FastAPI) -> None:
    async with client_of(shared, Authorization=basic(KEY)) as client:
        cookie = (await client.get("/")).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert KEY not in cookie
    assert (await socket_of(shared, host="x", cookie=cookie.split(";")[0]))["type"] == "websocket.accept"
    odd = f'prefs={{"a":1}}; a=b c; bare; ;;==; {cookie.split(";")[0]}'  # cookies of other programs on this host
    assert (await socket_of(shared, host="x", cookie=odd))["type"] == "websocket.accept"
    assert (await socket_of(shared, host="x", cookie="lmscope_pass=0000"))["type"] == "websocket.close"
    assert (await socket_of(shared, host="x", cookie="lmscope_pass=é; ="))["type"] == "websocket.close"


async def test_the_key_is_never_logged(shared: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with client_of(shared, Authorization=f"Bearer {KEY}") as client:
        await client.get(f"/api/v1/jobs/{KEY}")
        await client.get("/api/v1/models", headers={"Authorization": f"Bearer {KEY}x"})
    assert caplog.records
    assert KEY not in "".join(str(record.__dict__) for record in caplog.records if record.name.startswith("lmscope"))
    assert KEY not in repr(Settings(key=KEY))
