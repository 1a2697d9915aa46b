"""The Write panel in a real browser: two texts stream beside each other, part, stop, and become part of the view."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from backend.schema import Ability, Problem, WriteAsk
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, Whole, eventually
from tests.browser.made_up import MadeUpClient, link
from tests.browser.test_accessible import WIDE

pytestmark = pytest.mark.browser

OFF = {"kind": "head.scale", "layer": 1, "head": 2, "by": 0}
TEXT = "The capital of France is"
SIX = {"tokens": 6}


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
    served.client.ended.clear()
    served.client.held = False
    return served


def show(watched: Watched, made: Fake, **view: Any) -> Page:
    page = watched.open(link(made.url, "trace", **({"text": TEXT, "sampling": SIX} | view)))
    expect(page.locator("#write-go")).to_be_enabled()
    return page


def asked(made: Fake) -> list[WriteAsk]:
    return [ask for _, ask in made.client.asked if isinstance(ask, WriteAsk)]


def words(page: Page, side: str) -> str:
    return "".join(page.locator(f"#write-{side} [data-token]").all_text_contents())


LATE = """
const Real = window.WebSocket;
class Late {
  static get OPEN() { return Real.OPEN; }
  static get CONNECTING() { return Real.CONNECTING; }
  static get CLOSED() { return Real.CLOSED; }
  constructor(address) {
    window.letOpen = () => {
      const { onopen, onmessage, onclose } = this;
      this.real = Object.assign(new Real(address), { onopen, onmessage, onclose });
    };
  }
  get readyState() { return this.real ? this.real.readyState : Real.CONNECTING; }
  send(text) { this.real.send(text); }
}
window.WebSocket = Late;
"""
"""A websocket that opens when the test says so."""


def test_what_is_written_in_the_first_moments_waits_for_the_websocket_and_streams_edited_beside_unedited_marked(
    watched: Watched, made: Fake
) -> None:
    watched.page.add_init_script(LATE)
    page = show(watched, made, edits=[OFF])
    page.locator("#write-go").click()
    expect(page.locator("#write-note")).to_contain_text("Waiting for the first token")
    assert asked(made) == []
    page.evaluate("letOpen()")
    expect(page.locator("#write-edited [data-token]")).to_have_count(6)
    expect(page.locator("#write-unedited [data-token]")).to_have_count(6)
    assert words(page, "edited") == " word100 word101 word102 word103 word104 word105"
    assert words(page, "unedited") == " word100 word101 word152 word153 word154 word155"
    expect(page.locator("#write-note")).to_contain_text(
        "They part at token 3: “·word102” with the edits, “·word152” without."
    )
    for side in ("edited", "unedited"):
        expect(page.locator(f"#write-{side} .parted")).to_have_count(4)
        expect(page.locator(f"#write-{side} .write-fork")).to_have_count(1)  # not by colour alone
        expect(page.locator(f"#write-{side} .write-end")).to_contain_text("as many tokens as asked for")
    (ask,) = asked(made)
    assert ask.view.compare
    assert ask.view.sampling.tokens == 6
    page.locator("#write-edited [data-token='3']").hover()
    expect(page.locator("#write-token")).to_contain_text("token 4: ·word103 (id 103) with probability 0.5000")
    expect(page.locator("#write-token")).to_contain_text("·word104 0.2500")


def hold_up(page: Page, made: Fake) -> None:
    """Write, and hold up the third token."""
    made.client.held = True
    made.client.ended.clear()
    page.locator("#write-go").click()
    expect(page.locator("#write-edited [data-token]")).to_have_count(2)


def test_tokens_are_shown_as_they_come_until_stop_another_text_which_makes_them_old_or_a_closed_tab_ends_it(
    watched: Watched, made: Fake
) -> None:
    page = show(watched, made)
    hold_up(page, made)
    expect(page.locator("#write-note")).to_contain_text("2 of 6")
    expect(page.locator("#write-go")).to_be_disabled()
    page.locator("#write-halt").click()
    eventually(page, lambda: len(made.client.ended) == 1)
    expect(page.locator("#write-go")).to_be_enabled()
    assert words(page, "edited") == " word100 word101"

    hold_up(page, made)
    page.locator("#text").fill("Another text")
    page.locator("#run").click()
    eventually(page, lambda: len(made.client.ended) == 1)
    expect(page.locator("#write-note")).to_contain_text("have changed since")
    expect(page.locator("#write-use")).to_be_disabled()

    page.wait_for_function("!lmscope.busy.isOut()")
    hold_up(page, made)
    other = watched.context.new_page()
    page.close()
    eventually(other, lambda: len(made.client.ended) == 1)


def test_what_is_out_of_range_is_not_asked_and_a_model_without_a_lens_writes_all_the_same_with_the_links_sampling(
    monkeypatch: pytest.MonkeyPatch, watched: Watched, made: Fake
) -> None:
    page = show(watched, made)
    page.locator("#write-tokens").fill("0")
    page.locator("#write-go").click()
    page.wait_for_timeout(200)
    assert asked(made) == []
    assert page.evaluate("lmscope.view.get().sampling.tokens") == 6
    for name, value in (("tokens", 9), ("temperature", 0.7), ("top_p", 0.9), ("top_k", 40), ("seed", 12)):
        page.locator(f"#write-{name}").fill(str(value))
        page.keyboard.press("Tab")
    page.locator("#write-stop").fill("word102")
    page.keyboard.press("Tab")
    page.wait_for_function("lmscope.view.get().sampling.stop.length === 1")
    sampling = {"tokens": 9, "temperature": 0.7, "top_p": 0.9, "top_k": 40, "seed": 12, "stop": ["word102"]}
    assert page.evaluate("lmscope.view.get().sampling") == sampling
    address = page.evaluate("lmscope.view.pack(lmscope.view.get())")
    eventually(page, lambda: page.url == f"{made.url}/trace{address}")

    can = made.client.shelf[0].can | {"trace": Ability(can=False, why="Its blocks do not give one stream.")}
    monkeypatch.setattr(made.client, "shelf", tuple(card.model_copy(update={"can": can}) for card in made.client.shelf))
    page.reload()
    expect(page.locator("#trace-cannot")).to_contain_text("This model has no lens")
    expect(page.locator("#trace-figure")).to_be_hidden()
    expect(page.locator("#write-temperature")).to_have_value("0.7")
    expect(page.locator("#write-stop")).to_have_value("word102")
    page.locator("#write-go").click()
    eventually(page, lambda: len(asked(made)) == 1)
    (ask,) = asked(made)
    assert ask.view.sampling.model_dump(mode="json") == sampling
    expect(page.locator("#write-edited [data-token]")).to_have_count(9)


def test_a_refusal_stands_in_the_panel_then_one_text_is_written_and_becomes_the_continuation_of_every_page(
    watched: Watched, made: Fake
) -> None:
    made.client.refuse["write"] = Problem(type="busy", status=503, what="Too many write", why="32 do", instead="Wait")
    page = show(watched, made)
    page.locator("#write-go").click()
    expect(page.locator("#write-notice")).to_contain_text("Too many write.32 do.Wait.")
    made.client.refuse.clear()
    page.locator("#write-go").click()
    expect(page.locator("#write-edited [data-token]")).to_have_count(6)
    expect(page.locator("#write-unedited-side")).to_be_hidden()
    expect(page.locator("#write-edited-title")).to_have_text("Continuation")
    assert not asked(made)[-1].view.compare
    expect(page.locator("#write-notice")).to_be_empty()

    expect(page.locator("#write-use")).to_be_enabled()
    page.locator("#write-use").click()
    page.wait_for_function("lmscope.view.get().continuation !== null")
    written = " word100 word101 word102 word103 word104 word105"
    assert page.evaluate("lmscope.view.get().continuation") == written
    expect(page.locator("#continuation")).to_have_value(written)
    page.go_back()
    page.wait_for_function("lmscope.view.get().continuation === null")


def test_it_is_used_by_keyboard(made: Fake, watched: Watched) -> None:
    page = watched.look(WIDE)
    page.goto(link(made.url, "trace", text=TEXT, sampling=SIX, edits=[OFF]))
    expect(page.locator("#write-go")).to_be_enabled()
    page.locator("#write-tokens").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#write-edited .write-end")).to_be_visible()
    page.locator("#write-edited").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#write-token")).to_contain_text("token 2: ·word101")
    page.keyboard.press("End")
    expect(page.locator("#write-token")).to_contain_text("token 6")


def test_a_whole_path_through_a_real_model(whole: Whole, watched: Watched) -> None:
    unit = {"kind": "ffn.set", "layer": 1, "unit": 7, "to": 30}
    view = {"model": whole.names["llama"], "text": "The cat sat", "edits": [unit], "sampling": {"tokens": 12}}
    page = watched.open(link(whole.url, "trace", **view))
    expect(page.locator("#write-go")).to_be_enabled()
    page.locator("#write-go").click()
    expect(page.locator("#write-unedited .write-end")).to_be_visible()
    expect(page.locator("#write-edited .write-end")).to_be_visible()
    expect(page.locator("#write-note")).to_contain_text("They part at token")
    told = page.evaluate("lmscope.trace.write.text().sides.edited.map((token) => token.id)")
    answer = page.request.post(f"{whole.url}/api/v1/write", data={"view": view | {"compare": True}})
    assert told == [token["id"] for token in answer.json()["edited"]["tokens"]]
    page.locator("#write-use").click()
    page.wait_for_function("lmscope.strip.answer().tokens.some((token) => token.role === 'continuation')")
