"""An open page whose server is restarted goes on by itself: nothing is lost, nothing is said twice."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import backend.app
import backend.settings
from backend.schema import Focus, HeadName, HeadScale, View
from frontend.app import create_app
from frontend.parts import build
from frontend.settings import Settings
from lmscope.client import AsyncClient
from tests import tiny
from tests.browser.conftest import Served, Watched, wait_for_address
from tests.browser.fake import FakeClient

pytestmark = pytest.mark.browser

TEXT = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("models")
    return {kind: str(tiny.folder(kind, place / f"tiny-{kind}")) for kind in ("llama", "gpt2")}


@pytest.fixture
def start(folders: dict[str, str], tmp_path: Path) -> Callable[..., Served]:
    """Start the whole product anew, with nothing left of the one before but what is on disk."""

    def start(port: int = 0) -> Served:
        settings = backend.settings.Settings(models=(folders["llama"],), cache_dir=tmp_path, allow=("folder",))
        server = backend.app.create_app(settings)
        create_app(Settings(example=TEXT), AsyncClient("http://127.0.0.1", app=server), server)
        return Served(server, port)

    return start


def is_lost(page: Page) -> None:
    expect(page.locator("#tab-notice")).to_contain_text("The server does not answer")
    expect(page.locator("#status")).to_contain_text("Server lost")
    expect(page.locator(".notice:visible")).to_have_count(1)


def goes_on(page: Page) -> None:
    expect(page.locator("#status")).to_contain_text("Ready")
    expect(page.locator(".notice:visible")).to_have_count(0)
    page.wait_for_function("!lmscope.busy.isOut()")


def test_a_page_goes_on_with_its_view_and_its_model_is_loaded_again(
    start: Callable[..., Served], folders: dict[str, str], watched: Watched
) -> None:
    view = View(
        model=folders["gpt2"], text=TEXT, edits=(HeadScale(layer=0, head=1, by=0),),
        focus=Focus(heads=(HeadName(layer=1, head=2),), token=3),
    )  # fmt: skip
    with start() as served:
        page, port = watched.open(view.link(base=served.url)), served.port
        expect(page.locator("#attention-map .nsewdrag")).to_be_visible()
        page.wait_for_function("!lmscope.busy.isOut()")
        wait_for_address(page)
        before = page.url
        page.locator("#text").fill("Typed while nobody listens.")
    is_lost(page)
    page.locator("#run").click()
    page.wait_for_timeout(300)
    expect(page.locator(".notice:visible")).to_have_count(1)
    with start(port):
        goes_on(page)
        assert page.evaluate("lmscope.view.get().text") == "Typed while nobody listens."
        expect(page.locator(".edit-label")).to_have_text("L0 head 1 off")
        expect(page.get_by_role("heading", name="Layer 1 · head 2")).to_be_visible()
        expect(page.locator(".picker-state.state-loaded")).to_be_visible()
        page.locator("#text").fill("Once more.")
        page.locator("#run").click()
        page.wait_for_function("lmscope.strip.answer().text === 'Once more.' && !lmscope.busy.isOut()")
        wait_for_address(page)
        page.go_back()
        page.go_back()
        page.wait_for_function("url => location.href === url && !lmscope.busy.isOut()", arg=before)
        expect(page.locator(".notice:visible")).to_have_count(0)
        assert watched.outside == []
        page.close()


def test_a_restart_so_quick_that_nobody_saw_it_is_no_news(start: Callable[..., Served], watched: Watched) -> None:
    with start() as served:
        page, port = watched.open(served.url), served.port
        page.wait_for_function("!lmscope.busy.isOut()")
        view = page.evaluate("lmscope.view.get()")
    with start(port):
        page.wait_for_function("performance.getEntriesByType('resource').some((each) => each.name.endsWith('/alive'))")
        page.locator("#run").click()
        page.wait_for_function("!lmscope.busy.isOut()")
        goes_on(page)
        assert page.evaluate("lmscope.view.get()") == view
        expect(page.locator(".chip.scored").first).to_be_visible()
        page.close()


def test_a_page_of_another_version_offers_to_be_loaded_anew(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    with Served(create_app(Settings(), FakeClient()).server) as served:
        page, port = watched.open(served.url), served.port
        page.evaluate("lmscope.edits.off(5, 3)")
        page.wait_for_function("!lmscope.busy.isOut()")
    monkeypatch.setattr(build, "build", lambda: "of another version")
    with Served(create_app(Settings(), FakeClient()).server, port):
        notice = page.locator("#update-notice")
        expect(notice).to_contain_text("LMScope has changed since this page was opened")
        expect(page.locator(".notice:visible")).to_have_count(1)
        notice.get_by_role("button", name="Reload").click()
        expect(page.locator(".edit-label")).to_have_text("L5 head 3 off")
        page.wait_for_function("lmscope.dom.config().build === 'of another version' && !lmscope.busy.isOut()")
        expect(page.locator(".notice:visible")).to_have_count(0)
        page.close()


def test_what_pages_are_made_of_has_a_name_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build.build() == build.build.__wrapped__()
    monkeypatch.setattr(build, "version", lambda package: "0")
    assert build.build.__wrapped__() != build.build()
