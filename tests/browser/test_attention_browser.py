"""The attention page in a real browser: the grid, one head, and everything by mouse and by keyboard."""

import csv
import io
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from backend.schema import HeadAsk, OverviewAsk, Problem, View
from frontend.app import create_app
from frontend.figures.numbers import printed
from frontend.figures.statistics import LABELS
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, Whole, eventually, steady, wait_for_address
from tests.browser.made_up import MODELS, MadeUpClient, link

pytestmark = pytest.mark.browser

HEAD = {"heads": [{"layer": 5, "head": 3}]}
LONG = " ".join(f"w{i}" for i in range(700))


@pytest.fixture(scope="module")
def served() -> Iterator[Fake]:
    client = MadeUpClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


@pytest.fixture
def made(served: Fake) -> Fake:
    served.client.refuse.clear()
    served.client.asked.clear()
    return served


def show(watched: Watched, made: Fake, **view: Any) -> Page:
    page = watched.open(link(made.url, **view))
    page.locator("#head-card").wait_for(state="detached")
    return page


def drawn(page: Page) -> None:
    """The grid is on the canvas."""
    page.wait_for_function("document.querySelector('.grid-scroller')?.dataset.drawMs")


def opened(page: Page, heads: str) -> None:
    """The head's answer has arrived."""
    expect(page.locator("#head-panel")).to_have_attribute("data-head", heads)


def view(page: Page) -> dict[str, Any]:
    return page.evaluate("lmscope.view.get()")


def place_of(page: Page, layer: int, head: int) -> tuple[float, float]:
    """Where a head's picture lies in the window, once the grid stands still."""
    place = """([layer, head]) => {
        const grid = lmscope.attention.page.grid;
        grid.bring({layer, head});
        const box = grid.cellBox(grid.place.order.indexOf(grid.indexOf({layer, head})));
        const at = grid.scroller.getBoundingClientRect();
        return [at.left + box.x - grid.scroller.scrollLeft + 5, at.top + box.y - grid.scroller.scrollTop + 5];
    }"""
    return tuple(steady(page, lambda: page.evaluate(place, [layer, head])))


def last(made: Fake, kind: type) -> Any:
    """The newest question of a kind, or nothing."""
    asks = [ask for _, ask in made.client.asked if isinstance(ask, kind)]
    return asks[-1] if asks else None


# ---------------------------------------------------------------- the grid


def test_every_head_is_on_one_canvas_and_in_words_and_is_sorted_and_ranged(made: Fake, watched: Watched) -> None:
    page = show(watched, made)
    drawn(page)
    grid = page.get_by_role("grid", name="Attention heads")
    expect(grid).to_have_attribute("aria-rowcount", "30")
    expect(grid).to_have_attribute("aria-colcount", "9")
    assert page.locator("#grid canvas").count() == 1
    expect(page.locator("#grid-active-cell")).to_contain_text(
        re.compile(r"Layer 0, head 0: Entropy \d\.\d{3} nats; uniform")
    )

    # Pictures have the colours of the answer, and query heads of a group stand together.
    colours = lambda: page.evaluate(  # noqa: E731
        """() => {
            const grid = lmscope.attention.page.grid, box = grid.cellBox(0);
            const context = grid.canvas.getContext("2d");
            const at = (x, y) => [...context.getImageData(box.x + x, box.y + y, 1, 1).data].slice(0, 3);
            return [at(1, 1), at(grid.place.size - 2, 1)];
        }"""
    )
    # Row 0 sees only itself: 1 on the left, 0 on the right.
    eventually(page, lambda: colours() == [[253, 231, 37], [68, 1, 84]])
    gaps = page.evaluate(
        "[0,1,2,3,4].map((n) => { const g = lmscope.attention.page.grid; return g.cellBox(n + 1).x - g.cellBox(n).x; })"
    )
    assert gaps[0] == gaps[1] < gaps[2] > gaps[3]

    # A hover shows all statistics beside their uniform values.
    page.mouse.move(*place_of(page, 2, 4))
    card = page.locator("#head-card")
    expect(card).to_contain_text("Layer 2 · head 4 · key/value head 1")
    expect(card.locator("tbody tr")).to_have_count(len(LABELS))
    expect(card.locator("tr", has_text="Next token")).to_contain_text("n/a")
    page.mouse.move(5, 5)
    expect(card).to_have_count(0)

    # Sorting shows the strongest first.
    page.get_by_label("Sort by").select_option("previous")
    order = page.evaluate(
        """() => {
            const grid = lmscope.attention.page.grid, {value} = grid.statistic("previous");
            return grid.place.order.map((index) => value[index]);
        }"""
    )
    assert order == sorted(order, reverse=True)
    assert len(order) == 270
    page.get_by_label("Sort by").select_option("")
    eventually(page, lambda: page.evaluate("lmscope.attention.page.grid.place.order.slice(0, 4)") == [0, 1, 2, 3])

    # A range dims, or hides where the heads are sorted, and says how many.
    page.get_by_label("Range from").fill("2.5")
    page.get_by_label("Range from").press("Tab")
    said = page.locator("#grid-legend .note")
    expect(said).to_contain_text(re.compile(r"\d+ of 270 heads in range, the others are dimmed"))
    page.get_by_label("Sort by").select_option("entropy")
    page.get_by_label("Range from").fill("2.5")
    page.get_by_label("Range from").press("Tab")
    expect(said).to_contain_text("the others are hidden")
    count = page.evaluate("lmscope.attention.page.grid.place.order.length")
    assert 0 < count < 270
    expect(said).to_contain_text(f"{count} of 270")
    assert watched.errors == []


def test_empty_text_offers_an_example_nothing_open_offers_heads_and_a_click_opens_one_kept_by_the_link_on_dense_screens(
    made: Fake, watched: Watched, chromium: Browser
) -> None:
    page = watched.page
    page.goto(link(made.url, text=" "))
    offer = page.locator("#head-empty").get_by_role("button")
    expect(page.locator("#head-empty")).to_contain_text("Start with a sentence")
    expect(offer).to_have_text(Settings().example)
    offer.click()
    page.wait_for_function("example => lmscope.view.get().text === example", arg=Settings().example)
    drawn(page)
    offers = page.locator("#head-empty li")
    expect(offers).to_have_count(3)
    expect(offers.first).to_contain_text("looks most at the previous token")
    offers.first.get_by_role("button").click()
    expect(page.locator("#head-empty")).to_be_hidden()
    expect(page.locator("#attention-map .nsewdrag")).to_be_visible()

    page.wait_for_function("!lmscope.busy.isOut()")
    page.mouse.click(*place_of(page, 3, 4))
    expect(page.get_by_role("heading", name="Layer 3 · head 4")).to_be_visible()
    opened(page, "3.4")
    expect(page.locator("#attention-map .nsewdrag")).to_be_visible()
    heads = lambda: [(each.layer, each.head) for each in View.from_link(page.url).focus.heads]  # noqa: E731
    eventually(page, lambda: heads() == [(3, 4)])

    # Somebody else's dense screen shows the same, sharp.
    other = chromium.new_context(device_scale_factor=2, viewport={"width": 1440, "height": 900})
    second = other.new_page()
    second.goto(page.url)
    expect(second.get_by_role("heading", name="Layer 3 · head 4")).to_be_visible()
    drawn(second)
    second.wait_for_function(
        "(() => { const c = document.querySelector('.grid-canvas');"
        " return c.width > 0 && c.width === 2 * c.clientWidth; })()"
    )
    other.close()


def test_the_keyboard_moves_opens_selects_several_and_jumps_by_name(made: Fake, watched: Watched) -> None:
    page = show(watched, made)
    drawn(page)
    page.locator(".grid-scroller").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    opened(page, "2.1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    opened(page, "2.1,2.2")
    expect(page.get_by_role("heading", name="Mean of 2 heads")).to_be_visible()
    expect(page.locator("#head-map-note")).to_contain_text("Mean of 2.1, 2.2")
    expect(page.locator("#grid-active-cell")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Control+End")
    expect(page.locator("#grid-active-cell")).to_contain_text("Layer 29, head 8")
    page.keyboard.press("Home")
    expect(page.locator("#grid-active-cell")).to_contain_text("Layer 29, head 0")

    # Typing a name jumps, and a wrong one says why.
    go = page.get_by_label("Go to")
    for text, why in (("40.1", "layers 0–29"), ("1.9", "heads 0–8"), ("abc", "such as 5.3")):
        go.fill(text)
        go.press("Enter")
        expect(page.locator("#grid-jump-problem")).to_contain_text(why)
    go.fill("29.8")
    go.press("Enter")
    opened(page, "29.8")
    page.wait_for_function("document.querySelector('.grid-scroller').scrollTop > 500")


def test_only_what_can_be_seen_is_drawn_of_any_model_and_axis_labels_never_overlap(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    drawn(page)
    for model in ("made-up-12x12", "made-up-32x32", "made-up-64x64", "made-up-encoder", "made-up-30x9"):
        page.evaluate("lmscope.attention.page.grid.scroller.dataset.drawMs = ''")
        page.evaluate("model => lmscope.view.update({model}, {push: true})", model)
        heads = MODELS[model].layers * MODELS[model].heads
        page.wait_for_function(f"lmscope.attention.page.grid?.place.order.length === {heads}")
        drawn(page)
        page.wait_for_function(
            "(() => { const c = document.querySelector('.grid-canvas');"
            " return c.width > 0 && c.width === c.clientWidth * devicePixelRatio; })()"
        )
        canvas = page.evaluate("document.querySelector('.grid-canvas').height")
        assert canvas <= 900, "the canvas has the size of the window onto the grid"

    text = " ".join(f"token{i}" for i in range(200))
    page.evaluate("([text, focus]) => lmscope.view.update({text, focus}, {push: true})", [text, HEAD])
    opened(page, "5.3")
    expect(page.locator("#attention-map g.xtick text").first).to_be_visible()
    for axis in ("x", "y"):
        places = (
            f"[...document.querySelectorAll('#attention-map g.{axis}tick text')].map((t) => t.getBoundingClientRect())"
            ".map((b) => [b.left, b.right, b.top, b.bottom])"
        )
        boxes = steady(page, lambda places=places: page.evaluate(places))
        starts, ends = (0, 1) if axis == "x" else (2, 3)
        boxes.sort(key=lambda box: box[starts])
        assert len(boxes) > 8
        assert all(a[ends] <= b[starts] + 1 for a, b in pairwise(boxes))


# ---------------------------------------------------------------- one head


def test_a_zoom_into_a_reduced_map_asks_for_detail_and_a_double_click_ends_it(made: Fake, watched: Watched) -> None:
    page = show(watched, made, text=LONG, focus=HEAD)
    opened(page, "5.3")
    expect(page.locator("#attention-map .nsewdrag")).to_be_visible()
    box = steady(page, page.locator("#attention-map .nsewdrag").bounding_box)
    cells = page.evaluate("document.querySelector('#attention-map .js-plotly-plot').data[0].x.length")
    assert 128 <= cells <= min(box["width"], box["height"]) + 1, "no more cells than its picture has pixels"
    expect(page.locator("#head-map-note")).to_contain_text("max of several pairs")
    box = steady(page, page.locator("#attention-map .nsewdrag").bounding_box)
    x, y, w, h = box["x"], box["y"], box["width"], box["height"]
    page.mouse.move(x + w * 0.1, y + h * 0.3)
    page.mouse.down()
    page.mouse.move(x + w * 0.2, y + h * 0.4, steps=4)
    page.mouse.up()
    page.wait_for_function("lmscope.view.get().focus.region !== null")
    expect(page.locator("#head-map-note")).to_contain_text("Show the whole map")
    asked: list[HeadAsk] = []
    eventually(
        page,
        lambda: bool(
            asked.extend(ask for _, ask in made.client.asked if isinstance(ask, HeadAsk) and ask.region) or asked
        ),
    )
    region = asked[-1].region
    assert region is not None
    assert 60 <= region.q1 - region.q0 <= 85
    assert 60 <= region.k1 - region.k0 <= 85
    page.wait_for_function("document.querySelector('#attention-map .js-plotly-plot')?.data[0].x.length < 100")
    page.locator("#attention-map .nsewdrag").dblclick()
    page.wait_for_function("lmscope.view.get().focus.region === null")

    # By keyboard; and another text is shown whole. The button is drawn anew with each answer.
    page.evaluate("lmscope.view.update({focus: {token: 300}})")
    eventually(page, lambda: last(made, HeadAsk).region is None and last(made, HeadAsk).token == 300)
    page.wait_for_function("!lmscope.busy.isOut()")
    page.wait_for_function("document.querySelector('#attention-map .js-plotly-plot')?.data[0].x.length >= 128")
    steady(page, page.locator("#head-map-note").inner_html)
    page.get_by_role("button", name="Zoom to the focus token").press("Enter")
    page.wait_for_function("lmscope.view.get().focus.region?.q0 === 236")
    page.evaluate("lmscope.view.update({text: 'Four other words here'}, {push: true})")
    page.wait_for_function("lmscope.view.get().focus.region === null")
    page.wait_for_function("document.querySelector('#attention-map .js-plotly-plot').data[0].x.length === 4")
    page.go_back()  # where the text before was zoomed into
    page.wait_for_function("lmscope.view.get().focus.region?.q0 === 236")
    page.wait_for_function("document.querySelector('#attention-map .js-plotly-plot').data[0].x.length === 128")


def test_lines_state_what_they_do_not_draw_text_is_shaded_in_both_directions_and_the_table_sorts_and_says_how(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus=HEAD | {"tab": "lines"})
    opened(page, "5.3")
    said = page.locator("#head-lines .readout")
    expect(said).to_contain_text("3 strongest keys")
    expect(said).to_contain_text("Not drawn: 0.")
    page.locator("#head-lines text", has_text="milk").first.hover()
    expect(said).to_contain_text("milk (14) looks at")
    expect(page.locator("#head-lines .link.on")).to_have_count(3)
    page.locator("#head-lines text", has_text="milk").first.click()
    page.wait_for_function("lmscope.view.get().focus.token === 14")

    page.evaluate("lmscope.view.update({focus: {tab: 'text', token: null}})")
    expect(page.locator("#head-text")).to_contain_text("Choose a token")
    page.get_by_role("button", name="start with the last one").click()
    expect(page.locator("#head-text h3").first).to_have_text("What . (17) looks at")
    shades = page.evaluate(
        "[...document.querySelectorAll('#head-text .shaded-token')].map((t) => +t.style.getPropertyValue('--strength'))"
    )
    assert max(shades[:18]) == 1
    assert min(shades[18:35]) == 0, "no earlier token looks at the last one of a causal model"
    assert (
        page.locator("#head-text .shaded-text").first.inner_text()
        == "When Mary and John went to the store , John gave a bottle of milk to Mary ."
    )

    page.evaluate("lmscope.view.update({focus: {tab: 'table', token: 4}})")
    rows = page.locator("#head-table tbody tr")
    expect(rows).to_have_count(18)
    page.get_by_role("button", name="Entropy, nats").click()
    expect(page.locator("#head-table th[aria-sort=descending]")).to_contain_text("Entropy")
    values = [float(text) for text in page.locator("#head-table tbody tr td:nth-child(3)").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    expect(page.locator("#head-table tr[data-focus=yes]")).to_contain_text("went")
    expect(page.locator("#head-table thead")).to_contain_text("Looked at by went (4)")


# ---------------------------------------------------------------- edits and readings


def test_a_head_is_switched_off_scaled_restored_compared_in_one_choice_nothing_sticks_out_and_plots_follow_the_theme(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus=HEAD)
    opened(page, "5.3")
    page.get_by_role("button", name="Switch head off").click()
    page.wait_for_function("lmscope.view.get().edits.length === 1")
    assert [(edit["layer"], edit["head"], edit["by"]) for edit in view(page)["edits"]] == [(5, 3, 0)]
    expect(page.locator("#grid-active-cell")).to_contain_text("switched off")
    page.get_by_label("Factor").fill("2")
    page.get_by_role("button", name="Scale by").click()
    eventually(page, lambda: [edit["by"] for edit in view(page)["edits"]] == [2])
    page.get_by_role("button", name="Undo 1 edit").click()
    eventually(page, lambda: view(page)["edits"] == [])

    # Edited, unedited and their difference are one choice.
    page.evaluate("lmscope.edits.off(1, 2)")
    expect(page.get_by_role("button", name="Compare with unedited")).to_be_visible()
    page.wait_for_function("!lmscope.busy.isOut()")
    assert page.get_by_role("radio", name="Difference").count() == 0
    page.get_by_role("button", name="Compare with unedited").click()
    page.get_by_role("radio", name="Difference").check(force=True)
    expect(page.locator("#grid-legend")).to_contain_text("edited − unedited")
    page.wait_for_function(
        "(({zmin, zmax}) => zmin < 0 && zmin === -zmax)"
        "(document.querySelector('#attention-map .js-plotly-plot').data[0])"
    )
    assert view(page)["focus"]["side"] == "difference"

    # Nothing sticks out, and plots follow the theme.
    page.get_by_role("radio", name="Edited", exact=True).check(force=True)
    page.wait_for_function("lmscope.view.get().focus.side === 'edited' && !lmscope.busy.isOut()")
    ink = "getComputedStyle(document.querySelector('#attention-map g.ytick text')).fill"
    for width, theme, colour in (
        (900, "light", "rgb(28, 37, 48)"), (1440, "light", "rgb(28, 37, 48)"), (1440, "dark", "rgb(232, 236, 241)"),
        (900, "dark", "rgb(232, 236, 241)"),
    ):  # fmt: skip
        watched.look(width, theme)
        expect(page.locator("#attention-map .nsewdrag")).to_be_visible()
        page.wait_for_function(f"lmscope.theme.now() === '{theme}' && innerWidth === {width}")
        page.wait_for_function(f"{ink} === '{colour}'")
        eventually(page, lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_every_reading_is_a_question_and_part_of_the_link_ends_what_it_excludes_and_numbers_are_printed_as_in_python(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus=HEAD)
    opened(page, "5.3")
    readings: list[tuple[str, str, Any]] = [
        ("Without the first token", "without_first", True), ("Value-weighted", "weighted", True),
        ("All", "rows", "all"), ("Mean", "pool", "mean"), ("Clark et al.", "definitions", "clark"),
    ]  # fmt: skip
    for control, field, value in readings:
        role: Any = "switch" if isinstance(value, bool) else "radio"
        page.locator("#attention-page").get_by_role(role, name=control, exact=True).check(force=True)
        for kind in (OverviewAsk, HeadAsk):
            eventually(
                page,
                lambda kind=kind, field=field, value=value: (
                    (ask := last(made, kind)) is not None and getattr(ask.view.reading, field) == value
                ),
            )
        assert view(page)["reading"][field] == value

    # Readings that exclude each other end each other.
    page.get_by_role("switch", name="Without the first token").check(force=True)
    page.get_by_role("radio", name="Clark et al.").check(force=True)
    eventually(page, lambda: view(page)["reading"].items() >= {"without_first": False, "definitions": "clark"}.items())
    page.get_by_role("switch", name="Without the first token").check(force=True)
    eventually(page, lambda: view(page)["reading"].items() >= {"without_first": True, "definitions": "lmscope"}.items())

    # The browser prints numbers as Python does.
    values = [0.0, 1.23456789, 12.3456, 0.000123456, 987.654]
    for dtype in ("float32", "bfloat16", "float16"):
        for unit in ("nats", "share", "ratio", "tokens"):
            shown = page.evaluate(
                "([values, unit, dtype]) => [...values, NaN].map((each) => lmscope.numbers.fixed(each, unit, {dtype}))",
                [values, unit, dtype],
            )
            assert shown == [printed(value, unit, {"dtype": dtype}) for value in [*values, float("nan")]]


def test_a_link_restores_everything_that_was_chosen(made: Fake, watched: Watched) -> None:
    heads = [{"layer": 1, "head": 1}, {"layer": 2, "head": 2}]
    focus = {"heads": heads, "tab": "table", "colour": "first", "sort": "self", "scale": "log", "low": 0.1, "token": 3}
    page = show(watched, made, focus=focus, reading={"rows": "all", "pool": "mean"})
    opened(page, "1.1,2.2")
    expect(page.get_by_label("Colour by")).to_have_value("first")
    expect(page.get_by_label("Sort by")).to_have_value("self")
    expect(page.get_by_label("Range from")).to_have_value("0.1")
    expect(page.get_by_role("tab", name="Table")).to_have_attribute("aria-selected", "true")
    for name in ("Log", "All", "Mean"):
        expect(page.locator("#reading").get_by_role("radio", name=name, exact=True)).to_be_checked()
    page.reload()
    opened(page, "1.1,2.2")
    assert view(page)["focus"] | focus == view(page)["focus"]


# ---------------------------------------------------------------- trust, errors, taking away


def test_an_error_is_shown_where_it_happened_and_a_page_that_was_left_draws_again_and_not_into_the_next_one(
    made: Fake, watched: Watched
) -> None:
    problem = Problem(type="out-of-memory", status=503, what="No room for this map", why="It needs 9 GB of 2 GB.",
                      instead="Ask for a region.", needed=9e9, available=2e9)  # fmt: skip
    made.client.refuse["head"] = problem
    page = show(watched, made, focus=HEAD)
    drawn(page)
    notice = page.locator("#attention-head-notice [role=alert]")
    expect(notice).to_contain_text("No room for this map")
    expect(notice).to_contain_text("Ask for a region.")
    made.client.refuse.clear()
    page.mouse.click(*place_of(page, 2, 2))
    opened(page, "2.2")
    expect(notice).to_have_count(0)

    # Going away and back draws again.
    wait_for_address(page)
    page.get_by_role("link", name="Heads").click()
    expect(page.locator("#heads-figure .js-plotly-plot")).to_be_visible()
    page.go_back()
    drawn(page)
    opened(page, "2.2")
    expect(page.locator("#attention-map .nsewdrag")).to_be_visible()
    assert watched.errors == []

    # Back may put the page into the document a moment before it is started anew: nothing is drawn into that one.
    page.get_by_role("link", name="Heads").click()
    expect(page.locator("#heads-figure .js-plotly-plot")).to_be_visible()
    page.evaluate("document.body.append(Object.assign(document.createElement('div'), {id: 'attention-page'}))")
    page.evaluate("lmscope.view.update({focus: {token: 1}})")
    expect(page.locator('.chip[aria-selected="true"]')).to_have_text("Mary")
    assert watched.errors == []


def saved(page: Page, menu: str, entry: str, folder: Path) -> tuple[str, bytes]:
    page.get_by_role("button", name=menu).click()
    with page.expect_download() as waiting:
        page.locator(".menu-box:popover-open").get_by_role("button", name=entry, exact=True).click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path.name, path.read_bytes()


def test_a_head_says_its_values_explains_itself_turns_its_tabs_and_is_copied_as_python(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus=HEAD)
    opened(page, "5.3")
    area = page.locator("#attention-map .nsewdrag")
    expect(area).to_be_visible()
    drawn(page)
    page.wait_for_function("!lmscope.busy.isOut()")
    box = steady(page, area.bounding_box)
    page.mouse.move(box["x"] + box["width"] * 0.5 / 18, box["y"] + box["height"] * 0.5 / 18)
    hover = page.locator("#attention-map .hoverlayer")
    expect(hover).to_contain_text("0 When")
    expect(hover).to_contain_text("1.000" if hover.get_by_text("1.000").count() else "1")
    expect(page.locator("#attention-map .spikeline").nth(1)).to_be_attached()  # the crosshair

    # Logarithmic colours change both pictures without asking.
    size = "JSON.parse(lmscope.attention.page.asked).cells"
    eventually(page, lambda: last(made, HeadAsk).cells == page.evaluate(size))
    pictures = lambda: [ask for _, ask in made.client.asked if isinstance(ask, OverviewAsk | HeadAsk)]  # noqa: E731
    before = len(pictures())
    page.get_by_role("radio", name="Log", exact=True).check(force=True)
    expect(page.locator("#grid-legend")).to_contain_text("≤ 0.0001")
    page.wait_for_function("document.querySelector('#attention-map .js-plotly-plot')?.data[0].colorscale.length > 20")

    page.get_by_role("tab", name="Map").focus()
    for name in ("Lines", "Text", "Table", "Map"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tab", name=name)).to_be_focused()

    assert len(pictures()) == before
    for about in ("About the grid", "About this head"):
        page.get_by_role("button", name=about).click()
        shown = page.locator(".about:popover-open")
        for word in ("unit", "source", "Clark et al. 2019", "Precision", "float32", "kernel eager"):
            expect(shown).to_contain_text(word)
        for word in ("Self-check at load", "rows sum to one", "largest deviation", "Conditions", "0.1.0"):
            expect(shown).to_contain_text(word)
        page.keyboard.press("Escape")
        expect(page.locator(".about:popover-open")).to_have_count(0)

    page.locator("#head-tools").get_by_role("button", name="Copy as Python").click()
    dialog = page.get_by_role("dialog", name="The same as Python")
    expect(dialog).to_contain_text("from lmscope import")
    expect(dialog).to_contain_text(f"Client('{Settings().backend_url}')")  # the API's address, not the pages'
    expect(dialog).to_contain_text("from transformers import")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_pictures_and_numbers_can_be_taken_away(made: Fake, watched: Watched, tmp_path: Path) -> None:
    page = show(watched, made, focus=HEAD)
    opened(page, "5.3")
    expect(page.locator("#attention-map .nsewdrag")).to_be_visible()
    name, png = saved(page, "Download this head", "PNG", tmp_path)
    assert name == "lmscope-made-up-30x9-head-5.3-edited-map.png"
    assert png.startswith(b"\x89PNG")
    _, svg = saved(page, "Download this head", "SVG", tmp_path)
    assert b"<svg" in svg[:200]
    _, table = saved(page, "Download this head", "CSV of the map", tmp_path)
    rows = list(csv.reader(io.StringIO(table.decode("utf-8-sig"))))
    assert len(rows) == 19
    assert sum(float(cell) for cell in rows[5][1:]) == pytest.approx(1, abs=1e-5)
    _, answer = saved(page, "Download this head", "JSON of the answer", tmp_path)
    whole = json.loads(answer)
    assert whole["heads"] == [{"layer": 5, "head": 3}]
    assert whole["edited"]["map"]["shape"] == "18, 18"
    assert whole["conditions"]["dtype"] == "float32"
    _, statistics = saved(page, "Download the grid", "CSV of all statistics", tmp_path)
    rows = list(csv.reader(io.StringIO(statistics.decode("utf-8-sig"))))
    assert len(rows) == 271
    assert rows[0][:4] == ["layer", "head", "entropy (nats)", "entropy uniform"]
    assert rows[1][rows[0].index("next (share)")] == "", "what is undefined is empty, not 0"
    _, picture = saved(page, "Download the grid", "PNG", tmp_path)
    assert int.from_bytes(picture[20:24]) > 1500, "the whole grid, not only what is in sight"
    page.get_by_role("tab", name="Lines").click()
    _, lines = saved(page, "Download this head", "SVG", tmp_path)
    assert lines.count(b"<path") > 20
    assert b"class=" not in lines, "styles travel with the picture"


def test_a_whole_question_through_both_applications(whole: Whole, watched: Watched) -> None:
    """A real (tiny) model: a head is switched off, the layers before it do not change, one after it does."""
    model = next(name for kind, name in whole.names.items() if "llama" in kind)
    fields = {
        "model": model,
        "text": "The quick brown fox",
        "compare": True,
        "focus": {"heads": [{"layer": 1, "head": 0}]},
    }
    edit = {"kind": "head.scale", "layer": 0, "head": 0, "by": 0}
    page = watched.page
    page.goto(View.model_validate(fields | {"edits": [edit]}).link(base=whole.url))
    opened(page, "1.0")
    page.wait_for_function("Boolean(lmscope.attention.page.grid?.data?.sides?.difference)")
    changed = page.evaluate(
        """() => {
            const {data} = lmscope.attention.page.grid, {bytes} = data.sides.difference;
            const size = data.heads * data.cells[0] * data.cells[1];
            return [0, 1].map((layer) => bytes.subarray(layer * size, (layer + 1) * size).some((byte) => byte !== 128));
        }"""
    )
    assert changed == [False, True]
    expect(page.locator("#grid-legend")).to_contain_text("rows averaged")
    page.get_by_role("tab", name="Table").click()
    expect(page.locator("#head-table tbody tr").first).to_contain_text("0")
    assert watched.errors == []
