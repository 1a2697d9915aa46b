"""The token strip: what the model sees, chip by chip, by mouse and by keyboard."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Fake, Watched

pytestmark = pytest.mark.browser


def run(page, text: str) -> None:
    page.locator("#text").fill(text)
    page.locator("#run").click()
    page.wait_for_function("text => lmscope.strip.answer().text.startsWith(text) && !lmscope.busy.isOut()", arg=text)


def test_chips_show_surprisal_by_colour_and_bar_a_hover_all_numbers_and_split_characters_spaces_losses_never_markup(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    expect(page.locator(".chip.scored").first).to_be_visible()
    bars = page.evaluate(
        "[...document.querySelectorAll('.chip.scored')]"
        ".map(({style}) => ['--bar', '--shade'].map(name => style.getPropertyValue(name)))"
    )
    assert len({bar for bar, _ in bars}) > 4
    assert len({shade for _, shade in bars}) > 2
    assert "scored" not in (page.locator(".chip").first.get_attribute("class") or ""), (
        "the first token has no surprisal"
    )
    page.get_by_role("radio", name="None").check()
    expect(page.locator(".chip.scored")).to_have_count(0)
    page.get_by_role("radio", name="Entropy").check()
    expect(page.locator(".chip.scored").first).to_be_visible()

    page.locator("#token-1").hover()
    tip = page.locator("#tooltip")
    for word in ("id", "20 4d 61 72 79", "probability", "rank", "surprisal", "nats"):
        expect(tip).to_contain_text(word)
    page.locator("#token-0").hover()
    expect(tip).to_contain_text("n/a")

    # A character that is split into several tokens is one chip and its parts.
    page.evaluate("lmscope.view.update({text: 'Smile 🙂 now'}, {push: true})")
    page.wait_for_function("lmscope.strip.answer().text.startsWith('Smile') && !lmscope.busy.isOut()")
    expect(page.locator(".chip")).to_have_text(["Smile", "🙂", "⋯", "⋯", "now"])
    page.locator(".chip").nth(2).hover()
    expect(page.locator("#tooltip")).to_contain_text("part 2 of 3")

    run(page, "<img src=x onerror=window.bad=1> & <b>bold</b>")
    page.locator(".chip").nth(1).hover()
    assert page.evaluate("window.bad") is None
    assert page.locator(".chips img, .chips b").count() == 0

    # What the tokenizer lost is said.
    run(page, "A ☃ melts")
    expect(page.get_by_role("note")).to_contain_text("does not know 1 character")

    # Spaces are visible on demand, line breaks always.
    run(page, "One two\nthree")
    expect(page.locator(".chip")).to_have_text(["One", "two", "⏎three"])
    page.get_by_role("switch", name="spaces").check()
    expect(page.locator(".chip")).to_have_text(["One", "·two", "⏎three"])


def test_click_and_arrow_keys_move_the_one_focus_tokens_drawn_anew_leave_it_there_and_come_before_their_scores(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    page.locator("#token-3").click()
    expect(page.locator("#token-3")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#token-5")).to_be_focused()
    page.wait_for_function("lmscope.view.get().focus.token === 5")
    expect(page.locator("[role=option][aria-selected=true]")).to_have_count(1)
    expect(page.locator("[role=option][tabindex='0']")).to_have_count(1)
    page.keyboard.press("Home")
    expect(page.locator("#token-0")).to_be_focused()
    page.keyboard.press("End")
    page.wait_for_function("lmscope.view.get().focus.token === 17")
    page.locator("#rail a[data-instrument=heads]").click()
    page.wait_for_url("**/heads#*")
    expect(page.locator("#token-17")).to_have_attribute("aria-selected", "true")
    page.locator("#token-17").press("Escape")
    page.wait_for_function("lmscope.view.get().focus.token === null")

    # Drawn anew, as when the scores of a text come before its tokens, and the hand is already on the keys.
    page.wait_for_function("!lmscope.busy.isOut()")
    page.locator("#token-2").click()
    page.evaluate("window.before = document.getElementById('token-2')")
    page.evaluate("lmscope.strip.tokens(lmscope.strip.answer())")
    assert not page.evaluate("window.before.isConnected")
    expect(page.locator("#token-2")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#token-3")).to_be_focused()

    # Tokens come before their scores.
    calm.client.scores_held = True
    page.locator("#text").fill("A brand new text")
    page.locator("#run").click()
    expect(page.locator(".chip")).to_have_text(["A", "brand", "new", "text"])
    expect(page.locator(".chip.scored")).to_have_count(0)
    calm.client.scores_held = False
    expect(page.locator(".chip.scored")).to_have_count(3)


def test_four_thousand_tokens_stay_smooth(calm: Fake, watched: Watched) -> None:
    page = watched.open(calm.url)
    page.wait_for_function("!lmscope.busy.isOut()")
    page.wait_for_timeout(500)
    page.evaluate("""() => {
        window.longest = 0;
        const longer = (entry) => { window.longest = Math.max(window.longest, entry.duration); };
        new PerformanceObserver(list => list.getEntries().forEach(longer))
            .observe({type: "longtask", buffered: false});
    }""")
    text = " ".join(f"w{n}" for n in range(4096))
    page.evaluate("text => lmscope.view.update({text}, {push: true})", text)
    page.wait_for_function("document.querySelectorAll('.chip.scored').length === 4095")
    # The tokens' own answer may come after that of their scores, and draws once more.
    page.wait_for_function("!lmscope.busy.isOut() && document.querySelectorAll('.chip.scored').length === 4095")
    drawn = page.evaluate("window.longest")
    page.locator("#token-5").click()
    page.evaluate("""() => {
        window.longest = 0;
        window.touched = new Set();
        window.replaced = 0;
        new MutationObserver(records => records.forEach(record => {
            if (record.type === "childList") window.replaced++;
            else window.touched.add(record.target.id);
        })).observe(document.querySelector(".chips"), {childList: true, subtree: true, attributes: true});
    }""")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("window.touched.size > 1")
    page.wait_for_timeout(100)
    assert page.evaluate("[...window.touched].sort()") == ["token-5", "token-6"], "a step touches two chips"
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.evaluate("lmscope.view.update({focus: {strip: 'entropy'}})")
    page.wait_for_timeout(300)
    moving = page.evaluate("window.longest")
    assert page.evaluate("window.replaced") == 0, "recolouring keeps every chip"
    height = page.locator(".chips").bounding_box()
    assert height is not None
    assert height["height"] <= 130
    print(f"4,096 tokens: longest task while drawing {drawn:.0f} ms, while moving and recolouring {moving:.0f} ms")
