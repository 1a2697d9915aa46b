"""The steer page in a real browser: sliders lead, answers follow, and both texts are written when they are let go."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from backend.schema import Steer, SteerAsk, TokensAsk, View, WriteAsk
from frontend.app import create_app
from frontend.settings import Settings
from lmscope import Client
from tests.browser.conftest import Fake, Served, Watched, Whole, eventually
from tests.browser.made_up import MadeUpClient, link
from tests.browser.test_accessible import NARROW, WIDE, settled, widen
from tests.figures.made_up_steers import DIRECTION, FORMAL, SENTIMENT

pytestmark = pytest.mark.browser

TEXT = "I watched the film and thought it was"
WIDTH = 32
"""Of the tiny Llama."""
POSITIVE = {"kind": "steer", "steer": SENTIMENT, "by": 1.0}
EDITS = "lmscope.view.get().edits.map((edit) => [edit.kind, edit.by, edit.at])"
ANSWERED = """(by) => {
    const {shift} = lmscope.steer, written = lmscope.steer.write.text();
    return shift.edits()?.[0]?.by === by && shift.text() && JSON.parse(shift.text().key).view.edits[0].by === by
        && written.view?.edits[0]?.by === by && !written.running && written.ended.edited && written.ended.unedited;
}"""
"""Whether all that is shown belongs to this strength: keys that come slowly are answered one by one."""


@pytest.fixture(scope="module")
def served() -> Iterator[Fake]:
    client = MadeUpClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


@pytest.fixture
def made(served: Fake) -> Fake:
    """The same server, answering as if nothing had happened before."""
    served.client.refuse.clear()
    served.client.asked.clear()
    served.client.held = False
    return served


def show(watched: Watched, made: Fake, **view: Any) -> Page:
    page = watched.open(link(made.url, "steer", **({"text": TEXT, "sampling": {"tokens": 4}} | view)))
    expect(page.locator("#steer-kl")).to_contain_text("nats")
    page.wait_for_function("!lmscope.busy.isOut()")
    listening(page)
    return page


def listening(page: Page) -> None:
    """The websocket, over which words come, is open."""
    page.wait_for_function("lmscope.tab.send('')")


def slider(page: Page, id: str = SENTIMENT) -> Locator:
    return page.locator(f"[data-slider='{id}'] input[type=range]")


def take(page: Page, at: Locator) -> Any:
    """Take a slider in the hand, in the middle; `to(share)` moves it."""
    at.scroll_into_view_if_needed()
    box = at.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, height)
    page.mouse.down()
    return lambda share: page.mouse.move(box["x"] + box["width"] * share, height)


def asked(made: Fake, kind: type) -> list[Any]:
    return [ask for _, ask in made.client.asked if isinstance(ask, kind)]


def strengths(made: Fake) -> list[float]:
    return [ask.view.edits[0].by if ask.view.edits else 0.0 for ask in asked(made, SteerAsk) if ask.over == "token"]


def test_a_drag_leads_and_letting_go_makes_one_entry_of_history(watched: Watched, made: Fake) -> None:
    page = show(watched, made)
    made.client.asked.clear()
    page.evaluate("lmscope.view.written()")
    entries = page.evaluate("history.length")
    before = page.locator("#steer-likely tbody tr").first.text_content()
    to = take(page, slider(page))
    for share in (0.6, 0.7, 0.8, 0.9):
        to(share)
        page.wait_for_timeout(60)
    value = float(slider(page).input_value())
    eventually(page, lambda: value in strengths(made))
    expect(page.locator("#steer-likely tbody tr").first).not_to_have_text(str(before))
    expect(page.locator(".edit-label")).to_have_text(f"sentiment +{value:g}")
    expect(page.locator("#steer-kl-text")).to_have_text("when you let go")
    assert asked(made, TokensAsk) == [], "nothing else is asked while the hand holds it"
    assert page.evaluate("history.length") == entries
    page.mouse.up()
    expect(page.locator("#steer-kl-text")).to_contain_text("nats")
    expect(page.locator("#steer-said")).to_contain_text("Rose most")
    expect(page.locator("#write-edited [data-token]")).to_have_count(4)
    expect(page.locator("#write-unedited [data-token]")).to_have_count(4)
    page.wait_for_function(f"history.length === {entries + 1}")
    (ask,) = asked(made, WriteAsk)
    assert (ask.ratio, ask.view.compare, ask.view.edits[0].by) == (True, True, value)
    page.go_back()
    expect(slider(page)).to_have_value("0")
    eventually(page, lambda: page.evaluate(EDITS) == [])
    page.go_forward()
    expect(slider(page)).to_have_value(f"{value:g}")
    page.reload()
    expect(slider(page)).to_have_value(f"{value:g}")
    expect(page.locator("#steer-kl-text")).to_contain_text("nats")


def test_one_question_is_out_then_the_newest_an_older_answer_replaces_nothing_and_nothing_moves_a_slider_in_the_hand(
    watched: Watched, made: Fake
) -> None:
    page = show(watched, made)
    made.client.asked.clear()
    made.client.held = True
    to = take(page, slider(page))
    for share in (0.6, 0.7, 0.8, 0.95):
        to(share)
        page.wait_for_timeout(80)
    eventually(page, lambda: len(strengths(made)) > 0)
    assert len(strengths(made)) == 1, "the second waits for the first"
    made.client.held = False
    newest = float(slider(page).input_value())
    eventually(page, lambda: strengths(made)[1:] == [newest])
    page.wait_for_function(f"lmscope.steer.shift.edits()[0].by === {newest}")
    page.evaluate(
        """() => {
            const answer = lmscope.steer.shift.answer();
            window.dash_clientside.steer.answer({answer: {...answer, kl: 99}, key: "old", edits: [], serial: 1});
        }"""
    )
    expect(page.locator("#steer-kl")).not_to_contain_text("99")
    page.mouse.up()
    page.wait_for_function(ANSWERED, arg=newest)
    page.wait_for_function("!lmscope.busy.isOut()")

    page.evaluate("window.before = document.querySelector('[data-slider] input[type=range]')")
    to = take(page, slider(page))
    to(0.9)
    value = slider(page).input_value()
    page.evaluate("lmscope.steers.refresh(); lmscope.shelf.refresh(); lmscope.view.ask()")
    page.evaluate("lmscope.steers.receive({model: 'made-up-30x9', revision: null, shelf: {steers: []}})")
    page.wait_for_timeout(500)
    assert slider(page).input_value() == value
    assert page.evaluate("window.before.isConnected")
    page.mouse.up()
    expect(page.locator("#edits .edit-label")).to_contain_text(f"{float(value):g}")


def test_every_slider_says_its_poles_its_evidence_and_its_end(watched: Watched, made: Fake) -> None:
    page = show(watched, made)
    first = page.locator(f"[data-slider='{SENTIMENT}']")
    expect(first.locator(".slider-line")).to_contain_text("− negative")
    expect(first.locator(".slider-line")).to_contain_text("positive +")
    expect(first.locator(".slider-evidence")).to_have_text(
        "More positive on 200 held-out texts: −0.031 nats a token [−0.036, −0.027]; a random steer −0.001."
    )
    expect(page.locator(f"[data-slider='{DIRECTION}'] .slider-evidence")).to_contain_text("No evidence")
    expect(page.locator("#steer-unfit")).to_contain_text("It was made for another-model, whose weights differ.")
    assert float(slider(page).get_attribute("max") or 0) == 2.6
    number = first.locator("input[type=number]")
    number.fill("4")
    number.press("Enter")
    expect(first.locator(".slider-warning")).to_contain_text("Beyond +2.6 neutral text has more than twice its perplex")
    eventually(page, lambda: page.evaluate(EDITS) == [["steer", 4, "all"]])
    first.get_by_role("button", name="Set sentiment to 0").click()
    eventually(page, lambda: page.evaluate(EDITS) == [])
    expect(number).to_have_value("0")
    page.locator("#steer-example").click()
    eventually(page, lambda: page.evaluate(EDITS) == [["steer", 1, "all"]])
    slider(page).dblclick(position={"x": 5, "y": 10})
    page.wait_for_function("lmscope.view.get().edits.length === 0")


def test_a_pad_moves_two_and_a_direction_says_where_it_acts(watched: Watched, made: Fake) -> None:
    page = show(watched, made)
    thumb = page.locator("#steer-pad-thumb")
    thumb.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Shift+ArrowUp"):
        page.keyboard.press(key)
    expect(thumb).to_have_attribute("aria-valuetext", "sentiment +0.1, register +5.5")
    eventually(page, lambda: page.evaluate(EDITS) == [["steer", 0.1, "all"], ["steer", 5.5, "all"]])
    expect(slider(page, FORMAL)).to_have_value("5.5")
    expect(page.locator("#steer-shares thead")).to_have_text("wordlogitsentimentregister")
    pad = page.locator("#steer-pad")
    settled(page)  # nothing that comes above it moves it from under the hand
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] - 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 9, box["y"] + box["height"] + 9)
    expect(slider(page)).to_have_value("2.6")
    expect(slider(page, FORMAL)).to_have_value("-3")
    page.mouse.up()
    thumb.focus()
    page.keyboard.press("Home")
    eventually(page, lambda: page.evaluate(EDITS) == [])
    direction = page.locator(f"[data-slider='{DIRECTION}']")
    direction.get_by_role("radio", name="Continuation").check()
    slider(page, DIRECTION).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("lmscope.view.get().edits.length === 1")
    assert page.evaluate("lmscope.view.get().edits[0].at") == "generated"
    expect(page.locator("#edits .edit-at")).to_have_text("the continuation only")
    direction.get_by_role("radio", name="All").check()
    page.wait_for_function("lmscope.view.get().edits[0].at === 'all'")


def test_written_words_carry_their_number_and_become_the_text(watched: Watched, made: Fake) -> None:
    page = show(watched, made, edits=[POSITIVE])
    page.locator("#write-go").click()
    expect(page.locator("#write-edited .write-end")).to_be_visible()
    expect(page.locator("#write-edited .unlikelier")).to_have_count(2)
    expect(page.locator("#write-edited .likelier")).to_have_count(2)
    page.locator("#write-edited [data-token='0']").hover()
    expect(page.locator("#write-token")).to_contain_text("Log-ratio −1.000 nats: the sliders make it 2.72 times less")
    page.locator("#write-table-place summary").click()
    expect(page.locator("#write-table tbody tr").nth(3)).to_contain_text("+0.5000")
    expect(page.locator("#steer-attention-note")).to_contain_text("Over the prompt these sliders change no attention")
    page.locator("#write-use").click()
    page.wait_for_function("lmscope.view.get().continuation === ' word100 word101 word102 word103'")
    page.locator("#steer-attention-note").get_by_role("button", name="its attention").click()
    page.wait_for_url("**/attention#v=1*")
    assert page.evaluate("lmscope.view.get().continuation") == " word100 word101 word102 word103"
    settled(page)  # the edit bar is drawn anew for the page that was opened
    page.locator("#compare").check()
    expect(page.locator("#side-place")).to_contain_text("there is no difference to show")


def test_nothing_moves_while_keys_are_pressed(made: Fake, watched: Watched) -> None:
    page = watched.look(NARROW)
    page.goto(link(made.url, "steer", text=TEXT, edits=[POSITIVE], sampling={"tokens": 4}))
    expect(page.locator("#steer-kl-text")).to_contain_text("nats")
    listening(page)
    page.locator("#write-go").click()
    expect(page.locator("#write-edited .write-end")).to_be_visible()
    page.wait_for_function("!lmscope.busy.isOut()")
    more = page.locator(f"[data-slider='{SENTIMENT}'] summary")
    more.evaluate("each => scrollBy(0, each.getBoundingClientRect().top - 650)")  # between the bars that stay
    more.click()
    height = "document.getElementById('steer-shift-panel').getBoundingClientRect().height"
    for width in (NARROW, WIDE):
        widen(page, width)
        before = page.evaluate(height)
        slider(page).focus()
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(100)
        assert page.evaluate(height) == before
        expect(page.locator("#write-edited .write-end")).to_be_visible()
        page.wait_for_function(ANSWERED, arg=page.evaluate("lmscope.view.get().edits[0].by"))
        assert page.evaluate(height) == before


def test_a_whole_path_through_a_real_model(whole: Whole, watched: Watched) -> None:
    noise = np.random.default_rng(3)
    model = whole.names["llama"]
    with Client(whole.url) as client:
        made = client.keep_steer("mood", noise.normal(0, 0.5, (WIDTH, 4)), noise.normal(0, 0.5, (4, WIDTH)))
        view = View(model=model, text="The cat sat", sampling={"tokens": 8})
        page = watched.open(view.link("steer", whole.url))
        expect(page.locator(".slider-evidence")).to_have_text("No evidence: nothing was measured on held-out texts.")
        listening(page)
        slider(page, made.id).focus()
        for _ in range(3):
            page.keyboard.press("PageUp")
        by = page.evaluate("lmscope.view.get().edits[0].by")
        page.wait_for_function(ANSWERED, arg=by)
        expect(page.locator("#write-edited .write-end")).to_be_visible()
        expect(page.locator("#steer-kl-text")).to_contain_text("nats")
        expect(page.locator("#write-note")).to_contain_text("mood acted on 7 of 7 written tokens")
        steered = view.model_copy(update={"edits": (Steer(steer=made.id, by=by),), "compare": True})
        answer = client.steer(steered, over="text")
        shown = page.evaluate("[lmscope.steer.shift.answer().kl, lmscope.steer.shift.text().kl]")
        assert shown == pytest.approx([answer.kl, answer.kl_text], rel=1e-5)
        assert shown[0] > 0
        written = client.write(steered, ratio=True)
    told = page.evaluate("lmscope.steer.write.text().sides")
    for side, real in (("edited", written.edited), ("unedited", written.unedited)):
        assert [token["id"] for token in told[side]] == [token.id for token in real.tokens]
        assert [token["ratio"] for token in told[side]] == pytest.approx([token.ratio for token in real.tokens])
