"""The weights page in a real browser: a head's table, its twin, its filters in the link; words, units, a concept."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from backend.schema import ConceptAsk, HeadWeightsAsk, LineAsk, OverlapsAsk, PairsAsk, Problem, ValueAsk
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, eventually, wait_for_address
from tests.browser.fake import FakeClient
from tests.browser.made_up import link
from tests.browser.test_accessible import faults, settled
from tests.figures import made_up_values, made_up_weights

pytestmark = pytest.mark.browser
MODEL, TEXT = "smollm2-135m-instruct", "The capital of France is"
HEAD: Any = {"heads": [{"layer": 2, "head": 1}]}
LOOKUP = ["[aria-labelledby='weights-lookup-title']"]


@pytest.fixture(scope="module")
def served() -> Iterator[Fake]:
    client = FakeClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


@pytest.fixture
def made(served: Fake) -> Fake:
    served.client.refuse.clear()
    served.client.asked.clear()
    return served


def asked(made: Fake, kind: type) -> list[Any]:
    return [ask for _, ask in made.client.asked if isinstance(ask, kind)]


def show(watched: Watched, made: Fake, **focus: Any) -> Page:
    page = watched.open(link(made.url, "weights", model=MODEL, text=TEXT, focus=HEAD | focus))
    expect(page.locator("#weights-twin-place tbody tr").first).to_be_visible()
    return page


def test_a_head_is_a_table_beside_its_twin_and_every_choice_is_in_the_link(watched: Watched, made: Fake) -> None:
    page = show(watched, made)
    expect(page.locator("#weights-head-title")).to_have_text("Head 2.1")
    expect(page.locator("#weights-facts")).to_contain_text("copying score")
    expect(page.locator("#weights-head-figure .js-plotly-plot path.js-line")).to_have_count(1)
    ask = PairsAsk(model=MODEL, layer=2, head=1)
    table = made_up_weights.pairs(ask)
    first = page.locator("#weights-pairs-place tbody tr").first
    expect(first.locator("td").last).to_have_text(f"{table.pairs[0].score:.4g}")
    expect(page.locator("#weights-pairs-place tbody tr")).to_have_count(50)
    twin = made_up_weights.pairs(ask.model_copy(update={"twin": 0}))
    expect(page.locator("#weights-twin-place tbody tr").first.locator("td").last).to_have_text(
        f"{twin.pairs[0].score:.4g}"
    )
    other = made_up_weights.pairs(ask.model_copy(update={"reading": "raw"}))
    listed = [{(pair.row, pair.column) for pair in one.pairs} for one in (table, other)]
    shared = len(listed[0] & listed[1])
    expect(page.locator("#weights-said")).to_contain_text(f"{shared} of 50 ({2 * shared} %) are in the raw table")
    expect(page.locator("#weights-vectors-place tbody tr")).to_have_count(3)

    page.get_by_label("Letters only").check(force=True)
    page.locator("#weights-apart").select_option("tokens")
    page.locator("input[name=weights-circuit][value=qk]").check(force=True)
    page.locator("#weights-distance").fill("3")
    page.locator("#weights-distance").press("Enter")
    expect(page.locator("#weights-twin-place")).to_contain_text("no single matrix")
    eventually(page, lambda: any(one.distance == 3 and one.filters.letters for one in asked(made, PairsAsk)))
    last = [one for one in asked(made, PairsAsk) if one.distance == 3][-1]
    assert (last.circuit, last.filters.apart, last.filters.letters) == ("qk", "tokens", True)
    page.wait_for_function("!lmscope.busy.isOut()")  # what is shown is of that question, not still of the one before

    made.client.refuse["pairs"] = Problem(
        type="cannot-show", status=422, what="W_QK cannot be read at this distance", why="its positions turn nothing",
        instead="Look at W_VO",
    )  # fmt: skip
    page.locator("#weights-distance").fill("0")  # where both tables stood before
    page.locator("#weights-distance").press("Enter")
    expect(page.locator("#weights-pairs-notice")).to_contain_text("cannot be read at this distance")
    for place in ("pairs", "twin"):
        expect(page.locator(f"#weights-{place}-place")).to_have_class("scrolls stale")  # of an earlier question
    made.client.refuse.clear()
    page.locator("#weights-distance").fill("3")
    page.locator("#weights-distance").press("Enter")
    expect(page.locator("#weights-twin-place")).to_have_class("scrolls")

    page.locator("#weights-cell-2-1").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#weights-head-title")).to_have_text("Head 3.2")
    page.locator("#weights-line").select_option("seen")
    eventually(page, lambda: asked(made, LineAsk)[-1].line == "column" and asked(made, LineAsk)[-1].head == 2)
    wait_for_address(page)
    page.reload()
    expect(page.locator("#weights-distance")).to_have_value("3")
    expect(page.locator("#weights-pairs-title")).to_have_text("Top pairs of W_QK, head 3.2")
    expect(page.locator("#weights-cell-3-2")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#weights-line")).to_have_value("seen")
    expect(page.get_by_label("Letters only")).to_be_checked()


def test_a_word_units_and_a_concept_are_asked_about_and_copied_as_python(watched: Watched, made: Fake) -> None:
    page = show(watched, made)
    word = page.locator("#weights-word")
    expect(word).to_have_value("capital")  # the first question is about a word of the text
    word.fill("Paris")
    word.press("Enter")
    answer = made_up_weights.line(LineAsk(model=MODEL, layer=2, head=1, word="Paris", top=12))
    expect(page.locator("#weights-line-place caption").first).to_contain_text("It writes after")
    expect(page.locator("#weights-line-place table").first.locator("td").nth(2)).to_have_text(
        f"{answer.lines[0].ends.highest_logit[0]:.4g}"
    )
    page.locator("#weights-line-tools").get_by_label("Copy the answer as Python").click()
    expect(page.locator("#code-dialog code").first).to_contain_text(f"client.line('{MODEL}', '2.1', 'Paris', 'vo'")
    page.keyboard.press("Escape")

    page.locator("#weights-units-one").click()
    rows = page.locator("#weights-units-place tbody tr")
    expect(rows).to_have_count(4)
    page.locator("#weights-overlap-least").fill("0.5")
    page.locator("#weights-overlap-least").press("Enter")
    expect(rows).to_have_count(2)
    eventually(page, lambda: (asked(made, OverlapsAsk)[-1].layer, asked(made, OverlapsAsk)[-1].least) == (2, 0.5))
    page.locator("#weights-units-all").click()
    eventually(page, lambda: {one.layer for one in asked(made, OverlapsAsk)} == set(range(30)))
    expect(page.locator("#weights-units-note")).to_contain_text("of 30 layers reach this overlap")
    expect(rows.first.locator("th")).to_have_text("L0U0")  # the largest overlap of all layers

    page.get_by_role("button", name="rain, snow, wind, storm").click()
    expect(page.locator("#weights-lookup-place tbody tr")).to_have_count(12)
    page.locator("input[name=weights-among][value=k]").check(force=True)
    expect(page.locator("#weights-lookup-note")).to_have_text("Not searched: W_K is not known.")
    page.locator("input[name=weights-among][value=values]").check(force=True)
    page.locator("#weights-lookup-place tbody th button").nth(1).click()
    expect(page.locator("#weights-unit h3")).to_have_text("Unit L1U5")
    expect(page.locator("#weights-unit table")).to_have_count(6)  # value, gate and up, both ends each
    eventually(page, lambda: asked(made, ValueAsk)[-1].unit == 5)
    settled(page)
    assert faults(page) == {}


def test_a_word_of_several_tokens_can_be_left_out_where_it_is_refused_and_the_link_keeps_it(
    watched: Watched, made: Fake
) -> None:
    page = show(watched, made)
    offer = page.get_by_role("button", name="Leave it out")
    concept = page.locator("#weights-concept")
    concept.fill(f"inch, {made_up_values.LONG}")
    concept.press("Enter")
    expect(page.locator("#weights-lookup-notice")).to_contain_text("is 3 tokens")
    expect(offer).to_be_visible()
    settled(page)
    assert faults(page, within=LOOKUP) == {}
    offer.click()
    expect(page.locator("#weights-lookup-note")).to_contain_text(f"{made_up_values.LEFT_OUT}.")
    expect(page.locator("#weights-lookup-notice > *")).to_have_count(0)
    expect(offer).to_be_hidden()
    expect(page.get_by_label("Leave out words of several tokens")).to_be_checked()
    last = asked(made, ConceptAsk)[-1]
    assert (last.words, last.leave_out) == (("inch", made_up_values.LONG), True)
    page.locator("#weights-lookup-tools").get_by_label("as Python").click()
    expect(page.locator("#code-dialog code").first).to_contain_text("leave_out=True")
    page.keyboard.press("Escape")

    wait_for_address(page)
    page.reload()
    expect(page.get_by_label("Leave out words of several tokens")).to_be_checked()
    expect(page.locator("#weights-lookup-note")).to_contain_text(f"{made_up_values.LEFT_OUT}.")
    settled(page)
    assert faults(page, within=LOOKUP) == {}
    page.get_by_label("Leave out words of several tokens").uncheck(force=True)
    expect(offer).to_be_visible()


def test_a_refusal_stands_where_it_happened_and_the_rest_goes_on(watched: Watched, made: Fake) -> None:
    made.client.refuse["pairs"] = Problem(
        type="cannot-show", status=422, what="The filters leave no pair", why="no token may be a row",
        instead="Take one of the filters away",
    )  # fmt: skip
    page = watched.open(link(made.url, "weights", model=MODEL, text=TEXT, focus=HEAD))
    expect(page.locator("#weights-pairs-notice")).to_contain_text("The filters leave no pair")
    expect(page.locator("#weights-facts")).to_contain_text("copying score")
    expect(page.locator("#weights-cell-2-1")).to_be_visible()
    page.wait_for_function("!lmscope.busy.isOut()")
    assert len(asked(made, HeadWeightsAsk)) == 1
