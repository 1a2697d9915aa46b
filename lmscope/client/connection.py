"""The way to a server: one question there and one answer back, the same over HTTP and in process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel

from backend.schema import Health
from lmscope.client.paths import PATHS
from lmscope.client.reading import json_of, typed
from lmscope.refused import in_words, is_answer, raise_refusal
from lmscope.transport import Application, InProcess

BASE = "/api/v1"
CONNECT_S = 5.0
ANSWER_S = 600.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Connection:
    """What the methods of every instrument ask through; `AsyncClient` says what its arguments do."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8050",
        *,
        app: Application | None = None,
        tab: str | None = None,
        key: str | None = None,
        timeout_s: float = ANSWER_S,
    ) -> None:
        self.base_url, self.tab, self.timeout_s = base_url.rstrip("/"), tab, timeout_s
        self._http = httpx.AsyncClient(
            base_url=self.base_url + BASE,
            transport=None if app is None else InProcess(app),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None),
            trust_env=app is None and urlsplit(base_url).hostname not in LOOPBACK,
        )

    def with_tab(self, tab: str) -> Self:
        """The same client and connections, asking as another tab."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, tab=tab)
        return other

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def raw(self, ask: BaseModel) -> dict[str, Any]:
        """The JSON of the answer to any form of `PATHS`, unopened: what a page passes on to its figure."""
        return json_of(await self._ask(ask))

    async def health(self) -> Health:
        """That the server lives, and its version."""
        return typed(Health, await self._send("GET", "health"))

    async def _ask(self, ask: BaseModel) -> httpx.Response:
        return await self._send("POST", PATHS[type(ask)], ask)

    def _headers(self) -> dict[str, str]:
        return {} if self.tab is None else {"X-Lmscope-Tab": self.tab}

    async def _send(
        self, method: str, path: str, body: BaseModel | None = None, query: dict[str, str] | None = None
    ) -> httpx.Response:
        content = None if body is None else body.model_dump_json().encode()
        headers = self._headers() | ({} if body is None else {"Content-Type": "application/json"})
        with in_words():
            response = await self._http.request(method, path, content=content, headers=headers, params=query)
        raise_refusal(response)
        return response

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, body: BaseModel | None = None, *, timeout_s: float | None
    ) -> AsyncIterator[httpx.Response]:
        content = None if body is None else body.model_dump_json().encode()
        headers = self._headers() | ({} if body is None else {"Content-Type": "application/json"})
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_S)
        with in_words():
            async with self._http.stream(method, path, content=content, headers=headers, timeout=timeout) as response:
                if not is_answer(response):
                    await response.aread()
                raise_refusal(response)
                yield response
