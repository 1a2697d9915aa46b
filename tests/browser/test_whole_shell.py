"""The shell on the real backend: one process, tiny real models."""

import pytest
from playwright.sync_api import expect

from frontend.app import create_app
from frontend.settings import Settings
from lmscope.client import AsyncClient
from tests.browser.conftest import Served, Watched, Whole

pytestmark = pytest.mark.browser


def test_from_the_first_visit_to_an_edit(whole: Whole, watched: Watched) -> None:
    page = watched.open(whole.url)
    expect(page.locator(".chip.scored").first).to_be_visible()
    expect(page.locator(".picker-state.state-loaded")).to_be_visible()
    page.locator("#add-edit").fill("1.2")
    page.keyboard.press("Enter")
    expect(page.locator("#edits.has-edits")).to_be_visible()
    page.wait_for_function("!lmscope.busy.isOut()")
    expect(page.locator(".notice")).to_have_count(0)
    assert watched.errors == []


def test_nonsense_is_refused_in_words_split_characters_are_shown_once_and_a_model_is_loaded_by_asking_it(
    whole: Whole, watched: Watched
) -> None:
    page = watched.open(whole.url)
    for text, words in (("", "text"), ("word " * 400, "128")):
        page.evaluate("text => lmscope.view.update({text}, {push: true})", text)
        page.wait_for_function("!lmscope.busy.isOut()")
        expect(page.locator("#strip-notice .notice")).to_contain_text(words)
    page.evaluate("lmscope.view.update({text: 'Good again'}, {push: true})")
    expect(page.locator("#strip-notice .notice")).to_have_count(0)

    page.evaluate("lmscope.view.update({text: 'A 🙂 face'}, {push: true})")
    page.wait_for_function("lmscope.strip.answer().text.includes('🙂') && !lmscope.busy.isOut()")
    expect(page.locator(".chip", has_text="🙂")).to_have_count(1)
    expect(page.locator(".chip", has_text="⋯")).not_to_have_count(0)

    page.locator("#picker-button").click()
    page.locator(".card-choose", has_text="tiny-bert").click()
    page.wait_for_function("name => lmscope.view.get().model === name", arg=whole.names["bert"])
    page.wait_for_function("!lmscope.busy.isOut()")
    expect(page.locator(".chip").first).to_have_text("[CLS]")
    expect(page.locator(".picker-state.state-loaded")).to_be_visible()


def test_pages_and_backend_apart(whole: Whole, watched: Watched) -> None:
    """`lmscope serve frontend` against a backend elsewhere: the same page over HTTP."""
    with Served(create_app(Settings(example="The cat sat."), AsyncClient(whole.url)).server) as pages:
        page = watched.open(pages.url)
        expect(page.locator(".chip.scored").first).to_be_visible()
        page.wait_for_function("!lmscope.busy.isOut()")
        expect(page.locator(".notice")).to_have_count(0)
        assert all(f":{pages.port}/" in url for url in watched.requests), (
            "the browser never talks to the backend itself"
        )
        page.close()
