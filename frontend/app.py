"""The Dash application: pages, shell and the tab's websocket, on one FastAPI server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import Dash, _callback
from dash.exceptions import DependencyException
from fastapi import FastAPI, HTTPException
from fastapi.middleware.gzip import GZipMiddleware
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.schema import Health
from frontend.parts import assets, browser, notice, policy, shell, tab, upload
from frontend.parts.asking import Asking
from frontend.settings import Settings
from lmscope import __version__
from lmscope.client import AsyncClient

NO_SUCH_PAGE = (
    '<!DOCTYPE html><html lang="en"><title>No such page · LMScope</title>'
    '<body style="font-family: system-ui; margin: 4rem"><h1>No such page</h1>'
    '<p>Nothing lives at this address. <a href="{home}">Open LMScope</a></p></body></html>'
)

_module_callbacks: tuple[list[Any], dict[str, Any]] = ([], {})


def create_app(settings: Settings, client: AsyncClient, server: FastAPI | None = None) -> Dash:
    """Put the pages on a server: the backend's own (one process) or a new one (`lmscope serve frontend`)."""
    backend = settings.backend_url.rstrip("/") if server is None else None
    server = _own_server() if server is None else server
    server.include_router(tab.router)
    server.include_router(upload.router)
    server.include_router(assets.router)
    app = Dash(
        "frontend",
        server=server,  # type: ignore[arg-type]
        backend="fastapi",
        use_pages=True,
        compress=False,
        include_pages_meta=False,
        serve_locally=True,
        assets_ignore=assets.JOINED,
        routes_pathname_prefix="/",
        requests_pathname_prefix=settings.path,
        title="LMScope",
        update_title="",
        on_error=notice.on_error,
        suppress_callback_exceptions=True,
        index_string=browser.index_string(settings.path, settings.example, backend),
        hooks={"request_pre": "window.lmscope.busy.asked", "callback_resolved": "window.lmscope.busy.answered"},
    )
    app.backend.websocket_capability = False  # one websocket a tab, and it is ours (parts/tab.py)
    app.layout = shell.layout(settings.path)
    _take_callbacks(app)
    _answer_elsewhere(server, settings.path)
    server.add_middleware(CompressedPages)
    server.add_middleware(PageAddresses, home=settings.path + browser.INSTRUMENTS[0], scripts=app.csp_hashes)
    server.add_middleware(Asking, client=client)
    return app


def _own_server() -> FastAPI:
    """The pages' server where the backend is elsewhere; whoever watches it asks as he asks the backend."""
    server = FastAPI(title="LMScope", docs_url=None, redoc_url=None, openapi_url=None)
    server.add_api_route("/api/v1/health", lambda: Health(status="alive", version=__version__), methods=["GET"])
    return server


def _take_callbacks(app: Dash) -> None:
    """Give every app the callbacks of the pages' modules; Dash itself hands them to the first one only."""
    listed, mapped = _module_callbacks
    known = {each["output"] for each in listed}
    listed += [each for each in _callback.GLOBAL_CALLBACK_LIST if each["output"] not in known]
    mapped |= _callback.GLOBAL_CALLBACK_MAP
    _callback.GLOBAL_CALLBACK_LIST.clear()
    _callback.GLOBAL_CALLBACK_MAP.clear()
    app._callback_list.extend(dict(each) for each in listed)
    app.callback_map.update({name: dict(each) for name, each in mapped.items()})


class CompressedPages:
    """ASGI middleware: packs what browsers fetch; answers of the API pass, for they often stay in this process."""

    def __init__(self, app: ASGIApp) -> None:
        self.plain, self.packed = app, GZipMiddleware(app, minimum_size=500, compresslevel=2)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        of_api = scope["type"] == "http" and scope["path"].startswith("/api/")
        await (self.plain if of_api else self.packed)(scope, receive, send)


class PageAddresses:
    """ASGI middleware: `/` leads to the first instrument, and every instrument's address gives the same page.

    Dash prepares itself only when `/` is asked for, so that is the address it sees; only then are the hashes of its
    inline scripts known. A script's address changes with its content, so browsers may keep it.
    """

    def __init__(self, app: ASGIApp, home: str, scripts: Callable[[], Sequence[str]]) -> None:
        self.app, self.home, self.scripts = app, home, scripts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/api/"):
            return await self.app(scope, receive, send)
        name = scope["path"].strip("/") if scope["method"] in ("GET", "HEAD") else None
        if name == "":
            return await RedirectResponse(self.home, status_code=307)(scope, receive, send)
        if name in browser.INSTRUMENTS:
            page = dict(scope, path="/", raw_path=b"/")
            return await self.app(page, receive, adding(self._page_headers, send))
        kept = name is not None and name.startswith("assets/") and scope["query_string"].startswith(b"m=")
        found = policy.SAFE | (policy.FILE if kept else {})
        return await self.app(scope, receive, adding(lambda status: found if status == 200 else policy.SAFE, send))

    def _page_headers(self, status: int) -> Mapping[str, str]:
        scripts = [policy.hashed(browser.THEME), *self.scripts()]
        return policy.PAGE | {"Content-Security-Policy": policy.policy(scripts)}


def adding(headers: Callable[[int], Mapping[str, str]], send: Send) -> Send:
    """Send with more headers, asked for when an answer of some status begins."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers(message["status"]))
        await send(message)

    return with_headers


def _answer_elsewhere(server: FastAPI, home: str) -> None:
    """No such page, also where Dash is asked for a script that it does not have and would break."""

    async def no_such_page(request: Request) -> Response:
        if request.url.path.startswith("/api/"):
            raise HTTPException(404)
        return HTMLResponse(NO_SUCH_PAGE.format(home=home), 404, {"Content-Security-Policy": policy.BARE})

    async def no_such_script(request: Request, _: Exception) -> Response:
        return await no_such_page(request)

    server.add_api_route("/{path:path}", no_such_page, methods=["GET"], include_in_schema=False)
    server.add_exception_handler(DependencyException, no_such_script)
