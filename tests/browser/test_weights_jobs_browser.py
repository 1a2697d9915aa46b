"""The weights page's long questions in a real browser: all heads, studies, two models; progress, figures, tables."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from backend.schema import AlignmentAsk, ChangesAsk, KeepAsk, Problem, StitchingAsk, SummariesAsk, TablesAsk
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, eventually
from tests.browser.fake import FakeClient
from tests.browser.made_up import link
from tests.browser.test_accessible import faults_everywhere, settled

pytestmark = pytest.mark.browser
PANELS = ["[aria-labelledby='weights-studies-title']", "[aria-labelledby='weights-two-title']"]
MODEL, OTHER = "smollm2-135m-instruct", "glassllm-en"
HEAD: Any = {"heads": [{"layer": 2, "head": 1}]}


@pytest.fixture(scope="module")
def made() -> Iterator[Fake]:
    client = FakeClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


def asked(made: Fake, kind: type) -> list[Any]:
    return [ask for _, ask in made.client.asked if isinstance(ask, kind)]


def shown(page: Page, name: str, traces: int) -> None:
    """The job has ended, and its picture has so many lines or maps."""
    page.wait_for_function(f"""() => {{
        const plot = document.querySelector("#weights-{name}-figure .js-plotly-plot");
        return plot !== null && plot.checkVisibility() && (plot.data || []).length === {traces};
    }}""")
    expect(page.locator(".measuring")).to_have_count(0)


def choose(page: Page, panel: str, kind: str) -> None:
    """And until it was looked for among what is known: then the button is drawn for the last time."""
    page.locator(f"label:has(input[name=weights-{panel}-kind][value={kind}])").click()
    page.wait_for_function("!lmscope.busy.isOut()")


def test_every_head_is_measured_and_colours_the_map_as_it_comes(watched: Watched, made: Fake) -> None:
    made.client.slow_jobs = True
    page = watched.open(link(made.url, "weights", model=MODEL, text="The capital", focus=HEAD))
    settled(page)  # the button is drawn anew when nothing was found that is known already
    page.locator("#weights-measure").click()
    expect(page.locator("#weights-map-state .measuring-words")).to_contain_text("10 of 30 · 4 s left")
    first, last = page.locator("#weights-cell-0-0"), page.locator("#weights-cell-29-8")
    eventually(page, lambda: first.evaluate("each => each.style.background") != "")
    assert last.evaluate("each => each.style.background") == "", "what is not measured has no colour"
    made.client.slow_jobs = False
    eventually(page, lambda: last.evaluate("each => each.style.background") != "")
    assert asked(made, SummariesAsk)[-1].reading == "folded"
    expect(page.locator("#weights-map-state .measuring")).to_have_count(0)
    page.locator("#weights-map-colour").select_option("rank")
    expect(page.locator("#weights-map-legend")).to_contain_text("effective rank")
    page.get_by_label("Letters only").check(force=True)
    page.locator("#weights-all-pairs").click()
    page.locator("#weights-map-table summary").click()
    expect(page.locator("#weights-map-table tbody tr")).to_have_count(270)
    expect(page.locator("#weights-map-table tbody tr").nth(9).locator(".map-pair")).to_have_count(2)
    expect(page.locator("#weights-map-state .measuring")).to_have_count(0)  # the table is drawn no more
    assert asked(made, TablesAsk)[-1].filters.letters
    page.locator("#weights-map-table tbody button").nth(9).click()
    expect(page.locator("#weights-head-title")).to_have_text("Head 1.0")


def test_studies_and_two_models_show_figures_with_intervals_tables_and_refusals(watched: Watched, made: Fake) -> None:
    made.client.slow_jobs = False
    page = watched.open(link(made.url, "weights", model=MODEL, text="The capital", focus=HEAD))
    settled(page)
    for kind, traces, rows in (("keep", 6, 18), ("similarity", 9, 21)):
        choose(page, "studies", kind)
        page.locator("#weights-studies-go").click()
        shown(page, kind, traces)
        if kind == "keep":
            page.locator("#weights-studies-table summary").click()  # and it stays open
        expect(page.locator("#weights-studies-table tbody tr")).to_have_count(rows)
    expect(page.locator("#weights-studies-about")).to_contain_text("queries_keys 0 is left out: it has none")
    assert asked(made, KeepAsk)[-1].count == 300
    choose(page, "studies", "keep")
    shown(page, "keep", 6)  # it was answered, and is drawn again without being asked
    count = page.locator("#weights-study-keep_count")
    count.fill("40")
    count.press("Enter")
    expect(page.locator("#weights-keep-picture")).to_be_hidden()  # other numbers, another question
    page.wait_for_function("!lmscope.busy.isOut()")  # they are looked for, too
    made.client.slow_jobs = True
    page.locator("#weights-studies-go").click()
    expect(page.locator("#weights-studies-state .measuring")).to_be_visible()
    page.evaluate("lmscope.view.update({revision: 'another'}, {push: true})")
    expect(page.locator("#weights-studies-go")).to_be_enabled()  # the other model's job is in nobody's way
    made.client.slow_jobs = False
    page.evaluate("lmscope.view.written()")
    page.go_back()
    expect(count).to_have_value("40")
    shown(page, "keep", 6)
    expect(page.locator("#weights-studies-table tbody tr")).to_have_count(18)
    assert [one.count for one in asked(made, KeepAsk)] == [300, 40], "what runs is not begun again"

    expect(page.locator("#weights-two-go")).to_be_disabled()
    page.locator("#weights-two-other").select_option(OTHER)
    page.get_by_label("Go by the tokens’ texts").check(force=True)
    page.locator("#weights-two-go").click()
    shown(page, "changes", 1)
    expect(page.locator("#weights-two-words tbody tr").first).to_contain_text("L0U7")
    expect(page.locator("#weights-two-words")).to_contain_text("positive")
    assert (asked(made, ChangesAsk)[-1].other, asked(made, ChangesAsk)[-1].by_string) == (OTHER, True)
    choose(page, "two", "alignment")
    page.locator("#weights-two-go").click()
    shown(page, "alignment", 6)
    expect(page.locator("#weights-two-words")).to_contain_text(
        "In the vocabulary: 4 of 4 layers meet the layer of the same number (1 by chance)"
    )
    page.locator("#weights-two-group").select_option("value")
    choose(page, "two", "stitching")
    expect(page.locator("#weights-two-positive")).to_be_hidden()  # texts without labels have none that is right
    page.locator("#weights-two-examples").select_option(label="“films” (450 + 450 texts)")
    page.locator("#weights-two-positive").fill("1")
    page.locator("#weights-two-positive").press("Enter")
    page.locator("#weights-two-go").click()
    shown(page, "stitching", 2)
    expect(page.locator("#weights-two-about")).to_contain_text(
        "of the labelled examples “films”: “good” is right on + texts, “bad” on − texts (labels from 0: bad, good)"
    )
    ask = asked(made, StitchingAsk)[-1]
    assert (ask.examples, ask.positive, ask.negative, ask.by_string) == ("6" * 64, 1, None, True)
    page.locator("#weights-two-tools").get_by_label("Copy Comparison as Python").click()
    expect(page.locator("#code-dialog code").first).to_contain_text(f"examples='{'6' * 64}', positive=1)")
    page.keyboard.press("Escape")
    page.emulate_media(reduced_motion="reduce")  # no colour is on its way while axe looks
    settled(page)
    assert faults_everywhere(page, colours=PANELS) == {}

    made.client.refuse["alignment"] = Problem(
        type="cannot-show", status=422, what="These models have different vocabularies", why="they share 12 tokens",
        instead="Go by the tokens' texts",
    )  # fmt: skip
    choose(page, "two", "alignment")
    page.locator("#weights-two-go").click()
    expect(page.locator("#weights-alignment-notice")).to_contain_text("different vocabularies")
    assert len(asked(made, AlignmentAsk)) == 2
    expect(page.locator("#weights-two-go")).to_be_enabled()  # nothing is awaited any more
    expect(page.locator("#weights-two-state .measuring")).to_have_count(0)
    choose(page, "two", "stitching")
    shown(page, "stitching", 2)
    address = link(made.url, "weights", **page.evaluate("lmscope.view.compact(lmscope.view.get())"))
    elsewhere = watched.context.new_page()  # another tab, which remembers nothing
    before = len(asked(made, KeepAsk))
    elsewhere.goto(address)
    expect(elsewhere.locator("#weights-two-other")).to_have_value(OTHER)
    expect(elsewhere.locator("#weights-two-positive")).to_have_value("1")
    expect(elsewhere.locator("#weights-two-examples")).to_have_value("6" * 64)
    expect(elsewhere.locator("#weights-study-keep_count")).to_have_value("40")
    shown(elsewhere, "keep", 6)  # what the server has answered is there without a click
    assert len(asked(made, KeepAsk)) == before
