"""Pages of one process over the backend of another, as docker-compose starts them, in a browser that gives the key."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Watched
from tests.processes import KEY, TEXT, pair

pytestmark = pytest.mark.browser


def test_a_browser_with_the_key_asks_through_both(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pair(tmp_path_factory.mktemp("two")) as two:
        context = chromium.new_context(http_credentials={"username": "anybody", "password": KEY})
        watched = Watched(context)
        page = watched.open(f"{two.pages}/attention")
        page.evaluate("view => lmscope.view.update(view, {push: true})", {"text": TEXT})
        page.wait_for_function("lmscope.strip.answer().text.startsWith('The cat') && !lmscope.busy.isOut()")
        expect(page.locator(".chip.scored").first).to_be_visible()
        expect(page.locator(".notice")).to_have_count(0)
        assert watched.sockets, "the tab's websocket came in with the key, too"
        assert watched.errors == watched.outside == watched.refused == []
        context.close()
