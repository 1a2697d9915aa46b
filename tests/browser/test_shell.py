"""The shell in a real browser: model, text, queue, theme, errors in their place."""

import re

import pytest
from playwright.sync_api import expect

from backend.schema import Ability, Problem, TabEvent, TokensAsk, Waiting
from tests.browser.conftest import Fake, Watched, eventually, steady, wait_for_address
from tests.browser.fake import job

pytestmark = pytest.mark.browser

TOO_LONG = Problem(type="too-long", status=422, what="The text is too long", why="It has 9,000 tokens.",
                   instead="Shorten it to 4,096 tokens.", needed=9000, available=4096)  # fmt: skip


def test_first_visit_shows_the_example_of_the_default_model_each_tab_speaks_for_itself_and_closing_it_tells_the_backend(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    eventually(page, lambda: page.url.startswith(f"{calm.url}/attention#v=1"))
    assert page.evaluate("lmscope.view.get().model") == "smollm2-135m-instruct"
    expect(page.locator("#picker-button")).to_contain_text("Llama · 30 × 9 · float32 · cpu · 538 MB")
    expect(page.locator("[role=option]").first).to_have_text("When")
    page.wait_for_function("!lmscope.busy.isOut()")
    tab = page.evaluate("lmscope.tab.id")
    assert {asked_by for asked_by, _ in calm.client.asked} == {tab}, "every question names the tab"
    assert watched.errors == []

    # A duplicated tab speaks for itself.
    with watched.context.expect_page() as opened:
        page.evaluate("window.open(location.href)")
    other = opened.value
    other.wait_for_function("window.lmscope && lmscope.tab")
    assert other.evaluate("lmscope.tab.id") != tab

    eventually(page, lambda: tab in calm.client.open_tabs)
    page.close()
    eventually(other, lambda: tab in calm.client.gone)


def test_run_asks_with_the_new_text_once_keeps_the_caret_takes_a_continuation_and_templates_chat_turns(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    page.locator("#text").fill("One two three")
    expect(page.locator("#run.changed")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.locator("[role=option]")).to_have_count(3)
    expect(page.locator("#text")).to_be_focused()

    def asked() -> list[bool]:
        questions = [ask for _, ask in calm.client.asked if isinstance(ask, TokensAsk)]
        return [ask.scores for ask in questions if ask.view.text == "One two three"]

    eventually(page, lambda: len(asked()) >= 2)
    page.wait_for_timeout(300)  # time enough for a third
    assert sorted(asked()) == [False, True], "one question for the tokens, one for their scores"

    page.get_by_role("button", name="continuation").click()
    page.locator("#continuation").fill(" and Mary thanked him")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".chip.role-continuation")).to_have_count(4)
    expect(page.locator(".chips .divider")).to_be_visible()

    page.get_by_role("radio", name="Chat").check()
    page.get_by_role("button", name="turn", exact=True).click()
    page.locator(".turn textarea").nth(1).fill("Hello back")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("lmscope.view.get().turns?.[1]?.content === 'Hello back'")
    view = page.evaluate("lmscope.view.get()")
    assert [turn["role"] for turn in view["turns"]] == ["user", "assistant"]
    assert view["turns"][1]["content"] == "Hello back"
    assert view["template"] is None, "on is the rule for turns"
    expect(page.get_by_label("chat template")).to_be_checked()


def test_a_refusal_is_shown_in_its_place_and_ends_with_the_next_answer(calm: Fake, watched: Watched) -> None:
    page = watched.open(calm.url)
    calm.client.refuse["tokens"] = TOO_LONG
    page.locator("#text").fill("Far too long")
    page.locator("#run").click()
    notice = page.locator("#strip-notice .notice")
    expect(notice).to_contain_text("The text is too long")
    expect(notice).to_contain_text("Shorten it to 4,096 tokens.")
    calm.client.refuse.clear()
    page.locator("#text").fill("Short again")
    page.locator("#run").click()
    expect(page.locator("[role=option]")).to_have_count(2)
    expect(notice).to_have_count(0)

    # Pressing Run again asks again.
    calm.client.refuse["tokens"] = TOO_LONG.model_copy(update={"status": 503, "type": "busy"})
    page.locator("#run").click()
    expect(page.locator("#strip-notice .notice")).to_be_visible()
    calm.client.refuse.clear()
    page.locator("#run").click()
    expect(page.locator("#strip-notice .notice")).to_have_count(0)

    # A question that was replaced is no error.
    page.wait_for_function("!lmscope.busy.isOut()")
    calm.client.refuse["tokens"] = TOO_LONG.model_copy(update={"type": "replaced"})
    before = len(calm.client.asked)
    page.locator("#run").click()
    eventually(page, lambda: any(isinstance(ask, TokensAsk) for _, ask in calm.client.asked[before:]))
    page.wait_for_function("!lmscope.busy.isOut()")
    expect(page.locator(".notice")).to_have_count(0)
    calm.client.refuse.clear()

    # After Stop the old answer is marked as old until a new one comes.
    page.wait_for_function("!lmscope.busy.isOut()")
    calm.client.refuse["attention"] = TOO_LONG.model_copy(update={"type": "cancelled"})
    page.locator("#text").fill("Another text.")
    page.locator("#run").click()
    expect(page.locator("#attention-overview-notice .notice")).to_contain_text("the answer to the question before")
    expect(page.locator(".grid-place")).to_have_css("filter", "grayscale(1)")
    expect(page.locator("#head-statistics")).to_have_css("filter", "grayscale(1)")
    calm.client.refuse.clear()
    page.locator("#run").click()
    expect(page.locator("#attention-overview-notice .notice")).to_have_count(0)
    expect(page.locator(".grid-place")).to_have_css("filter", "none")


def test_refused_scores_colour_nothing_one_refusal_is_explained_once_and_a_stopped_heads_page_is_marked_as_old(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    expect(page.locator(".chip.scored").first).to_be_visible()
    calm.client.refuse["scores"] = TOO_LONG.model_copy(update={"type": "cancelled"})
    page.evaluate("lmscope.edits.off(5, 3)")
    expect(page.locator("#scores-notice .notice")).to_be_visible()
    expect(page.locator(".chip.scored")).to_have_count(0)
    calm.client.refuse.clear()
    page.evaluate("lmscope.view.update({edits: []})")
    expect(page.locator(".chip.scored").first).to_be_visible()

    page.evaluate("lmscope.view.update({focus: {heads: [{layer: 5, head: 3}]}})")
    expect(page.locator("#head-panel")).to_have_attribute("data-head", "5.3")
    page.wait_for_function("lmscope.attention.page.overview && !lmscope.busy.isOut()")
    for number, name in enumerate(("tokens", "attention", "head")):
        calm.client.refuse[name] = TOO_LONG.model_copy(update={"request": f"request-{number}"})
    page.locator("#text").fill("Far too long")
    page.locator("#run").click()
    expect(page.locator("#attention-head-notice .notice-again")).to_be_visible()
    expect(page.locator(".notice-instead:visible")).to_have_count(1)
    expect(page.locator(".notice-older:visible")).to_have_count(2)

    calm.client.refuse.clear()
    page.locator("#rail a[data-instrument=heads]").click()
    page.wait_for_function("lmscope.heads.answer()")
    calm.client.refuse["heads"] = TOO_LONG.model_copy(update={"type": "cancelled"})
    page.locator("#text").fill("Another text.")
    page.locator("#run").click()
    expect(page.locator("#heads-notice .notice-older")).to_be_visible()
    for part in (".heads-place", ".heads-grid"):
        expect(page.locator(part)).to_have_css("filter", "grayscale(1)")


def test_tokens_and_scores_come_and_waiting_is_shown_without_moving_anything(calm: Fake, watched: Watched) -> None:
    calm.client.held = True
    page = watched.page
    page.goto(calm.url)
    page.wait_for_function("window.lmscope && lmscope.view && lmscope.view.get()")
    before = steady(page, page.locator("#edits").bounding_box)
    calm.client.held = False
    page.wait_for_function("document.querySelector('.chip.scored') && !lmscope.busy.isOut()")
    assert page.locator("#edits").bounding_box() == before

    calm.client.held = True
    before = steady(page, lambda: [page.locator(place).bounding_box() for place in ("#strip", "#edits")])
    page.locator("#run").click()
    expect(page.locator(".strip-panel.is-waiting")).to_be_visible()
    expect(page.locator(".strip-panel.is-waiting-long")).to_be_visible()
    assert [page.locator(place).bounding_box() for place in ("#strip", "#edits")] == before
    calm.client.held = False
    expect(page.locator(".strip-panel.is-waiting")).to_have_count(0)


def test_queue_position_stop_and_a_model_that_is_loaded(calm: Fake, watched: Watched) -> None:
    page = watched.open(calm.url)
    page.wait_for_function("!lmscope.busy.isOut()")
    waiting = Waiting(question="q", instrument="attention", model="smollm2-135m-instruct", state="waiting", position=3)
    tab = page.evaluate("lmscope.tab.id")
    eventually(page, lambda: tab in calm.client.open_tabs)
    calm.served.call(lambda: calm.client.tell(TabEvent(questions=(waiting,))))
    expect(page.locator("#status")).to_contain_text("3rd in line")
    page.locator("#status .stop").click()
    eventually(page, lambda: tab in calm.client.stopped)

    # A model that is loaded shows how far it is and how long it takes.
    calm.served.call(lambda: calm.client.tell(TabEvent(jobs=(job(),))))
    bar = page.locator("#progress [role=progressbar]")
    expect(bar).to_have_attribute("aria-valuenow", "41")
    expect(page.locator("#progress")).to_contain_text("43 MB of 105 MB · 12 s left")
    calm.served.call(lambda: calm.client.tell(TabEvent(jobs=(job("done"),))))
    expect(page.locator("#progress")).to_be_hidden()

    # A question that met it is asked again when it is there.
    calm.client.refuse["tokens"] = TOO_LONG.model_copy(update={"status": 503, "type": "loading"})
    page.locator("#run").click()
    expect(page.locator("#strip-notice [data-type=loading]")).to_be_visible()
    calm.client.refuse.clear()
    calm.served.call(lambda: calm.client.tell(TabEvent(jobs=(job("done").model_copy(update={"id": "another"}),))))
    expect(page.locator("#strip-notice .notice")).to_have_count(0)


def test_the_picker_says_what_a_model_is_and_cannot_show_asks_the_chosen_one_and_takes_any_name(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    page.locator("#picker-button").click()
    panel = page.locator("#picker-panel")
    page.get_by_role("button", name="About smollm2-135m-instruct").click()
    for words in ("Apache-2.0", "Q4_1, dequantised", "eager", "rows sum to one", "largest deviation 2.4e-07"):
        expect(panel).to_contain_text(words)
    page.get_by_role("button", name="About all-minilm-l6-v2").click()
    expect(panel).to_contain_text("no token is predicted from its left")
    page.get_by_role("button", name="all-minilm-l6-v2 on disk").click()
    expect(page.locator("#picker-button")).to_contain_text("all-minilm-l6-v2")
    tokens = lambda: [ask.view.model for _, ask in calm.client.asked if isinstance(ask, TokensAsk)]  # noqa: E731
    eventually(page, lambda: tokens()[-1] == "all-minilm-l6-v2")
    wait_for_address(page)
    page.go_back()
    expect(page.locator("#picker-button")).to_contain_text("smollm2-135m-instruct")

    page.locator("#picker-button").click()
    page.locator("#other-model").fill("EleutherAI/pythia-70m")
    page.get_by_label("Revision (optional)").fill("step3000")
    page.keyboard.press("Enter")
    page.wait_for_function("lmscope.view.get().model === 'EleutherAI/pythia-70m'")
    assert page.evaluate("lmscope.view.get().revision") == "step3000"


def test_a_button_that_is_pressed_is_not_drawn_anew_under_the_hand_and_the_theme_is_remembered_and_never_flashes(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    page.evaluate("""() => {
        window.clicked = [];
        const place = document.createElement("div");
        document.querySelector("main").prepend(place);
        const button = (name) => lmscope.dom.h("button", {type: "button", onclick: () => clicked.push(name)}, name);
        window.show = (name) => lmscope.panelParts.redraw(place, [button(name)]);
        show("first");
    }""")
    page.get_by_role("button", name="first").hover()
    page.mouse.down()
    page.evaluate("show('second'); show('third')")
    expect(page.get_by_role("button", name="first")).to_be_visible()
    page.mouse.up()
    expect(page.get_by_role("button", name="third")).to_be_visible()
    assert page.evaluate("clicked") == ["first"]
    page.get_by_role("button", name="third").click()
    assert page.evaluate("clicked") == ["first", "third"]

    now = "document.documentElement.getAttribute('data-theme')"
    page.wait_for_function(f"{now} === 'light'")
    page.locator("#theme-button").click()
    page.locator("#theme-button").click()
    page.wait_for_function(f"{now} === 'dark'")
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => { window.firstTheme = document.documentElement.dataset.theme; })"
    )
    page.reload()
    page.wait_for_function("window.lmscope && lmscope.view && lmscope.view.get()")
    assert page.evaluate("window.firstTheme") == "dark"
    assert page.evaluate(now) == "dark"
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 24, 29)")


def test_an_unreachable_shelf_is_said_the_page_stays_and_what_a_model_of_it_cannot_show_is_greyed_with_the_reason(
    calm: Fake, watched: Watched
) -> None:
    page = watched.page
    calm.client.refuse["models"] = TOO_LONG.model_copy(
        update={"what": "No LMScope at http://127.0.0.1:1", "status": 503}
    )
    page.goto(calm.url)
    expect(page.locator("#shelf-notice")).to_contain_text("No LMScope at")
    expect(page.locator("#run")).to_be_visible()

    calm.client.refuse.clear()
    kept = calm.client.shelf
    cannot = {"attention": Ability(can=True), "heads": Ability(can=False, why="It has no heads that can be read.")}
    calm.client.shelf = (kept[0].model_copy(update={"can": cannot}), *kept[1:])
    try:
        page.evaluate("lmscope.shelf.refresh()")
        entry = page.locator("#rail a[data-instrument=heads]")
        expect(entry).to_have_class(re.compile("cannot"))
        expect(entry).to_have_attribute("title", "Heads: It has no heads that can be read.")
    finally:
        calm.client.shelf = kept
