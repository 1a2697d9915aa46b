"""An answer in pieces as a response: each is sent when it is made, for as long as somebody reads."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from fastapi import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from backend import errors
from backend.routes.asking import while_here
from backend.routes.problems import id_of
from backend.schema import Problem

FAREWELL_S = 5.0
"""How long a reader has to take the last words of an answer that failed."""

log = logging.getLogger("lmscope.streams")


class Streamed(Response):
    """The pieces of an answer.

    What is refused before the first piece is a Problem as everywhere. What goes wrong later ends the body with
    `last_words` and cuts the connection, so that no reader takes it for whole.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        last_words: Callable[[Problem], bytes],
        wait_s: float,
    ) -> None:
        # Said aloud so that nothing on the way compresses what is made to be fast.
        super().__init__(media_type=media_type, headers={"Content-Encoding": "identity", "Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._pieces, self._last_words, self._wait_s = pieces, last_words, wait_s
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces; leaving closes them. Raises `LmscopeError` before the first piece only."""
        try:
            await while_here(Request(scope, receive), self._pour(scope, send))
        except errors.Cancelled:
            if not self._started:
                raise

    async def _pour(self, scope: Scope, send: Send) -> None:
        async with aclosing(self._pieces) as pieces:
            try:
                async for piece in pieces:
                    await self._start(send)
                    # Not wait_for: before Python 3.12 it can swallow the cancel that says that the reader has left.
                    async with asyncio.timeout(self._wait_s):
                        await send(_body(piece))
                await self._start(send)
                await send(_body(b"", more=False))
            except errors.LmscopeError as error:
                if not self._started:
                    raise
                await self._cut(send, error.problem(id_of(scope)))
            except TimeoutError:
                log.warning("cut", extra={"why": "its reader stopped reading"})

    async def _start(self, send: Send) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

    async def _cut(self, send: Send, problem: Problem) -> None:
        log.warning("cut", extra={"why": problem.type})
        try:
            async with asyncio.timeout(FAREWELL_S):
                await send(_body(self._last_words(problem)))
        except TimeoutError:
            log.warning("cut", extra={"why": "its reader stopped reading"})


def _body(piece: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}
