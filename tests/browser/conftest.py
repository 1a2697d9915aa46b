"""The whole application on a free port, and a real Chromium in front of it."""

import asyncio
import gc
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    TimeoutError,
    ViewportSize,
    WebSocket,
    expect,
    sync_playwright,
)

from frontend.app import create_app
from frontend.settings import Settings
from lmscope.client import AsyncClient
from tests.browser.fake import FakeClient

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first is the same engine without a browser's window, and a tenth quicker."""
CHROMIUM = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--process-per-site",
    "--js-flags=--invocation-count-for-maglev=2000",  # a page of a test does not live long enough to be worth more
]  # fmt: skip
LOOPBACK = {"127.0.0.1", "localhost", "[::1]", "::1"}
SCREEN: ViewportSize = {"width": 1440, "height": 900}
expect.set_options(timeout=20_000)  # two busy cores are slow, and a slow page is another test's subject
SHOWN = "window.lmscope && lmscope.view && lmscope.view.get() && lmscope.strip.answer() !== null"


LOOKS = 6
"""How often in a row the page is found quiet: Dash sends what was asked a few turns of its loop later."""
POLL = """async ([given, wanted, patience]) => {
    const until = performance.now() + patience, rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    for (let held = 0; performance.now() < until; await rest(held ? 10 : 20)) {
        const found = (EXPRESSION);
        held = (typeof found === "function" ? await found(given) : found) ? held + 1 : 0;
        if (held === wanted) return true;
    }
    return false;
}"""


def wait_for_function(page: Page, expression: str, *, arg: Any = None, timeout: float = 30_000) -> None:
    """Poll as Playwright's own method does, which needs the `eval` that the pages' policy forbids."""
    until, refusal = time.monotonic() + timeout / 1000, ""
    wanted = LOOKS if "!lmscope.busy.isOut()" in expression else 1
    poll = POLL.replace("EXPRESSION", expression)
    while (left := until - time.monotonic()) > 0:
        try:
            if page.evaluate(poll, [arg, wanted, min(1000 * left, 1000)]):
                return
        except Error as error:  # between two documents there is nothing to ask
            refusal = f": {error.message}"
            page.wait_for_timeout(20)
    raise TimeoutError(f"it never came true: {expression}{refusal}")


@pytest.fixture(scope="session", autouse=True)
def _polling() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Page, "wait_for_function", wait_for_function)
        yield


class Served:
    """A server in a thread of this process; `loop` is its event loop.

    A port that was used is used again, for a browser keeps compiled scripts by their whole address.
    """

    used: ClassVar[list[int]] = []

    def __init__(self, app: FastAPI | Callable[..., Any], port: int = 0) -> None:
        self.socket = socket.create_server(("127.0.0.1", port)) if port else self._listen()
        self.port: int = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(app, log_level="warning", ws="websockets-sansio", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _listen(self) -> socket.socket:
        for port in sorted(self.used):
            self.used.remove(port)
            try:
                return socket.create_server(("127.0.0.1", port))
            except OSError:  # another process has taken it meanwhile
                continue
        return socket.create_server(("127.0.0.1", 0))

    def _run(self) -> None:
        async def serve() -> None:
            self.loop = asyncio.get_running_loop()
            await self.server.serve(sockets=[self.socket])

        asyncio.run(serve())

    def __enter__(self) -> "Served":
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)
        self.used.append(self.port)

    def call(self, act: Callable[[], Any]) -> None:
        """Run something in the server's own thread."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(act)


@dataclass
class Fake:
    """Pages with made-up answers: `client` decides what they are."""

    url: str
    client: FakeClient
    served: Served


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the profile lies."""
    return tmp_path_factory.mktemp("profile")


@dataclass
class Open:
    """A Chromium that is open, and the event loop that Playwright drives it with."""

    context: BrowserContext
    loop: asyncio.AbstractEventLoop | None


@pytest.fixture(scope="session")
def chromium_of_the_session(folder: Path) -> Iterator[Open]:
    """One for all modules, with a profile that has the pages' scripts at hand, compiled, as on any second visit.

    Chromium keeps compiled scripts only where a profile lies on disk, and a process for as long as it shows something.
    """
    path = os.environ.get("LMSCOPE_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        pytest.fail(
            f"the browser tests need Chromium; install one of the packages {', '.join(CHROMIUMS)}, "
            "or set LMSCOPE_CHROMIUM to its path"
        )
    gc.freeze()  # what is imported by now stays
    with sync_playwright() as playwright:
        chromium = playwright.chromium
        context = chromium.launch_persistent_context(folder, executable_path=path, args=CHROMIUM, viewport=SCREEN)
        _stay(context.pages[0])
        loop = asyncio._get_running_loop()
        yield Open(context, loop)
        asyncio._set_running_loop(loop)
        context.close()


@pytest.fixture(scope="module")
def profile(chromium_of_the_session: Open) -> Iterator[BrowserContext]:
    """The browser. Its loop counts as running for as long as a module uses it: others run loops of their own."""
    asyncio._set_running_loop(chromium_of_the_session.loop)
    yield chromium_of_the_session.context
    asyncio._set_running_loop(None)


def _stay(page: Page) -> None:
    """Show an empty page of this machine, so that the process of its pages outlives each of them."""
    page.route("http://127.0.0.1:1/", lambda route: route.fulfill(body="", content_type="text/html"))
    page.goto("http://127.0.0.1:1/")
    page.unroute_all()


@pytest.fixture(scope="module")
def chromium(profile: BrowserContext) -> Browser:
    """The same Chromium; a new context of it is somebody else's browser."""
    assert profile.browser is not None
    return profile.browser


@pytest.fixture(scope="module")
def fake() -> Iterator[Fake]:
    client = FakeClient()
    app = create_app(Settings(), client)
    with Served(app.server) as served:
        yield Fake(served.url, client, served)


@dataclass
class Whole:
    """Backend and pages in one process, with tiny real models; `names` are their names on the shelf."""

    url: str
    names: dict[str, str]
    served: Served


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    import backend.app  # takes seconds, which the process that hands out the tests need not spend
    from tests import tiny

    place = tmp_path_factory.mktemp("models")
    names = {kind: str(tiny.folder(kind, place / f"tiny-{kind}")) for kind in tiny.KINDS}
    settings = backend.settings.Settings(models=tuple(names.values()), cache_dir=place / "cache", allow=("folder",))
    server = backend.app.create_app(settings)
    example = Settings(example="The quick brown fox jumps over the lazy dog.")
    create_app(example, AsyncClient("http://127.0.0.1", app=server), server)
    with Served(server) as served:
        yield Whole(served.url, names, served)


@pytest.fixture
def calm(fake: Fake) -> Fake:
    """The same server, answering as if nothing had happened before."""
    fake.client.refuse.clear()
    fake.client.delay = 0.0
    fake.client.held = fake.client.scores_held = False
    fake.client.asked.clear()
    return fake


class Watched:
    """A page, and everything it asked for and complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.context, self.page = context, context.new_page()
        self.outside: list[str] = []
        self.errors: list[str] = []
        self.refused: list[str] = []
        self.requests: list[str] = []
        self.sockets: list[str] = []
        self.page.on("request", self._request)
        self.page.on("websocket", self._websocket)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._console)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)
        if "Content Security Policy" in message.text:
            self.refused.append(message.text)

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        self._check(request.url)

    def _websocket(self, websocket: WebSocket) -> None:
        self.sockets.append(websocket.url)
        self._check(websocket.url)

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in LOOPBACK:
            self.outside.append(url)

    def look(self, width: int, theme: Literal["light", "dark"] = "light") -> Page:
        """A window of this width, in this theme and without motion."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        return self.page

    def open(self, url: str) -> Page:
        """Go there and wait until the tokens are shown."""
        self.page.goto(url)
        self.page.wait_for_function(SHOWN)
        return self.page


def eventually(page: Page, holds: Callable[[], bool]) -> None:
    """Let the page live on until this holds, or fail after twenty seconds. What is not there yet does not hold."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with suppress(LookupError):
            if holds():
                return
        page.wait_for_timeout(50)
    assert holds()


def steady(page: Page, read: Callable[[], Any]) -> Any:
    """What is read once it has been the same for a fifth of a second: the page is laid out."""
    seen: list[Any] = []

    def stands() -> bool:
        seen.append(read())
        return len(seen) > 4 and seen[-1] is not None and all(each == seen[-1] for each in seen[-5:])

    eventually(page, stands)
    return seen[-1]


ADDRESSED = """() => {
    const { canonical, compact, whole, unpack, get } = lmscope.view;
    const said = (view) => canonical(compact(view));
    return unpack(location.hash).then((short) => said(whole(short)) === said(get()), () => false);
}"""


def wait_for_address(page: Page) -> None:
    """Until the address, which follows a moment later, says what is shown."""
    page.wait_for_function(ADDRESSED)


@pytest.fixture
def watched(profile: BrowserContext) -> Iterator[Watched]:
    """A page in a profile that remembers nothing but files.

    The test fails when a request leaves the machine or the pages break their own policy.
    """
    profile.set_default_timeout(20_000)
    profile.set_default_navigation_timeout(45_000)  # Chromium lets a load wait 20 s for a file that another one locks
    watch = Watched(profile)
    yield watch
    _forget(profile, watch)
    assert watch.outside == [], "requests left the machine"
    assert watch.refused == [], "the pages' own policy refused what they do"


def _forget(profile: BrowserContext, watch: Watched) -> None:
    """Close every page but the first, and drop what pages and tests have set."""
    first, *others = profile.pages
    for page in others:
        page.close()
    session = profile.new_cdp_session(first)
    for origin in {"{0.scheme}://{0.netloc}".format(urlsplit(url)) for url in watch.requests}:
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "cookies,local_storage"})
    session.detach()
    profile.clear_permissions()
    profile.unroute_all()
