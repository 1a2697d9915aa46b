"""The whole way by keyboard: from the address bar to a head that is switched off, and back out of every dialog."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Fake, Watched

pytestmark = pytest.mark.browser

FOCUSED = """() => {
    const part = document.activeElement, style = getComputedStyle(part);
    const named = part.id || part.className.toString().split(" ")[0] || part.tagName;
    const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    const box = part.getBoundingClientRect(), onScreen = box.bottom > 0 && box.top < innerHeight;
    const own = part.tagName === "INPUT" && part.parentElement.matches(":focus-within");
    const grid = part.closest(".ag-root-wrapper") !== null;  // AG Grid draws its ring around cells itself
    return {named, tag: part.tagName, seen: ring || own || grid, onScreen: onScreen || part === document.body};
}"""


def tab_until(page: Page, holds: Callable[[dict], bool], key: str = "Tab", most: int = 60) -> list[dict]:
    """Press a key until what is focused is what was looked for; every stop on the way must be visible."""
    stops = []
    for _ in range(most):
        page.keyboard.press(key)
        stop = page.evaluate(FOCUSED)
        stops.append(stop)
        if stop["tag"] != "BODY":
            assert stop["seen"], f"no visible focus on {stop['named']}"
            assert stop["onScreen"], f"{stop['named']} is focused out of sight"
        if holds(stop):
            return stops
    raise AssertionError(f"not reached; on the way: {[stop['named'] for stop in stops]}")


def named(name: str) -> Callable[[dict], bool]:
    return lambda stop: stop["named"] == name


def test_from_the_address_bar_to_a_head_that_is_switched_off(calm: Fake, watched: Watched) -> None:
    page = watched.open(calm.url)
    page.wait_for_function("!lmscope.busy.isOut()")
    tab_until(page, named("text"))
    page.keyboard.press("Control+a")
    page.keyboard.type("One two three four")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[role=option]")).to_have_count(4)
    page.wait_for_function("lmscope.strip.answer().text === 'One two three four' && !lmscope.busy.isOut()")
    tab_until(page, lambda stop: stop["named"].startswith("token-"))
    for _ in range(3):  # the first one takes the token that has the focus
        page.keyboard.press("ArrowRight")
    page.wait_for_function("lmscope.view.get().focus.token === 2")
    page.wait_for_function("!lmscope.busy.isOut()")
    tab_until(page, named("grid-scroller"))
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="Layer 1 · head 1")).to_be_visible()
    page.wait_for_function("!lmscope.busy.isOut()")
    off = page.get_by_role("button", name="Switch head off")
    expect(off).to_be_visible()
    tab_until(page, lambda stop: off.evaluate("part => part === document.activeElement"))
    page.keyboard.press("Enter")
    expect(page.locator(".edit-list .edit")).to_have_count(1)
    page.wait_for_function("lmscope.view.get().edits.length === 1")
    page.wait_for_function("!lmscope.busy.isOut()")


def test_the_first_stop_skips_to_the_page_and_escape_closes_what_a_button_opened_and_gives_the_focus_back(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)["named"] == "skip"
    page.keyboard.press("Enter")
    inside = "document.querySelector('main').contains(document.activeElement)"
    page.wait_for_function(f"{inside} || document.activeElement === document.querySelector('main')")

    page.wait_for_function("!lmscope.busy.isOut()")
    for opener, opened in (
        ("#picker-button", "#picker-button[aria-expanded='true']"),
        ("button[aria-label='About the grid']", "[popover]:popover-open"),
        ("button[aria-label='Download the grid']", "[popover]:popover-open"),
    ):
        button = page.locator(opener).first
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator(opened).first).to_be_visible()
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        expect(page.locator(opened)).to_have_count(0)
        expect(button).to_be_focused()


def test_nothing_traps_the_focus(calm: Fake, watched: Watched) -> None:
    """Tab comes round to where it began, forwards and backwards, on every page."""
    page = watched.open(f"{calm.url}/attention")
    for name in ("attention", "heads", "trace", "weights", "steer"):
        page.evaluate("(name) => lmscope.view.go(name)", name)
        expect(page.locator(f"#{name}-page")).to_be_visible()
        page.wait_for_function("!lmscope.busy.isOut()")
        for key in ("Tab", "Shift+Tab"):
            tab_until(page, named("skip"), key, most=160)
            tab_until(page, named("picker-button"), key, most=160)


def test_a_table_is_one_stop_its_rows_are_reached_by_arrows_and_the_tabs_of_the_head_it_opens_turn_by_them(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(f"{calm.url}/heads")
    page.wait_for_function("!lmscope.busy.isOut()")
    page.locator("#heads-table .ag-row").first.wait_for()
    tab_until(page, named("ag-header-cell"))
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/attention#v=1*")
    expect(page.locator("#head-title")).to_have_text("Layer 0 · head 1")

    expect(page.get_by_role("tab", name="Map")).to_be_visible()
    page.get_by_role("tab", name="Map").focus()
    for name in ("Lines", "Text", "Table"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
