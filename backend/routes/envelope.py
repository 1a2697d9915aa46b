"""Around everything: an id for each request, a Problem for whatever escapes, a log line and a measurement."""

import logging
import re
import time
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from backend import errors
from backend.routes.house import BASE
from backend.routes.metrics import Meters
from backend.routes.problems import of_failure, response_of

HEADER = "X-Request-Id"
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
"""On every answer that does not say otherwise itself: data is nothing that a browser should run, frame or guess at."""

log = logging.getLogger("lmscope.requests")


class Envelope:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app, self._meters = app, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or websocket, whatever happens inside."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        with bound_contextvars(request=request_id):
            await _Exchange(scope, send, request_id, self._meters).run(self._app, receive)


class _Exchange:
    """One request on its way."""

    def __init__(self, scope: Scope, send: Send, request_id: str, meters: Meters) -> None:
        self.scope, self.request_id, self.meters = scope, request_id, meters
        self._send = send
        self.status = 0
        self.began = time.perf_counter()

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        try:
            await app(self.scope, receive, self.send)
        except errors.LmscopeError as error:
            await self.refuse(error, receive)
        except Exception as error:
            await self.refuse(of_failure(error), receive)
        finally:
            self.record()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[HEADER] = self.request_id
            for name, value in SAFE.items():
                headers.setdefault(name, value)
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)

    async def refuse(self, error: errors.LmscopeError, receive: Receive) -> None:
        """Answer with the Problem, unless an answer has begun."""
        if self.status:
            return
        if self.scope["type"] == "http":
            await response_of(error, self.request_id)(self.scope, receive, self.send)
        else:
            self.status = error.status
            await self._send({"type": "websocket.close", "code": 1008, "reason": error.what[:100]})

    def record(self) -> None:
        seconds = time.perf_counter() - self.began
        method = self.scope.get("method", "WEBSOCKET")
        path = self.path()
        self.meters.observe(path, method, self.status, seconds)
        asked = path.startswith(BASE) and method in ("POST", "DELETE")
        level = logging.INFO if asked or self.status >= 500 else logging.DEBUG
        known = {"method": method, "path": path, "status": self.status, "ms": round(seconds * 1e3, 1)}
        log.log(level, "answered", extra=known)

    def path(self) -> str:
        """The route's own path: what was filled in (tabs, names) is nobody's business."""
        route: Any = self.scope.get("route")
        return str(getattr(route, "path_format", None) or getattr(route, "path", None) or "other")
