"""The limit on a request's body, counted while it is read."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend import errors
from backend.routes.problems import TooMuch

PAGES_FACTOR = 4
"""The pages' own callbacks carry a view several times: their bodies may be this much larger."""


class BodyLimit:
    """Refuses a longer body at once where its length is announced, else as soon as it is too long."""

    def __init__(self, app: ASGIApp, most: int, uploads: dict[str, int]) -> None:
        """`uploads`: the limit of each path that takes files."""
        self._app, self._most, self._uploads = app, most, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `TooLarge` before reading, or `TooMuch` out of `receive`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        pages = 1 if scope["path"].startswith("/api/") else PAGES_FACTOR
        most = self._uploads.get(scope["path"], self._most * pages)
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > most:
            raise _too_large(int(announced), most)
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise TooMuch(_too_large(read, most))
            return message

        await self._app(scope, counted, send)


def _too_large(needed: int, most: int) -> errors.TooLarge:
    return errors.TooLarge(
        "The body is too large",
        f"it has {needed:,} bytes or more, and this server reads at most {most:,}",
        "Send less: a shorter text, fewer examples, a steer of lower rank, notes in several parts",
        needed=needed,
        available=most,
    )
