"""An application in this process is asked as if far away: chunks arrive as they are sent, leaving is noticed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from lmscope.transport import CHUNKS_AHEAD, InProcess

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


def client_of(app: Any) -> httpx.AsyncClient:
    """An httpx client of an application in this process."""
    return httpx.AsyncClient(transport=InProcess(app), base_url="http://127.0.0.1:8050")


class Recorder:
    """An application that streams what it is told to and remembers what happened to it."""

    def __init__(self) -> None:
        self.sent = 0
        self.left = asyncio.Event()
        self.more = asyncio.Event()
        self.scope: dict[str, Any] = {}
        self.body = b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope, message = scope, await receive()
        self.body = message["body"]
        await send(START)
        watching = asyncio.create_task(self.watch(receive))
        async for chunk in self.chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            self.sent += 1
        await send({"type": "http.response.body", "body": b""})
        watching.cancel()

    async def watch(self, receive: Any) -> None:
        if (await receive())["type"] == "http.disconnect":
            self.left.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"first"
        await self.more.wait()
        yield b"second"


class Flood(Recorder):
    """An application that would send without end."""

    async def chunks(self) -> AsyncIterator[bytes]:
        while not self.left.is_set():
            yield b"x"
            await asyncio.sleep(0)


async def test_a_chunk_arrives_before_the_next_one_is_made() -> None:
    app = Recorder()
    async with client_of(app) as client, client.stream("POST", "/a%20b?c=d", content=b"asked") as response:
        parts = response.aiter_raw()
        assert await asyncio.wait_for(anext(parts), 60) == b"first"
        assert (response.status_code, app.body, app.sent) == (200, b"asked", 1)
        app.more.set()
        assert [part async for part in parts] == [b"second"]
    assert app.scope["path"] == "/a b"
    assert (app.scope["raw_path"], app.scope["query_string"]) == (b"/a%20b", b"c=d")
    assert dict(app.scope["headers"])[b"host"] == b"127.0.0.1:8050"


async def test_closing_a_response_early_disconnects_the_application() -> None:
    app = Recorder()
    async with client_of(app) as client:
        async with client.stream("GET", "/"):
            assert not app.left.is_set()
        await asyncio.wait_for(app.left.wait(), 60)
        app.more.set()


async def test_cancelling_the_reader_disconnects_the_application() -> None:
    app = Recorder()

    async def reads(client: httpx.AsyncClient) -> None:
        await client.get("/")

    async with client_of(app) as client:
        reader = asyncio.create_task(reads(client))
        while app.sent < 1:
            await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await asyncio.wait_for(app.left.wait(), 60)
        app.more.set()


async def test_cancelling_before_the_answer_starts_disconnects_the_application() -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        reached.set()
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    async with client_of(app) as client:
        reader = asyncio.create_task(client.get("/"))
        await asyncio.wait_for(reached.wait(), 60)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await asyncio.wait_for(left.wait(), 60)


async def test_a_slow_reader_holds_the_application_back_and_leaving_lets_it_go() -> None:
    app = Flood()
    async with client_of(app) as client:
        async with client.stream("GET", "/") as response:
            await anext(response.aiter_raw())
            await asyncio.sleep(0.05)
            assert app.sent <= CHUNKS_AHEAD + 2
        await asyncio.wait_for(app.left.wait(), 60)


async def test_an_application_that_fails_before_it_answers_is_a_protocol_error() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    async with client_of(app) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="without an answer"):
            await client.get("/")


async def test_an_application_that_fails_in_the_middle_does_not_look_whole() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ZeroDivisionError

    async with client_of(app) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="cut short"):
            await client.get("/")


async def test_an_application_that_ends_without_ending_its_body_does_not_look_whole() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with client_of(app) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="cut short"):
            await client.get("/")


async def test_an_application_that_fails_after_its_whole_answer_has_answered() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START | {"status": 500})
        await send({"type": "http.response.body", "body": b"sorry"})
        raise ZeroDivisionError

    async with client_of(app) as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.text) == (500, "sorry")


async def test_closing_the_transport_ends_an_application_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmscope.transport.FAREWELL_S", 0.05)
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with client_of(app) as client, client.stream("GET", "/"):
        pass
    assert ended.is_set()
