"""Which client answers this request: one process may serve several applications, so it is no module global."""

from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

from lmscope.client import AsyncClient

_client: ContextVar[AsyncClient] = ContextVar("lmscope_client")


class Asking:
    """ASGI middleware: lets every callback of one application find its client."""

    def __init__(self, app: ASGIApp, client: AsyncClient) -> None:
        self.app, self.client = app, client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = _client.set(self.client)
        try:
            await self.app(scope, receive, send)
        finally:
            _client.reset(token)


def client(tab: str | None) -> AsyncClient:
    """The client of this application, speaking for one browser tab."""
    return _client.get().with_tab(tab) if tab else _client.get()
