"""The heads page in a real browser: a dot opens its head, the table sorts, filters and can be taken away."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from backend.schema import HeadsAsk, SummariesAsk, View
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, eventually, steady, wait_for_address
from tests.browser.fake import FakeClient
from tests.browser.made_up import MadeUpClient, link

pytestmark = pytest.mark.browser

OFF = {"kind": "head.scale", "layer": 1, "head": 2, "by": 0}


@pytest.fixture(scope="module")
def made() -> Iterator[Fake]:
    client = MadeUpClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


def show(watched: Watched, made: Fake, **view: Any) -> Page:
    page = watched.open(link(made.url, "heads", **view))
    page.locator("#heads-table .ag-row").first.wait_for()
    expect(page.locator("#heads-figure .scatterlayer .point").first).to_be_visible()
    return page


def test_figure_one_has_a_dot_for_each_head_and_the_table_a_row_and_both_say_what_is_undefined(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    expect(page.get_by_role("heading", name="Entropy of 270 heads by layer")).to_be_visible()
    dots = page.evaluate("document.querySelector('#heads-figure .js-plotly-plot').data[0].x.length")
    assert dots == 270
    expect(page.locator("#heads-figure .legend")).to_contain_text("uniform attention")
    expect(page.locator("#heads-page")).to_contain_text("One sentence is an anecdote")

    # Looking at tokens asks nothing.
    page.wait_for_function("!lmscope.busy.isOut()")
    before = len([ask for _, ask in made.client.asked if isinstance(ask, HeadsAsk)])
    page.evaluate("lmscope.view.update({focus: {token: 3}})")
    wait_for_address(page)  # which follows later than a question would
    assert len([ask for _, ask in made.client.asked if isinstance(ask, HeadsAsk)]) == before

    # A change of colour does not fill the table again, and what is undefined is said, not drawn as zero.
    page.wait_for_function(
        "((body) => { body.scrollTop = 900; return body.scrollTop === 900; })"
        "(document.querySelector('#heads-table .ag-body-viewport'))"
    )
    page.get_by_role("combobox", name="Statistic").select_option("first")
    expect(page.locator("#heads-figure .ytitle")).to_contain_text("First token")
    assert page.evaluate("document.querySelector('#heads-table .ag-body-viewport').scrollTop") == 900
    page.evaluate("document.querySelector('#heads-table .ag-body-viewport').scrollTop = 0")
    page.get_by_role("combobox", name="Statistic").select_option("next")
    expect(page.locator("#heads-figure .annotation-text")).to_contain_text("n/a")
    cell = page.locator('#heads-table .ag-row[row-index="0"] [col-id="next"]')
    page.evaluate("document.querySelector('#heads-table .ag-body-horizontal-scroll-viewport').scrollLeft = 700")
    expect(cell).to_have_text("n/a")

    # A filter says how many heads are left.
    page.evaluate(
        "dash_ag_grid.getApi('heads-table').setFilterModel({layer: {filterType: 'number', type: 'equals', filter: 7}})"
    )
    expect(page.locator("#heads-count")).to_have_text("9 of 270 heads")
    assert watched.errors == []


def back(page: Page) -> None:
    """From a head that was opened to the page of all heads."""
    page.go_back()
    page.locator("#heads-table .ag-row").first.wait_for()
    expect(page.locator("#heads-figure .scatterlayer .point").first).to_be_visible()


def test_a_dot_opens_its_head_with_the_same_view_so_does_a_sorted_row_by_keyboard_and_edits_show_unedited_neighbours(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, edits=[OFF])
    box = steady(page, page.locator("#heads-figure .scatterlayer .trace").first.locator(".point").nth(13).bounding_box)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#heads-figure .hovertext").first).to_be_visible()  # Plotly clicks on what it hovers over
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile(r"/attention#v="))
    expect(page.locator("#head-title")).to_have_text("Layer 1 · head 4")
    assert page.evaluate("lmscope.view.get().edits.length") == 1
    back(page)

    header = page.locator('#heads-table .ag-header-cell[col-id="entropy"]')
    header.locator(".ag-header-cell-label").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    first = page.locator('#heads-table .ag-row[row-index="0"] [col-id="entropy"]')
    lowest = page.evaluate("Math.min(...lmscope.dom.numbers(lmscope.heads.answer().edited[0].value)).toFixed(3)")
    expect(first).to_have_text(lowest)
    page.locator('#heads-table .ag-row[row-index="0"] [col-id="name"]').first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/attention#v="))
    expect(page.locator("#head-title")).to_contain_text("Layer")
    back(page)

    # Under edits every statistic has its unedited neighbour.
    page.get_by_role("switch", name="compare with unedited").check()
    for name in ("entropy", "entropy uniform", "entropy unedited", "entropy change"):
        expect(page.locator(f'#heads-table .ag-header-cell[col-id="{name}"]')).to_be_visible()
    expect(page.locator("#heads-figure .legend")).to_contain_text("heads, unedited")
    page.get_by_role("radio", name="Difference").check(force=True)
    expect(page.locator("#heads-figure .ytitle")).to_have_text("Edited − unedited: Entropy, nats")


def test_nats_and_normalised_are_one_switch_that_the_link_keeps_all_can_be_taken_away_and_the_table_follows_the_theme(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    page.get_by_role("radio", name="Normalised").check(force=True)
    expect(page.locator("#heads-figure .ytitle")).to_have_text("Normalised entropy, ratio")
    eventually(page, lambda: View.from_link(page.url).focus.normalised)
    page.reload()
    expect(page.locator("#heads-figure .ytitle")).to_have_text("Normalised entropy, ratio")
    page.get_by_role("combobox", name="Statistic").select_option("previous")
    expect(page.locator("#heads-figure .ytitle")).to_have_text("Previous token, share of attention")
    expect(page.get_by_role("radio", name="Nats")).to_be_disabled()

    # Everything can be taken away.
    for menu in ("Download the figure", "Download the table"):
        page.get_by_role("button", name=menu).click()
        expect(page.locator(".menu-box:popover-open button").first).to_be_visible()
        entries = page.locator(".menu-box:popover-open button").all_inner_texts()
        page.keyboard.press("Escape")
        expect(page.locator(".menu-box:popover-open")).to_have_count(0)
        for entry in entries:
            page.get_by_role("button", name=menu).click()
            with page.expect_download() as waiting:
                page.locator(".menu-box:popover-open").get_by_role("button", name=entry, exact=True).click()
            assert waiting.value.suggested_filename.startswith("lmscope-made-up-30x9")
        assert any(entry.startswith("CSV") for entry in entries), menu

    for theme, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(27, 32, 39)")):
        watched.look(900, theme)
        expect(page.locator("#heads-table .ag-root-wrapper")).to_have_css("background-color", colour)
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")


def test_the_weights_become_columns_as_they_are_measured_and_say_what_has_none(watched: Watched) -> None:
    client = FakeClient()
    client.slow_jobs = True
    with Served(create_app(Settings(), client).server) as server:
        page = watched.open(link(server.url, "heads"))
        page.locator("#heads-table .ag-row").first.wait_for()
        page.locator("#heads-measure").click()
        expect(page.locator("#heads-weights .measuring-words")).to_contain_text("10 of 30")
        copying = "lmscope.heads.rows(lmscope.heads.answer()).map((row) => row['weights copying'])"
        eventually(page, lambda: page.evaluate(f"typeof {copying}[0]") == "number")
        assert page.evaluate(f"{copying}.at(-1) === undefined"), "what is not measured yet has no number"
        client.slow_jobs = False
        expect(page.locator("#heads-weights .measuring")).to_have_count(0)
        eventually(page, lambda: page.evaluate(f"{copying}.every(Number.isFinite)"))
        page.evaluate("dash_ag_grid.getApi('heads-table').ensureColumnVisible('weights copying')")
        first = page.locator('#heads-table .ag-row[row-index="0"] [col-id="weights copying"]')
        expect(first).to_have_text(page.evaluate(f"lmscope.dom.digits({copying}[0], 3)"))
        columns = "lmscope.headsWeights.columns()[0].children.map((each) => each.headerTooltip)"
        assert page.evaluate(columns) == [
            f"{name} is a number." for name in ("largest", "first", "rank", "copying", "same")
        ]
        asked = [ask for _, ask in client.asked if isinstance(ask, SummariesAsk)]
        assert [ask.reading for ask in asked] == ["folded"]
        page.locator("#heads-reads").select_option("raw")
        expect(page.locator("#heads-measure")).to_be_visible()
        eventually(page, lambda: page.evaluate("lmscope.headsWeights.columns().length") == 0)
    assert watched.errors == []
