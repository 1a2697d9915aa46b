"""The trace page in a real browser: the lens, its open cell, a tracked token, the table, and what cannot be shown."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pydantic import BaseModel

from backend.schema import Problem, TraceAsk, View
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, Whole, eventually
from tests.browser.made_up import MadeUpClient, link

pytestmark = pytest.mark.browser

OFF = {"kind": "head.scale", "layer": 1, "head": 2, "by": 0}
TEXT = "The capital of France is"
WHOLE = "lmscope.trace.part() === 'all' && lmscope.trace.column() !== null && !lmscope.busy.isOut()"
HEAT = "document.querySelector('#trace-figure .js-plotly-plot').data[0]"
BOX = (
    "(name) => document.querySelector('#trace-figure .js-plotly-plot').layout.shapes.find((each) => each.name === name)"
)


class SlowClient(MadeUpClient):
    """Answers the whole lens only when `whole` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = [False]  # a list, for the client of each tab is a copy

    async def answer(self, ask: BaseModel) -> Any:
        """Any instrument."""
        while self.waiting[0] and isinstance(ask, TraceAsk) and ask.part == "all":
            await asyncio.sleep(0.02)
        return await super().answer(ask)


@pytest.fixture(scope="module")
def served() -> Iterator[Fake]:
    client = SlowClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


@pytest.fixture
def made(served: Fake) -> Fake:
    """The same server, answering as if nothing had happened before."""
    served.client.refuse.clear()
    served.client.asked.clear()
    served.client.waiting[0] = False
    return served


def show(watched: Watched, made: Fake, **view: Any) -> Page:
    page = watched.open(link(made.url, "trace", **({"text": TEXT} | view)))
    wait_for_picture(page)
    return page


def wait_for_all(page: Page) -> None:
    """Until the whole lens and the tracked token are there."""
    page.wait_for_function(WHOLE, timeout=30_000)


def wait_for_picture(page: Page) -> None:
    """Until the whole lens is drawn as well."""
    wait_for_all(page)
    expect(page.locator("#trace-figure .hm image")).to_have_count(1)
    page.wait_for_function(f"{HEAT}.x.length === lmscope.strip.answer().tokens.length")  # not the first paint's column


def asked(made: Fake, part: str) -> list[TraceAsk]:
    return [ask for _, ask in made.client.asked if isinstance(ask, TraceAsk) and ask.part == part]


def place_of_cell(page: Page, token: int, row: int) -> tuple[float, float]:
    """Where the middle of a cell is, once the picture is not being drawn anew."""
    page.wait_for_function("!lmscope.busy.isOut()")
    x, y = page.evaluate(
        """([token, row]) => {
            const drawn = document.querySelector('#trace-figure .js-plotly-plot');
            const { xaxis, yaxis } = drawn._fullLayout;
            const box = drawn.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.d2p(token), box.top + yaxis._offset + yaxis.d2p(row)];
        }""",
        [token, row],
    )
    return x, y


def click_cell(page: Page, token: int, row: int) -> None:
    """Press the mouse in the middle of a cell."""
    x, y = place_of_cell(page, token, row)
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.up()


def tap_cell(page: Page, token: int, row: int) -> None:
    """Press while the mouse comes to rest and let go when Plotly, held by the press, has forgotten where it is."""
    page.evaluate(
        """async ([x, y]) => {
            const at = document.elementFromPoint(x, y);
            const send = (name) => at.dispatchEvent(new MouseEvent(name, { bubbles: true, clientX: x, clientY: y }));
            const forgotten = new Promise((resolve) => at.closest(".js-plotly-plot").once("plotly_unhover", resolve));
            for (const name of ["mousemove", "mousemove", "mousedown"]) send(name);
            await forgotten;
            send("mouseup");
        }""",
        place_of_cell(page, token, row),
    )


def test_the_rail_leads_here_with_the_same_view_and_edited_stands_beside_unedited_and_their_difference(
    made: Fake, watched: Watched
) -> None:
    page = watched.open(link(made.url, "heads", text=TEXT, edits=[OFF], compare=True))
    page.get_by_role("link", name="Trace").click()
    wait_for_picture(page)
    expect(page.locator("#rail [aria-current]")).to_have_text("Trace")
    assert page.evaluate("lmscope.view.get().edits.length") == 1
    assert watched.errors == []

    expect(page.get_by_role("radio", name="Edited", exact=True)).to_be_checked()
    expect(page.locator("#trace-tracked-figure .scatterlayer .trace")).to_have_count(6)
    expect(page.locator("#trace-tracked-figure .legend")).to_contain_text("unedited")
    edited = page.locator("#trace-cell tbody tr").first.inner_text()
    page.get_by_role("radio", name="Unedited").check(force=True)
    expect(page.locator("#trace-cell tbody tr").first).not_to_have_text(edited)

    # The difference is centred at zero, named, and kept by the link.
    page.get_by_role("radio", name="Difference").check(force=True)
    expect(page.locator("#trace-figure .infolayer")).to_contain_text("Edited − unedited")
    page.wait_for_function(f"{HEAT}.zmin < 0")
    low, high = page.evaluate(f"[{HEAT}.zmin, {HEAT}.zmax]")
    assert high > 0
    assert low == -high
    expect(page.locator("#trace-note")).to_contain_text("red is more, blue is less")
    eventually(page, lambda: View.from_link(page.url).focus.side == "difference")
    page.reload()
    expect(page.get_by_role("radio", name="Difference")).to_be_checked()
    expect(page.locator("#trace-figure .infolayer")).to_contain_text("Edited − unedited")


def test_the_lens_shows_every_layer_and_token_a_click_opens_a_cell_the_strip_follows_and_arrow_keys_move_it(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    assert page.evaluate(f"{HEAT}.x.length") == 5
    assert page.evaluate(f"{HEAT}.y.length") == 31
    words = page.locator("#trace-figure .heatmap-label")
    expect(words.first).to_be_visible()
    eventually(page, lambda: words.count() > 100)
    expect(page.locator("#trace-figure .yaxislayer-above")).to_contain_text("answer: after block 29")
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “4 is”")
    expect(page.locator("#trace-cell tbody tr")).to_have_count(5)
    assert watched.errors == []

    before = len(asked(made, "all"))
    click_cell(page, 1, 12)
    expect(page.locator("#trace-cell-title")).to_have_text("After block 11 at “1 capital”")
    expect(page.locator('.chip[aria-selected="true"]')).to_have_text("capital")
    page.wait_for_function(f"({BOX})('cell').x0 === 0.5 && ({BOX})('cell').y0 === 11.5")
    page.locator("#token-3").click()
    expect(page.locator("#trace-cell-title")).to_have_text("After block 11 at “3 France”")
    page.wait_for_function(f"({BOX})('column').x0 === 2.5")
    expect(page.locator("#tracked-title")).to_contain_text("at “3 France”")
    wait_for_all(page)
    assert len(asked(made, "all")) == before, "looking elsewhere asks nothing anew of the whole lens"

    page.locator("#token-4").click()
    page.locator("#trace-place").focus()
    page.keyboard.press("PageDown")
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “4 is”")
    page.locator("#trace-place").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#trace-cell-title")).to_have_text("After block 28 at “3 France”")
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    expect(page.locator("#trace-cell-title")).to_have_text("Embedding at “0 The”")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("PageDown")
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “0 The”")

    tap_cell(page, 2, 7)
    expect(page.locator("#trace-cell-title")).to_have_text("After block 6 at “2 of”")


def test_the_last_row_and_the_focused_column_come_first_and_all_can_be_taken_away_copied_as_python_and_explained(
    made: Fake, watched: Watched
) -> None:
    made.client.waiting[0] = True
    page = watched.open(link(made.url, "trace", text=TEXT, focus={"token": 2}))
    page.wait_for_function("lmscope.trace.part() === 'focus'")
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “2 of”")
    expect(page.locator("#tracked-title")).to_contain_text("at “2 of”")
    page.wait_for_function("lmscope.trace.column() !== null")
    assert len(asked(made, "focus")) == 2, "the first paint, and the tracked tokens"
    made.client.waiting[0] = False
    wait_for_picture(page)
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “2 of”")

    for menu in ("Download the lens", "Download the tracked token"):
        page.get_by_role("button", name=menu).click()
        entries = page.locator(".menu-box:popover-open button").all_inner_texts()
        page.keyboard.press("Escape")
        assert len(entries) == 4
        for entry in entries:
            page.get_by_role("button", name=menu).click()
            with page.expect_download() as waiting:
                page.locator(".menu-box:popover-open").get_by_role("button", name=entry, exact=True).click()
            assert waiting.value.suggested_filename.startswith("lmscope-made-up-30x9")
    page.get_by_role("button", name="About the lens").click()
    about = page.locator(".about:popover-open")
    expect(about).to_contain_text("the final norm of the last stream is what is read out")
    expect(about).to_contain_text("nostalgebraist 2020")
    expect(about).to_contain_text("Precision")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#code-dialog")).to_contain_text(".trace(view, tracked=(")
    expect(page.locator("#code-dialog section")).to_have_count(1)
    assert watched.errors == []


def test_a_link_opens_the_same_cell_colour_and_token_and_keeps_the_colour_that_is_chosen(
    made: Fake, watched: Watched
) -> None:
    focus = {"token": 3, "row": 12, "lens": "rank", "tracked": 6, "tab": "table"}
    page = watched.open(link(made.url, "trace", text=TEXT, focus=focus))
    wait_for_all(page)
    expect(page.locator("#trace-cell-title")).to_have_text("After block 11 at “3 France”")
    expect(page.locator("#tracked-choice input:checked")).to_have_value("6")
    page.wait_for_timeout(600)  # time enough for an address that says something else
    opened = View.from_link(page.url)
    assert opened.focus.model_dump(exclude_defaults=True) == focus
    page.get_by_role("tab", name="Grid").click()
    expect(page.locator("#trace-figure .infolayer")).to_contain_text("Rank of the tracked token")

    for colour, title in (
        ("entropy", "Entropy, nats"), ("agreement", "Probability of the answer's word"),
        ("rank", "Rank of the tracked"),
    ):  # fmt: skip
        page.get_by_role("combobox", name="Colour by").select_option(colour)
        expect(page.locator("#trace-figure .infolayer")).to_contain_text(title)
        eventually(page, lambda colour=colour: View.from_link(page.url).focus.lens == colour)
    page.reload()
    expect(page.locator("#trace-figure .infolayer")).to_contain_text("Rank of the tracked")


def test_any_of_the_likeliest_words_can_be_followed_and_the_table_has_every_cell_and_opens_it_by_keyboard(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    expect(page.locator("#tracked-choice input")).to_have_count(5)
    expect(page.locator("#trace-tracked-figure .scatterlayer .trace")).to_have_count(3)
    title = page.locator("#tracked-title").inner_text()
    page.locator("#tracked-choice input").nth(1).check(force=True)
    expect(page.locator("#tracked-title")).not_to_have_text(title)
    page.wait_for_function("lmscope.trace.column().tracked.includes(lmscope.view.get().focus.tracked)")
    page.wait_for_function("!lmscope.busy.isOut()")
    before = page.evaluate("lmscope.view.get().focus.tracked")
    page.locator("#trace-cell tbody .link").nth(2).click()
    page.wait_for_function("before => lmscope.view.get().focus.tracked !== before", arg=before)
    expect(page.locator("#trace-cell tr[data-tracked]")).to_have_count(1)
    page.wait_for_function("!lmscope.busy.isOut()")
    page.locator("#token-1").click()  # the chosen token stays, also where it is not among the likeliest
    chosen = page.evaluate("lmscope.view.get().focus.tracked")
    expect(page.locator("#tracked-choice input:checked")).to_have_value(str(chosen))

    page.get_by_role("tab", name="Table").click()
    expect(page.locator("#trace-table .ag-row").first).to_be_visible()
    page.wait_for_function(f"dash_ag_grid.getApi('trace-table').getDisplayedRowCount() === {5 * 31}")
    first = page.locator('#trace-table .ag-row[row-index="3"]')
    expect(first.locator('[col-id="stage"]')).to_have_text("after block 2")
    first.locator('[col-id="stage"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator("#trace-cell-title")).to_have_text("After block 2 at “0 The”")
    page.get_by_role("tab", name="Table").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#trace-place")).to_be_visible()


def test_an_encoder_has_no_lens_and_says_why(calm: Fake, watched: Watched) -> None:
    view = View(model="all-minilm-l6-v2", text=TEXT)
    page = watched.open(view.link("trace", calm.url))
    expect(page.locator("#trace-cannot")).to_contain_text("This model has no lens")
    expect(page.locator("#trace-cannot")).to_contain_text("It is an encoder: no token is predicted from its left.")
    expect(page.locator("#trace-figure")).to_be_hidden()
    page.evaluate("lmscope.view.update({model: 'smollm2-135m-instruct'}, {push: true})")
    wait_for_all(page)
    expect(page.locator("#trace-cannot .notice")).to_have_count(0)
    expect(page.locator("#trace-figure")).to_be_visible()


def test_a_real_model_shows_its_own_answer_and_a_real_encoder_its_reason(whole: Whole, watched: Watched) -> None:
    watched.page.set_default_navigation_timeout(60_000)  # the server may still be loading its models
    page = watched.open(View(model=whole.names["llama"], text=TEXT).link("trace", whole.url))
    wait_for_all(page)
    expect(page.locator("#trace-figure .hm image")).to_have_count(1)
    rows, words = page.evaluate(f"[{HEAT}.y.length, {HEAT}.text.at(-1)]")
    assert rows == page.evaluate("lmscope.shelf.card(lmscope.view.get()).shape.layers") + 1
    assert all(word.startswith("<b>") for word in words)
    page.evaluate("model => lmscope.view.update({model}, {push: true})", whole.names["bert"])
    expect(page.locator("#trace-page .notice").first).to_contain_text("This model has no lens")
    expect(page.locator("#trace-page .notice-why").first).not_to_be_empty()


def test_a_refusal_stands_in_its_place_the_old_answer_is_called_old_another_text_is_asked_anew_a_long_one_on_demand(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    said = {"what": "The queue is full", "why": "64 questions wait", "instead": "Ask again"}
    made.client.refuse["trace"] = Problem(type="busy", status=503, **said)
    page.locator("#text").fill("Another text")
    page.locator("#run").click()
    expect(page.locator("#trace-notice .notice")).to_contain_text("The queue is full")
    expect(page.locator("#trace-notice .notice-older")).to_be_visible()
    made.client.refuse.clear()
    page.locator("#run").click()  # the same text once more
    wait_for_all(page)
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “1 text”")
    page.locator("#text").fill("A third one")
    page.locator("#run").click()
    eventually(page, lambda: any(ask.view.text == "A third one" for ask in asked(made, "all")))
    wait_for_all(page)
    expect(page.locator("#trace-notice .notice")).to_have_count(0)
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “2 one”")
    page.wait_for_function(f"{HEAT}.x.length === 3")

    text = " ".join(f"w{i}" for i in range(300))
    made.client.asked.clear()
    page.locator("#text").fill(text)
    page.locator("#run").click()
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “299 w299”")
    page.wait_for_function("lmscope.trace.column().edited.at(-1).columns[0] === 299 && !lmscope.busy.isOut()")
    assert asked(made, "all") == []
    page.locator("#token-7").click()
    expect(page.locator("#trace-cell-title")).to_have_text("Answer at “7 w7”")
    page.wait_for_function(f"{HEAT}.x[0] === 0 && {HEAT}.x.length === 128")
    expect(page.locator("#tracked-title")).to_contain_text("at “7 w7”")
    page.get_by_role("button", name="Read all 9,300 cells").click()
    wait_for_all(page)
    expect(page.get_by_role("button", name="Read all")).to_have_count(0)
