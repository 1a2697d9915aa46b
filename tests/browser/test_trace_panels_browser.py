"""The trace page's panels in a real browser: the cell's values, why a word is said, patches, ready views."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from backend.schema import (
    CellAsk,
    ContributionsAsk,
    EffectsAsk,
    PatchAsk,
    PatchMapAsk,
    Problem,
    SwitchAsk,
    View,
)
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, eventually, wait_for_address
from tests.browser.made_up import MadeUpClient, link
from tests.browser.test_accessible import SHAPES, WIDE, faults, faults_everywhere, popover, settled
from tests.browser.test_trace_browser import wait_for_all

pytestmark = pytest.mark.browser

TEXT, OTHER = "The capital of France is", "The capital of Italy is"


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
    served.client.slow_jobs = False
    return served


def show(watched: Watched, made: Fake, **view: Any) -> Page:
    page = watched.open(link(made.url, "trace", **({"text": TEXT} | view)))
    wait_for_panels(page)
    return page


def wait_for_panels(page: Page) -> None:
    """Until the lens, the cell's values and the bars of the parts are there."""
    wait_for_all(page)
    expect(page.locator(".value").first).to_be_visible()
    expect(page.locator("#why-figure .bars path").first).to_be_attached()


def asked(made: Fake, form: type) -> list[Any]:
    return [ask for _, ask in made.client.asked if isinstance(ask, form)]


def edits(page: Page) -> list[dict[str, Any]]:
    return page.evaluate("lmscope.view.get().edits")


# ---------------------------------------------------------------------------------------------------- the cell


def test_a_cell_shows_its_block_before_moved_and_values_and_panels_can_be_taken_away_and_are_copied_as_python(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus={"row": 12, "token": 3, "source": OTHER})
    expect(page.locator("#trace-cell-title")).to_have_text("After block 11 at “3 France”")
    expect(page.locator("#trace-block")).to_contain_text("Feed-forward block 11")
    expect(page.locator(".pairs").nth(1).locator("tr")).to_have_count(5)
    expect(page.locator(".value")).to_have_count(10)
    expect(page.locator(".value-name").first).to_have_text("L11U34")
    expect(page.locator(".value-number").first).to_have_text("+4.000")
    expect(page.locator(".signed-bar.less")).to_have_count(5)
    (ask,) = asked(made, CellAsk)
    assert (ask.layer, ask.token, ask.explain.token) == (11, 3, 3)

    # A negative coefficient turns the ends round.
    answer = page.evaluate("lmscope.trace.cell.answer()")
    second = answer["edited"]["values"][1]
    assert second["coefficient"] < 0
    shown = page.evaluate("lmscope.trace.wordOf(" + str(second["ends"]["lowest"][0]) + ")")
    expect(page.locator(".value").nth(1).locator("bdi").first).to_have_text(shown)

    for menu, entry in (
        ("Download the cell", "CSV of the values"), ("Download the cell", "JSON of the answer"),
        ("Download the contributions", "CSV of all parts"), ("Download the contributions", "PNG"),
    ):  # fmt: skip
        page.get_by_role("button", name=menu).click()
        with page.expect_download() as waiting:
            page.locator(".menu-box:popover-open").get_by_role("button", name=entry, exact=True).click()
        assert waiting.value.suggested_filename.startswith("lmscope-made-up-30x9")
    for button, call in (
        ("Copy the cell as Python", ".cell(view, 11, 3"), ("Copy the contributions as Python", ".contributions(view"),
        ("Copy the patch as Python", ".patch(view, source"),
    ):  # fmt: skip
        page.get_by_role("button", name=button).click()
        expect(page.locator("#code-dialog")).to_contain_text(call)
        page.keyboard.press("Escape")

    page.evaluate("lmscope.trace.lens.open(2, 0)")
    expect(page.locator("#trace-block")).to_contain_text("no block has written here yet")
    expect(page.locator(".value")).to_have_count(0)
    assert watched.errors == []


def test_values_are_switched_as_in_the_old_tool_ranked_and_read_as_the_link_keeps_and_switched_off_and_on_again(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus={"debugger": True})
    expect(page.get_by_role("switch", name="LM-Debugger")).to_be_checked()
    page.get_by_role("button", name="L29U34 on as in LM-Debugger").click()
    eventually(page, lambda: len(edits(page)) == 1)
    assert edits(page)[0]["to"] == 2.0
    page.get_by_role("button", name="L29U34 off as in LM-Debugger").click()
    eventually(page, lambda: edits(page)[0]["to"] == 0.0)
    assert [ask.on for ask in asked(made, SwitchAsk)] == [True, False]
    page.wait_for_function("!lmscope.busy.isOut()")  # what is answered is drawn and moves the switch
    page.get_by_role("switch", name="LM-Debugger").uncheck(force=True)
    page.evaluate("lmscope.view.update({edits: []})")
    page.wait_for_function("!lmscope.busy.isOut()")

    page.get_by_role("radio", name="Contribution").check(force=True)
    eventually(page, lambda: asked(made, CellAsk)[-1].ranked == "contribution")
    page.locator("input[name=cell-reads][value=raw]").check(force=True)
    eventually(page, lambda: asked(made, CellAsk)[-1].reading == "raw")
    assert asked(made, CellAsk)[-1].ranked == "contribution"
    chosen = {"ranked": "contribution", "reads": "raw"}
    eventually(page, lambda: View.from_link(page.url).focus.model_dump(exclude_defaults=True) == chosen)

    page.wait_for_function("!lmscope.busy.isOut()")
    page.get_by_role("button", name="L29U34 off").click()
    eventually(page, lambda: len(edits(page)) == 1)
    assert {name: edits(page)[0][name] for name in ("kind", "layer", "unit", "to", "at")} == {
        "kind": "ffn.set", "layer": 29, "unit": 34, "to": 0, "at": "all",
    }  # fmt: skip
    pressed = page.get_by_role("button", name="L29U34 off")
    expect(pressed).to_have_attribute("aria-pressed", "true")
    pressed.click()
    eventually(page, lambda: edits(page) == [])

    page.wait_for_function("!lmscope.busy.isOut()")
    page.evaluate("document.addEventListener('lmscope:value', (event) => { window.opened = event.detail; })")
    page.locator(".value-name", has_text="L29U34").click()
    eventually(page, lambda: page.evaluate("window.opened") == {"layer": 29, "unit": 34})


# ---------------------------------------------------------------------------------------------------- why this word


def test_what_is_explained_stays_while_cells_are_looked_at_and_is_chosen_by_clicking_words(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    before = len(asked(made, ContributionsAsk))
    page.evaluate("lmscope.trace.lens.open(1, 4)")
    expect(page.locator("#trace-cell-title")).to_have_text("After block 3 at “1 capital”")
    eventually(page, lambda: asked(made, CellAsk)[-1].token == 1)
    page.wait_for_function("!lmscope.busy.isOut()")
    assert len(asked(made, ContributionsAsk)) == before
    page.locator("#why-token").select_option("1")
    eventually(page, lambda: asked(made, ContributionsAsk)[-1].explain.token == 1)

    page.wait_for_function("!lmscope.busy.isOut()")
    rows = page.locator("#trace-cell tbody tr")
    rows.nth(2).get_by_role("button", name="Explain", exact=False).first.click()
    eventually(page, lambda: page.evaluate("lmscope.view.get().focus.target") is not None)
    target = page.evaluate("lmscope.view.get().focus.target")
    rows.nth(3).get_by_role("button", name="Explain against").click()
    eventually(page, lambda: page.evaluate("lmscope.view.get().focus.foil") is not None)
    foil = page.evaluate("lmscope.view.get().focus.foil")
    eventually(page, lambda: asked(made, ContributionsAsk)[-1].explain.foil == foil)
    assert asked(made, ContributionsAsk)[-1].explain.target == target
    page.locator("#why-foil").select_option("rest")
    eventually(page, lambda: asked(made, ContributionsAsk)[-1].explain.against == "rest")
    expect(page.locator("#why-title")).to_contain_text("rather than any other word")

    def kept() -> tuple[Any, ...]:
        focus = View.from_link(page.url).focus
        return focus.target, focus.foil, focus.against

    eventually(page, lambda: kept() == (target, foil, "rest"))


def names(page: Page) -> list[str]:
    return page.locator("#why-table tbody th").all_inner_texts()


def test_a_refused_measurement_is_asked_again_effects_fill_in_and_rows_move_only_on_a_click(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    before = names(page)
    assert len(before) == 24
    said = {"what": "Too many jobs are waiting", "why": "32 are not finished", "instead": "Wait for one to end"}
    made.client.refuse["effects"] = Problem(type="busy", status=503, **said)
    page.get_by_role("button", name="Measure the effect of each").click()
    expect(page.locator("#why-effects-notice")).to_contain_text("Too many jobs are waiting")
    made.client.refuse.clear()
    page.evaluate("lmscope.view.update({focus: {strip: 'entropy'}})")
    page.wait_for_function("!lmscope.busy.isOut()")
    made.client.asked.clear()
    made.client.slow_jobs = True
    page.get_by_role("button", name="Measure the effect of each").click()
    expect(page.locator("#why-tools-row .progress")).to_be_visible()
    made.client.slow_jobs = False
    sort = page.get_by_role("button", name="Sort by measured effect")
    expect(sort).to_be_visible(timeout=15_000)
    assert names(page) == before
    assert sorted(ask.parts for ask in asked(made, EffectsAsk)) == ["attention", "feed_forward"]
    expect(page.locator("#why-figure pattern").first).to_be_attached()
    expect(page.locator("#why-tools-row")).to_contain_text("do the opposite of what they write directly (hatched)")
    sort.click()
    eventually(page, lambda: names(page) != before)
    shown = [abs(row["effect"] or 0) for row in page.evaluate("lmscope.trace.why.rows()")]
    assert shown == sorted(shown, reverse=True)


def test_measuring_can_be_stopped_and_keeps_what_it_has_a_part_is_switched_off_and_a_new_question_ends_it(
    made: Fake, watched: Watched
) -> None:
    made.client.slow_jobs = True
    page = show(watched, made, focus={"parts": "heads"})
    page.get_by_role("button", name="Measure the effect of each").click()
    eventually(page, lambda: "10 of 30" in page.locator("#why-tools-row").inner_text())
    expect(page.locator("#why-tools-row")).to_contain_text("s left")
    page.locator("#why-tools-row").get_by_role("button", name="Stop").click()
    expect(page.locator("#why-tools-row")).to_contain_text("Stopped: what was measured by then is shown")
    eventually(page, lambda: any(row["effect"] is not None for row in page.evaluate("lmscope.trace.why.rows()")))

    # A part that is chosen can be switched off.
    page.locator("#why-table tbody button").first.click()
    name = page.locator("#why-chosen strong").inner_text()
    page.locator("#why-chosen").get_by_role("button", name="Switch off").click()
    eventually(page, lambda: len(edits(page)) == 1)
    edit = edits(page)[0]
    assert f"L{edit['layer']} head {edit['head']}" == name
    assert (edit["kind"], edit["by"]) == ("head.scale", 0)

    page.get_by_role("radio", name="Layers").check(force=True)
    page.wait_for_function("!lmscope.busy.isOut()")
    before = set(made.client.work)
    page.get_by_role("button", name="Measure the effect of each").click()
    eventually(page, lambda: len(set(made.client.work) - before) == 2)
    eventually(page, lambda: "of" in page.locator("#why-tools-row .measuring-words").inner_text())
    begun = set(made.client.work) - before
    page.get_by_role("radio", name="Mean").check(force=True)
    eventually(page, lambda: all(made.client.work[id]["state"] == "cancelled" for id in begun))
    expect(page.locator("#why-set-choice option")).to_have_text(["prose (40 texts)", "films (12 texts)"])
    page.locator("#why-set-choice").select_option("b" * 64)
    page.get_by_role("button", name="Measure the effect of each").click()
    eventually(page, lambda: asked(made, EffectsAsk)[-1].removal == "mean")
    assert asked(made, EffectsAsk)[-1].set == "b" * 64


HOLD = """const asIs = window.fetch, held = new Promise((resolve) => { window.letRead = resolve; });
window.fetch = async (url, options) => (String(url).endsWith("/view") && await held, asIs(url, options));"""
"""Reads a link only when it is told to."""


def test_a_link_opens_every_panel_as_it_was_and_prompt_sets_that_come_before_it_is_read_can_be_chosen(
    made: Fake, watched: Watched
) -> None:
    focus = {
        "row": 9, "token": 2, "target": 3, "foil": 6, "parts": "heads", "removal": "mean", "set": "b" * 64,
        "source": OTHER, "tap": "heads", "source_head": 1, "explained": 3,
    }  # fmt: skip
    watched.page.add_init_script(HOLD)
    page = watched.page
    page.goto(link(made.url, "trace", text=TEXT, focus=focus))
    expect(page.locator("#why-set-choice option")).to_have_text(["prose (40 texts)", "films (12 texts)"])
    assert page.evaluate("lmscope.view.get()") is None
    page.evaluate("letRead()")
    expect(page.locator("#why-set-choice")).to_be_visible()
    expect(page.locator("#why-set-choice")).to_have_value("b" * 64)

    wait_for_panels(page)
    expect(page.get_by_role("radio", name="Heads")).to_be_checked()
    expect(page.get_by_role("radio", name="Mean")).to_be_checked()
    expect(page.locator("#patch-text")).to_have_value(OTHER)
    expect(page.locator("#patch-head-choice")).to_have_value("1")
    expect(page.locator("#why-target")).to_have_value("3")
    expect(page.locator("#why-token")).to_have_value("3")
    page.wait_for_timeout(600)  # time enough for an address that says something else
    assert View.from_link(page.url).focus.model_dump(exclude_defaults=True) == focus


# ---------------------------------------------------------------------------------------------------- patch


def test_texts_of_other_length_are_refused_a_token_is_dragged_to_its_place_a_map_stays_under_patches_and_opens_places(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus={"source": "The capital of Italy", "row": 8})
    expect(page.locator("#patch-unfit")).to_contain_text("he other text has 4 tokens, this one 5")
    expect(page.locator("#patch-act")).to_be_disabled()
    page.locator("#patch-text").fill(OTHER)
    page.locator("#patch-text").press("Enter")
    expect(page.locator("#patch-act")).to_be_enabled()
    expect(page.locator("#patch-unfit .notice")).to_have_count(0)

    page.wait_for_function("!lmscope.busy.isOut()")
    page.locator("#patch-from-3").drag_to(page.locator("#patch-to-3"))
    eventually(page, lambda: len(edits(page)) == 1)
    page.wait_for_function("!lmscope.busy.isOut()")
    (ask,) = asked(made, PatchAsk)
    assert [place.model_dump(exclude_none=True) for place in ask.places] == [
        {"tap": "residual", "layer": 7, "token": 3}
    ]
    assert ask.source.text == OTHER
    assert edits(page)[0]["at"] == [3]
    assert page.evaluate("lmscope.view.get().compare")
    expect(page.locator("#patch-answer-note")).to_contain_text("The answer moved")
    page.locator("#patch-from-1").drag_to(page.locator("#patch-to-3"))
    expect(page.locator("#announcer")).to_contain_text("its own position")
    assert len(asked(made, PatchAsk)) == 1

    page.evaluate("lmscope.view.update({edits: [], compare: false})")
    page.wait_for_function("!lmscope.busy.isOut()")
    page.get_by_role("button", name="Map the effect of every place").click()
    page.wait_for_function("lmscope.trace.patch.map() !== null")
    expect(page.locator("#patch-actions .measuring")).to_have_count(0)
    expect(page.locator("#patch-figure .hm image")).to_have_count(1)
    page.get_by_text("The map as a table").click()
    expect(page.locator("#patch-table tbody tr")).to_have_count(30)
    logits = page.evaluate("lmscope.dom.numbers(lmscope.trace.patch.map().logits)[0]")
    shown = page.locator("#patch-table tbody td").first.inner_text().replace("−", "-")
    assert float(shown) == pytest.approx(logits - 2.5, rel=1e-3)
    page.evaluate("dash_clientside.trace.mapPicked({points: [{x: 2, y: 11}]})")
    expect(page.locator("#trace-cell-title")).to_have_text("After block 11 at “2 of”")
    page.locator("#patch-act").click()
    eventually(page, lambda: len(edits(page)) == 1)
    expect(page.locator("#patch-figure .hm image")).to_have_count(1)
    page.wait_for_function("!lmscope.busy.isOut()")
    assert len(asked(made, PatchMapAsk)) == 1


def test_more_heads_than_a_view_may_edit_are_refused_the_keyboard_patches_one_and_each_place_once(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus={"source": OTHER, "tap": "heads"})
    edits_allowed = page.evaluate("lmscope.dom.config().edits")
    page.evaluate("lmscope.dom.config().edits = 2")
    page.locator("#patch-from-3").focus()
    page.keyboard.press("Enter")
    page.locator("#patch-act").click()
    expect(page.locator("#patch-notice")).to_contain_text("A view carries at most 2 edits")
    expect(page.locator("#patch-notice")).to_contain_text("heads of this layer are as many edits")
    assert edits(page) == []
    assert asked(made, PatchAsk) == []
    page.evaluate("allowed => { lmscope.dom.config().edits = allowed; }", edits_allowed)

    page.locator("#patch-head-choice").select_option("2")
    page.locator("#patch-layer").select_option("5")
    page.locator("#patch-from-3").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#patch-act")).to_have_text("Patch a head of block 5 at “3 France”")
    expect(page.locator("#patch-from-3")).to_be_focused()
    page.locator("#patch-act").focus()
    page.keyboard.press("Enter")
    eventually(page, lambda: len(edits(page)) == 1)
    assert asked(made, PatchAsk)[0].places[0].head == 2
    expect(page.locator("#patch-act")).to_be_focused()
    page.keyboard.press("Enter")
    eventually(page, lambda: len(asked(made, PatchAsk)) == 2)
    page.wait_for_function("!lmscope.busy.isOut()")
    assert len(edits(page)) == 1


# ---------------------------------------------------------------------------------------------------- links, files


def test_every_panel_is_one_click_away_the_empty_one_teaches_and_the_old_tools_prompts_are_ready(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    jumps = page.get_by_role("navigation", name="Panels of this page").get_by_role("button")
    wait_for_address(page)
    before = page.evaluate("location.hash")
    for name in jumps.all_inner_texts():
        jumps.filter(has_text=name).evaluate("button => button.click()")
        expect(page.locator("h2:focus")).to_contain_text(name.split()[0])
    assert page.evaluate("location.hash") == before
    assert jumps.count() >= 4

    expect(page.locator("#patch-empty")).to_contain_text("drag one of its tokens down onto this text")
    page.locator("#patch-empty button").click()
    expect(page.locator("#patch-strips .patch-column")).to_have_count(13)
    expect(page.locator(".patch-column.differs, .patch-column")).not_to_have_count(0)
    assert page.evaluate("lmscope.view.get().focus.source").endswith("Mary gave a drink to")

    entries = [
        "It was the first time that two", "Toward the end of the video, they sit on a", "the weather is going to be",
        "My wife is working as a",
    ]  # fmt: skip
    for entry in entries:
        page.get_by_role("button", name="Ready views").click()
        page.locator(".menu-box:popover-open").get_by_role("button", name=entry).click()
        expect(page.locator("#text")).to_have_value(entry)


def test_axe_finds_nothing_with_everything_in_use(made: Fake, watched: Watched) -> None:
    """The grid, the cell, why a word is said, patches, an open value, a search and what was written; then the table."""
    page = watched.look(WIDE)
    off = [
        {"kind": "ffn.set", "layer": 29, "unit": 34, "to": 0},
        {"kind": "head.scale", "layer": 1, "head": 2, "by": 0},
    ]
    focus = {"source": OTHER, "parts": "values", "token": 2, "row": 4, "unit": {"layer": 1, "unit": 5}}
    page.goto(link(made.url, "trace", text=TEXT, edits=off, compare=True, focus=focus, sampling={"tokens": 6}))
    wait_for_all(page)
    page.locator(".value-words").first.wait_for()
    page.locator("#value-body input[value='ffn.set']").check()  # an edit more: what is asked below belongs to it
    page.locator("#value-library summary").click()
    page.get_by_role("button", name="London", exact=True).click()
    wait_for_all(page)
    page.get_by_role("button", name="Measure the effect of each").click()
    page.get_by_role("button", name="Map the effect of every place").click()
    page.locator("#write-go").click()
    page.wait_for_function("lmscope.trace.patch.map() !== null && lmscope.trace.why.isDone()")
    page.locator("#why-table tbody button").first.click()
    page.get_by_text("The map as a table").click()
    expect(page.locator(".search-table")).to_be_visible()
    expect(page.locator("#write-edited .write-end")).to_be_visible()
    settled(page)
    assert faults_everywhere(page, opening=("Ready views",)) == {}
    for name in ("About the cell", "About why this word", "About patching"):  # painted like those of other pages
        page.get_by_role("button", name=name).click()
        assert faults(page, (SHAPES,), popover(page)) == {}, name
        page.keyboard.press("Escape")
    page.get_by_role("tab", name="Table").click()
    expect(page.locator("#trace-table .ag-row").first).to_be_visible()
    settled(page)
    assert faults(page, within=[".trace-lens"]) == {}, "Table"
