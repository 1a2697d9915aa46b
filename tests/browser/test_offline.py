"""No request leaves the machine; the pages work behind a reverse proxy and without their server for a while."""

import pytest
from playwright.sync_api import Page, expect

from backend.schema import Problem
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import SHOWN, Fake, Served, Watched, eventually
from tests.browser.fake import FakeClient

pytestmark = pytest.mark.browser


def test_every_request_stays_on_the_machine_and_nothing_the_page_needs_is_fetched_from_elsewhere(
    calm: Fake, watched: Watched
) -> None:
    """With every name but loopback unresolvable, the page still comes up."""
    watched.context.route(lambda url: "127.0.0.1" not in url, lambda route: route.abort())
    page = watched.open(calm.url)
    expect(page.locator(".chip").first).to_be_visible()
    for name in ("heads", "attention"):
        page.locator(f"#rail a[data-instrument={name}]").click()
        page.wait_for_url(f"**/{name}#*")
        page.wait_for_function("!lmscope.busy.isOut()")
    page.locator("#picker-button").click()
    page.locator("#theme-button").click()
    eventually(page, lambda: len(watched.requests) > 20 and len(watched.sockets) >= 1)
    assert watched.outside == []
    assert len(watched.sockets) == 1, "one websocket a tab"
    assert watched.errors == []


class Proxy:
    """A reverse proxy that shows an application under a path and strips it."""

    def __init__(self, app, path: str) -> None:
        self.app, self.path = app, path

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] in ("http", "websocket"):
            if not scope["path"].startswith(self.path):
                if scope["type"] == "websocket":
                    return await send({"type": "websocket.close", "code": 4404})
                await send({"type": "http.response.start", "status": 502, "headers": []})
                return await send({"type": "http.response.body", "body": b"outside the proxied path"})
            path = scope["path"][len(self.path) - 1 :]
            scope = dict(scope, path=path, raw_path=path.encode())
        return await self.app(scope, receive, send)


def test_behind_a_reverse_proxy_under_a_path(watched: Watched) -> None:
    app = create_app(Settings(path="/tools/lmscope/"), FakeClient())
    with Served(Proxy(app.server, "/tools/lmscope/")) as served:
        page = watched.open(f"{served.url}/tools/lmscope/")
        eventually(page, lambda: "/tools/lmscope/attention#v=1" in page.url)
        page.locator("#rail a[data-instrument=heads]").click()
        page.wait_for_url("**/tools/lmscope/heads#v=1*")
        page.reload()
        page.wait_for_function(SHOWN)
        page.wait_for_function("!lmscope.busy.isOut()")
        assert watched.sockets[0].endswith(f"/tools/lmscope/tab/{watched.sockets[0][-36:]}")
        assert watched.errors == []


class WithoutWebsockets:
    """A proxy of the kind that passes no websockets."""

    def __init__(self, app) -> None:
        self.app = app

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        return await self.app(scope, receive, send)


def test_without_websockets_answers_still_come(watched: Watched) -> None:
    with Served(WithoutWebsockets(create_app(Settings(), FakeClient()).server)) as served:
        page = watched.open(served.url)
        expect(page.locator("#tab-notice")).to_contain_text("Live progress is not available")
        page.locator("#text").fill("Still answered")
        page.locator("#run").click()
        expect(page.locator("[role=option]")).to_have_count(2)
        page.close()


def answered(page: Page) -> None:
    """All that the attention page asks at first has come."""
    expect(page.locator(".chip.scored").first).to_be_visible()
    page.wait_for_function("lmscope.attention.page.overview && !lmscope.busy.isOut()")


def test_a_server_that_goes_away_is_said_and_comes_back_by_itself(watched: Watched) -> None:
    client = FakeClient()
    with Served(create_app(Settings(), client).server) as served:
        page, port = watched.open(served.url), served.port
        answered(page)
    expect(page.locator("#tab-notice")).to_contain_text("The server does not answer")
    expect(page.locator("#status")).to_contain_text("Server lost")
    expect(page.locator(".notice:visible")).to_have_count(1)
    page.locator("#text").fill("Asked while it was away")
    page.locator("#run").click()
    with Served(create_app(Settings(), FakeClient()).server, port=port):
        expect(page.locator("#tab-notice .notice")).to_have_count(0)
        expect(page.locator("[role=option]")).to_have_count(5)


def test_run_on_a_server_that_just_died_says_so_at_once(watched: Watched) -> None:
    with Served(create_app(Settings(), FakeClient()).server) as served:
        page = watched.open(served.url)
        answered(page)
    page.locator("#run").click()
    expect(page.locator("#tab-notice")).to_contain_text("The server does not answer", timeout=5000)
    expect(page.locator("#status")).to_contain_text("Server lost")


def test_pages_without_the_server_behind_them_say_so_once_and_go_on_when_it_is_back(watched: Watched) -> None:
    said = {"what": "No LMScope here", "why": "Nothing listens there", "instead": "Start it"}
    behind = Problem(type="unreachable", status=503, **said)
    client = FakeClient()
    client.refuse = dict.fromkeys(("events", "models", "tokens", "attention"), behind)
    with Served(create_app(Settings(), client).server) as served:
        page = watched.page
        page.goto(served.url)
        expect(page.locator("#status")).to_contain_text("Server lost")
        expect(page.locator("#tab-notice")).to_contain_text("Nothing listens there")
        page.wait_for_timeout(1500)
        expect(page.locator("#status")).to_contain_text("Server lost")
        client.refuse.clear()
        expect(page.locator("[role=option]").first).to_have_text("When")
        expect(page.locator("#status")).to_contain_text("Ready")
        expect(page.locator(".notice:visible")).to_have_count(0)
        page.close()
