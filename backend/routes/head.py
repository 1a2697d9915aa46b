"""HEAD: every address that answers GET answers HEAD too, with the same headers and no body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.routes.house import BASE

OURS = (f"{BASE}/", "/metrics")
STREAMS = f"{BASE}/tabs/"
"""Not asked with GET in the place of HEAD: whoever leaves a tab's stream stops the tab's questions."""


class Head:
    """Around the API's routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        asked = scope["type"] == "http" and scope["method"] == "HEAD" and scope["path"].startswith(OURS)
        if not asked or scope["path"].startswith(STREAMS):
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        inner = {**scope, "method": "GET"}
        try:
            await self._app(inner, receive, send_without_body)
        finally:
            scope["route"] = inner.get("route")  # the log and the measurements name it
