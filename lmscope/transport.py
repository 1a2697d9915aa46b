"""An ASGI application as an httpx transport that yields as it receives.

httpx's own ASGI transport collects the whole body first, so a stream of events would never arrive, and an application
behind it never learns that its reader has left. Here each chunk is handed on at once, a slow reader holds the
application back, and leaving early (the response is closed, the task is cancelled) is `http.disconnect`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import httpx

Message = MutableMapping[str, Any]
Application = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

CHUNKS_AHEAD = 16
"""Chunks that an application may be ahead of its reader."""
FAREWELL_S = 5.0
"""How long a closing transport waits for applications whose reader has left."""

log = logging.getLogger("lmscope.transport")


class Exchange:
    """One request on its way through the application."""

    def __init__(self, app: Application, scope: dict[str, Any], body: bytes) -> None:
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._started: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(CHUNKS_AHEAD)
        self._failure: Exception | None = None
        self._whole = False
        self.task = asyncio.create_task(self._run(app, scope))

    async def start(self) -> Message:
        """Status and headers. Raises `httpx.RemoteProtocolError` when the application fails before them."""
        return await self._started

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises `httpx.RemoteProtocolError` when it is cut short."""
        while (chunk := await self._chunks.get()) is not None:
            yield chunk
        if not self._whole:
            raise httpx.RemoteProtocolError("the answer was cut short") from self._failure

    def leave(self) -> None:
        """Tell the application that nobody reads any more."""
        self._gone.set()
        while not self._chunks.empty():
            self._chunks.get_nowait()

    async def _run(self, app: Application, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            self._failure = error
            if not self._whole and not self._gone.is_set():
                log.error("the application failed without an answer", exc_info=error)
        finally:
            if not self._started.done():
                refusal = httpx.RemoteProtocolError("the application ended without an answer")
                refusal.__cause__ = self._failure
                self._started.set_exception(refusal)
                self._started.exception()
            if not self._whole:
                await self._put(None)

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self._started.done():
                self._started.set_result(message)
        elif message["type"] == "http.response.body":
            if message.get("body"):
                await self._put(bytes(message["body"]))
            if not message.get("more_body", False):
                self._whole = True
                await self._put(None)

    async def _put(self, chunk: bytes | None) -> None:
        if not self._gone.is_set():
            await self._chunks.put(chunk)


class Body(httpx.AsyncByteStream):
    """The body of a response; closing it early tells the application."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._exchange.chunks():
            yield chunk

    async def aclose(self) -> None:
        self._exchange.leave()


class InProcess(httpx.AsyncBaseTransport):
    """Requests to an application in this process and on this event loop. Its lifespan is its owner's affair."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as soon as status and headers are there."""
        exchange = Exchange(self._app, scope_of(request), await request.aread())
        self._tasks.add(exchange.task)
        exchange.task.add_done_callback(self._tasks.discard)
        try:
            start = await exchange.start()
        except BaseException:
            exchange.leave()
            raise
        return httpx.Response(start["status"], headers=list(start.get("headers", [])), stream=Body(exchange))

    async def aclose(self) -> None:
        """Wait a little for applications that still tidy up, then end them."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=FAREWELL_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def scope_of(request: httpx.Request) -> dict[str, Any]:
    """The ASGI scope of a request, as a server on this machine would write it."""
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.split(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (url.host, url.port or 80),
    }
