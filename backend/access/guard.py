"""Who may come in: on loopback those who name loopback, elsewhere those who know the key. Pages and websockets too."""

import hmac
import re
from base64 import b64decode
from binascii import Error
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import SecretStr
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend import errors

COOKIE = "lmscope_pass"
OPEN = "/api/v1/health"
"""Answered without a key, for whoever watches that the server lives."""
PASS_S = 30 * 24 * 3600


class Guard:
    """Refuses before anything is read. Raises `WrongHost`, `KeyNeeded` and `Forbidden`."""

    def __init__(self, app: ASGIApp, *, loopback: bool, key: SecretStr | None) -> None:
        self._app, self._loopback = app, loopback
        self._key = None if key is None else key.get_secret_value().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request or websocket pass, or raise why not."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._loopback and not names_loopback(headers.get("host", "")):
            raise _wrong_host()
        if self._key is None or scope["path"] == OPEN:
            _check_origin(scope, headers)
            await self._app(scope, receive, send)
            return
        by_pass = self._holds_pass(headers)
        if not by_pass and not self._knows_key(headers):
            raise _key_needed()
        _check_origin(scope, headers)
        await self._app(scope, receive, send if by_pass else self._with_pass(scope, send))

    def _knows_key(self, headers: Headers) -> bool:
        """A bearer token, or the password of HTTP Basic, for which a browser asks by itself."""
        assert self._key is not None
        return hmac.compare_digest(sha256(_given(headers)).digest(), sha256(self._key).digest())

    def _holds_pass(self, headers: Headers) -> bool:
        # Cookies of other programs on this host come along; an odd one must not hide ours.
        pairs = (part.partition("=") for part in headers.get("cookie", "").split(";"))
        passes = [value.strip() for name, _, value in pairs if name.strip() == COOKIE]
        return any(hmac.compare_digest(value.encode(), self._pass().encode()) for value in passes)

    def _pass(self) -> str:
        """What a browser keeps instead of the key: some do not repeat the password for a websocket."""
        assert self._key is not None
        return hmac.digest(self._key, b"lmscope pass", "sha256").hex()

    def _with_pass(self, scope: Scope, send: Send) -> Send:
        secure = "; Secure" if scope["scheme"] in ("https", "wss") else ""

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = f"{COOKIE}={self._pass()}; Path=/; Max-Age={PASS_S}; HttpOnly; SameSite=Strict{secure}"
                MutableHeaders(scope=message).append("Set-Cookie", cookie)
            await send(message)

        return with_cookie


def names_loopback(host: str) -> bool:
    """Whether a Host header names this machine to itself, with any port."""
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?", host):
        return False
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _given(headers: Headers) -> bytes:
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip().encode("latin-1")
    if kind.lower() == "basic":
        try:
            return b64decode(value.strip(), validate=True).partition(b":")[2]
        except (Error, ValueError):
            return b""
    return b""


def _check_origin(scope: Scope, headers: Headers) -> None:
    """Another site's page must not use a browser that may come in here."""
    origin = headers.get("origin")
    asks = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    if origin is not None and not asks and _address(origin) != headers.get("host"):
        raise errors.Forbidden(
            "This request comes from another site's page", "its Origin is not this server's own address",
            "Open the dashboard at this server's address, or send no Origin",
        )  # fmt: skip


def _address(origin: str) -> str | None:
    """Host and port of an origin."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _wrong_host() -> errors.WrongHost:
    return errors.WrongHost(
        "This server answers to this machine only",
        "the Host header does not name loopback",
        "Open http://127.0.0.1 or http://localhost with the server's port",
    )


def _key_needed() -> errors.KeyNeeded:
    return errors.KeyNeeded(
        "This server asks for its key",
        "none was given, or another one",
        "Send it as `Authorization: Bearer KEY`; in a browser give it as the password, with any user name",
    )
