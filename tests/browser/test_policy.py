"""The Content-Security-Policy: nothing that the pages do breaks it, and no script that is not ours runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect
from starlette.responses import HTMLResponse

from backend.app import create_app as backend_app
from backend.settings import Settings as BackendSettings
from frontend.app import create_app
from frontend.settings import Settings
from lmscope.client import AsyncClient
from tests.browser.conftest import Fake, Served, Watched, eventually
from tests.browser.made_up import MadeUpClient, link
from tests.desk.pretend import PretendShelf

pytestmark = pytest.mark.browser

LISTEN = """addEventListener("securitypolicyviolation", (event) => {
    (window.refused = window.refused || []).push([event.effectiveDirective, event.blockedURI, event.sample].join(" "));
})"""
OFF = {"kind": "head.scale", "layer": 1, "head": 2, "by": 0}
HEAD = {"heads": [{"layer": 5, "head": 3}]}
LONG = " ".join(f"w{i}" for i in range(300))


@pytest.fixture(scope="module")
def made() -> Iterator[Fake]:
    client = MadeUpClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


@pytest.fixture
def page(watched: Watched) -> Page:
    """Remembers what the browser refused."""
    watched.page.add_init_script(LISTEN)
    return watched.page


def refused(page: Page) -> list[str]:
    found: list[str] = page.evaluate("window.refused || []")
    return found


def policy_of(page: Page, url: str) -> dict[str, set[str]]:
    response = page.goto(url)
    assert response is not None
    return parsed(response.headers)


def parsed(headers: dict[str, str]) -> dict[str, set[str]]:
    """Directive → what it allows."""
    parts = headers["content-security-policy"].split(";")
    return {name: set(sources) for name, *sources in (part.split() for part in parts)}


def test_scripts_come_from_here_or_are_named_by_their_hash(made: Fake, page: Page) -> None:
    for name in ("attention", "heads", "trace", "weights", "steer"):
        response = page.request.get(f"{made.url}/{name}")
        policy = parsed(response.headers)
        assert {source for source in policy["script-src"] if not source.startswith("'sha256-")} == {"'self'"}, name
        assert policy["default-src"] == {"'self'"}
        assert policy["object-src"] == {"'none'"}
        for directive in ("base-uri", "form-action", "frame-ancestors"):
            assert policy[directive] == {"'self'"}


def test_nothing_on_the_attention_page_breaks_it(made: Fake, page: Page, watched: Watched, tmp_path: Path) -> None:
    watched.open(link(made.url, text=LONG, focus=HEAD, edits=[OFF], compare=True))
    expect(page.locator("#attention-map .nsewdrag")).to_be_visible()
    for tab in ("Lines", "Text", "Table", "Map"):
        page.get_by_role("tab", name=tab).click()
    for kind in ("PNG", "SVG", "CSV of the map", "JSON of the answer"):
        page.get_by_role("button", name="Download this head").click()
        with page.expect_download():
            page.get_by_role("button", name=kind, exact=True).click()
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#code-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#picker-button").click()
    page.keyboard.press("Escape")
    page.locator("#theme-button").click()
    page.locator(".edit-label").click()
    page.get_by_label("Strength, exactly").fill("0.5")
    page.keyboard.press("Enter")
    page.wait_for_function("!lmscope.busy.isOut()")
    assert refused(page) == []
    assert watched.errors == []


INJECTED = """() => {
    const script = (fields) => document.body.append(Object.assign(document.createElement("script"), fields));
    script({textContent: "window.injected = 'inline'"});
    script({src: "data:text/javascript,window.injected='data'"});
    script({src: "https://example.org/x.js"});
    document.body.insertAdjacentHTML("beforeend", "<img src='data:,' onerror='window.injected = \\"handler\\"'>");
    Object.assign(document.createElement("a"), {href: "javascript:window.injected='address'"}).click();
    setTimeout("window.injected = 'text'", 0);
}"""


def test_nothing_on_the_heads_page_breaks_it_and_no_script_that_was_injected_there_runs(
    made: Fake, page: Page, watched: Watched
) -> None:
    watched.open(link(made.url, "heads"))
    page.locator("#heads-table .ag-row").first.wait_for()
    expect(page.locator("#heads-figure .scatterlayer .point").first).to_be_visible()
    page.locator('#heads-table .ag-header-cell[col-id="entropy"] .ag-header-cell-label').click()
    page.get_by_role("combobox", name="Statistic").select_option("previous")
    page.get_by_role("button", name="Download the figure").click()
    with page.expect_download():
        page.get_by_role("button", name="PNG", exact=True).click()
    assert refused(page) == []
    assert watched.errors == []

    page.evaluate(INJECTED)
    page.wait_for_function("(window.refused || []).length >= 6")
    assert page.evaluate("window.injected === undefined")
    assert all(found.startswith("script-src") for found in refused(page))
    eventually(page, lambda: len(watched.refused) >= 6)  # the console hears of each
    watched.outside.clear()
    watched.refused.clear()


def test_another_site_cannot_frame_a_page(made: Fake, watched: Watched) -> None:
    frame = f"<p>elsewhere</p><iframe src='{made.url}/attention'></iframe>"
    watched.page.route("http://localhost:1/", lambda route: route.fulfill(body=frame, content_type="text/html"))
    watched.page.goto("http://localhost:1/")
    eventually(watched.page, lambda: len(watched.page.frames) > 1)
    watched.page.wait_for_timeout(300)
    assert watched.page.frames[1].locator("#react-entry-point").count() == 0
    watched.refused.clear()


def test_an_unknown_address_runs_no_script_at_all(made: Fake, page: Page) -> None:
    policy = policy_of(page, f"{made.url}/nowhere")
    assert policy["default-src"] == {"'none'"}
    assert "script-src" not in policy
    page.wait_for_timeout(100)
    assert refused(page) == []


@pytest.fixture(scope="module")
def whole() -> Iterator[Served]:
    """API and pages in one process, guarded as when it is served, about models that only pretend."""
    app = backend_app(BackendSettings(models=("a",)), PretendShelf("a"))
    create_app(Settings(), AsyncClient("http://127.0.0.1", app=app), app)
    with Served(app) as server:
        yield server


def test_the_page_about_the_api_needs_nothing_but_itself(whole: Served, page: Page, watched: Watched) -> None:
    documented = f"{whole.url}/api/v1/docs"
    policy = policy_of(page, documented)
    assert policy["default-src"] == {"'none'"}
    assert "script-src" not in policy
    assert all(source.startswith("'sha256-") for source in policy["style-src"])
    themes: list[Literal["light", "dark"]] = ["light", "dark"]
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        page.evaluate("scrollTo(0, 0)")
        expect(page.locator("#HeadAsk")).not_to_be_in_viewport()
        expect(page.get_by_role("heading", name="LMScope API")).to_have_css("font-family", "system-ui, sans-serif")
        expect(page.get_by_role("heading", name="/api/v1/attention/head")).to_be_visible()
        page.get_by_role("link", name="HeadAsk").first.click()
        expect(page.locator("#HeadAsk")).to_be_in_viewport()
        assert refused(page) == []
    assert [url for url in watched.requests if not url.endswith("favicon.ico")] == [documented]
    page.get_by_role("link", name="openapi.json").click()
    page.wait_for_url("**/api/v1/openapi.json")


ATTACK = """async (target) => {
    const ends = {};
    const tried = async (name, act) => { ends[name] = await act().catch((error) => "refused: " + error.name); };
    const asked = async (path, method, body) => (await fetch(target + "/api/v1/" + path, {method, body})).text();
    await tried("read", () => asked("models", "GET"));
    await tried("ask", () => asked("tokens", "POST", JSON.stringify({view: {model: "a", text: "x"}})));
    await tried("unload", () => asked("models/a", "DELETE"));
    await tried("listen", () => new Promise((resolve, reject) => {
        const socket = new WebSocket(target.replace("http", "ws") + "/tab/00000000-0000-4000-8000-000000000000");
        socket.onmessage = (message) => resolve(message.data);
        socket.onclose = () => reject(new Error("closed"));
    }));
    const blind = await fetch(target + "/api/v1/models", {method: "POST", mode: "no-cors", body: "{}"});
    return [ends, blind.type];
}"""


async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
    """The page of another site."""
    await HTMLResponse("elsewhere")(scope, receive, send)


def test_another_site_reads_asks_unloads_and_hears_nothing(whole: Served, watched: Watched) -> None:
    """Nor does one whose name was pointed at this machine: `localhost` with another port is another origin."""
    with Served(elsewhere) as other:
        watched.page.goto(f"http://localhost:{other.port}/")
        ends, blind = watched.page.evaluate(ATTACK, whole.url)
    assert blind == "opaque", "the question did reach the server"
    assert set(ends) == {"read", "ask", "unload", "listen"}
    assert all(end.startswith("refused") for end in ends.values()), ends
