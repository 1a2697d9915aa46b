"""One story on a real model: from a typed text to an edited, patched answer that opens elsewhere, numbers and all."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from backend.schema import View
from lmscope import Client
from tests.browser.conftest import SHOWN, Watched, Whole, eventually, wait_for_address
from tests.browser.test_accessible import settled
from tests.browser.test_trace_browser import click_cell, wait_for_all

pytestmark = pytest.mark.browser

TEXT, OTHER = "The cat sat on the mat", "The dog sat on the mat"
NUMBERS = """() => ({
    cell: document.getElementById("trace-cell").innerText,
    block: document.getElementById("trace-block").innerText,
    values: document.getElementById("trace-values").innerText,
    why: document.getElementById("why-sum").innerText,
    parts: document.getElementById("why-table").innerText,
    tracked: lmscope.trace.column().edited.at(-1).tracked_probability.bdata,
})"""


def quiet(page: Page) -> None:
    """Until everything that was asked is answered and drawn."""
    wait_for_all(page)
    settled(page)


def tracked(page: Page) -> list[float]:
    """The tracked token's probability at every row."""
    column = "lmscope.trace.column().edited.at(-1)"
    width = "lmscope.trace.column().tracked.length"
    return page.evaluate(
        f"Array.from(lmscope.dom.numbers({column}.tracked_probability)).filter((_, i) => i % {width} === 0)"
    )


def edits(page: Page) -> list[dict[str, Any]]:
    return page.evaluate("lmscope.view.get().edits")


def test_a_story_from_a_typed_text_to_another_browser(whole: Whole, watched: Watched, chromium: Browser) -> None:
    page = watched.page
    page.set_default_navigation_timeout(60_000)  # the server may still be loading its models
    watched.open(View(model=whole.names["llama"], text="Something else").link("trace", whole.url))
    quiet(page)

    page.locator("#text").fill(TEXT)
    page.locator("#run").click()
    page.wait_for_function("lmscope.view.get().text.startsWith('The cat')")
    quiet(page)
    expect(page.locator("#trace-figure .hm image")).to_have_count(1)

    last = page.evaluate("lmscope.trace.lens.count()") - 1
    click_cell(page, last, 1)
    expect(page.locator("#trace-cell-title")).to_contain_text("After block 0")
    quiet(page)
    before = tracked(page)

    name = page.locator(".value-name").first.inner_text()
    page.locator(".value-name").first.click()
    expect(page.locator("#value-title")).to_contain_text(name)

    page.get_by_role("radio", name="= set").check(force=True)
    eventually(page, lambda: len(edits(page)) == 1)
    quiet(page)
    slider = page.locator(".value-slider input[type=range]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    eventually(page, lambda: edits(page)[0]["to"] > 3)
    quiet(page)
    eventually(page, lambda: tracked(page) != before)  # the tracked token follows the hand

    page.locator("#patch-text").fill(OTHER)
    page.locator("#patch-text").press("Enter")
    expect(page.locator("#patch-act")).to_be_enabled()
    page.locator("#patch-from-1").drag_to(page.locator("#patch-to-1"))
    eventually(page, lambda: len(edits(page)) == 2)
    quiet(page)
    expect(page.locator("#patch-answer-note")).to_contain_text("The answer moved")

    page.locator("#write-go").click()
    for side in ("edited", "unedited"):
        expect(page.locator(f"#write-{side} [data-token]")).not_to_have_count(0)
    expect(page.locator("#write-go")).to_be_enabled()

    quiet(page)
    wait_for_address(page)
    address = page.url
    shown = page.evaluate(NUMBERS)
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    elsewhere = context.new_page()
    elsewhere.set_default_timeout(15_000)
    elsewhere.goto(address)
    elsewhere.wait_for_function(SHOWN)
    quiet(elsewhere)
    eventually(elsewhere, lambda: elsewhere.evaluate(NUMBERS) == shown)
    context.close()

    view = View.from_link(address)
    with Client(whole.url) as client:  # and Python says the same
        answer = client.contributions(view.question())
    printed = page.evaluate(f"lmscope.trace.signed({answer.logits}, lmscope.trace.why.answer().conditions)")
    assert printed in shown["why"]
    assert watched.errors == []
