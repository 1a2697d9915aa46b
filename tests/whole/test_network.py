"""Over a real socket: streams arrive as they happen, and closing the connection stops the work."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from backend.models import tokens as instrument
from lmscope.client import AsyncClient
from tests.desk.pretend import Gate


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The tokens instrument held up at its first layer."""
    gate = Gate()
    monkeypatch.setattr(instrument, "answer", lambda loaded, ask, limits, cancel: gate.answer("")(loaded, cancel))
    return gate


async def until(condition: Any) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


def body(settings: Any) -> dict[str, Any]:
    return {"view": {"model": settings.models[0], "text": "The cat"}}


async def test_closing_the_connection_stops_the_question(address: str, gate: Gate, settings: Any) -> None:
    async with httpx.AsyncClient(base_url=address) as client:
        asked = asyncio.create_task(client.post("/api/v1/tokens", json=body(settings), timeout=30))
        await asyncio.to_thread(gate.reached.wait, 60)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    await until(lambda: gate.stopped)
    assert gate.finished == 0


async def test_closing_the_tab_stops_its_question(address: str, gate: Gate, settings: Any) -> None:
    tab = str(uuid4())
    async with AsyncClient(address, tab=tab) as client, httpx.AsyncClient(base_url=address) as other:
        events = client.events()
        assert (await anext(events)).questions == ()
        headers = {"X-Lmscope-Tab": tab}
        asked = asyncio.create_task(other.post("/api/v1/tokens", json=body(settings), headers=headers, timeout=30))
        while not (event := await anext(events)).questions or event.questions[0].state != "running":
            pass
        await asyncio.to_thread(gate.reached.wait, 60)
        await events.aclose()
        assert (await asked).status_code == 499
    await until(lambda: gate.stopped)


@pytest.mark.parametrize("announced", [True, False])
async def test_whoever_sends_far_too_much_hears_why(address: str, announced: bool) -> None:
    """Of a client that reads only once it has sent all, as most do."""
    size, host = 200 * 1024 * 1024, httpx.URL(address)
    head = f"Content-Length: {size}" if announced else "Transfer-Encoding: chunked"
    reader, writer = await asyncio.open_connection(host.host, host.port)
    writer.write(f"POST /api/v1/tokens HTTP/1.1\r\nHost: {host.host}\r\n{head}\r\n\r\n".encode())
    piece = b"x" * (1024 * 1024)
    for _ in range(size // len(piece)):
        writer.write(piece if announced else b"100000\r\n" + piece + b"\r\n")
        await writer.drain()
    writer.write(b"" if announced else b"0\r\n\r\n")
    await writer.drain()
    said = await asyncio.wait_for(reader.read(4096), 60)
    assert said.startswith(b"HTTP/1.1 413"), said
    assert b"The body is too large" in said
    writer.close()
