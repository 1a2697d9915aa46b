"""Values on the trace page in a real browser: found by words, opened by name, named, and given another strength."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from backend.schema import LookupAsk, Problem, SearchAsk, ValueAsk
from frontend.app import create_app
from frontend.settings import Settings
from tests.browser.conftest import Fake, Served, Watched, Whole, eventually
from tests.browser.fake import FakeClient
from tests.browser.made_up import link

pytestmark = pytest.mark.browser
MODEL, TEXT = "smollm2-135m-instruct", "The capital of France is"
QUIET = "lmscope.trace.isOpen() && !lmscope.busy.isOut()"
CANNOT = Problem(
    type="cannot-show", status=422, what="This word is no single token",
    why="a search goes by single tokens, and “abc” is 2 tokens: a · bc", instead="Search for one of the pieces",
)  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[Fake]:
    client = FakeClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


@pytest.fixture
def made(served: Fake) -> Fake:
    """The same server, answering as if nothing had happened before."""
    served.client.refuse.clear()
    served.client.asked.clear()
    served.client.kept.clear()
    return served


def show(watched: Watched, made: Fake, **view: Any) -> Page:
    page = watched.open(link(made.url, "trace", **({"text": TEXT, "model": MODEL} | view)))
    page.wait_for_function(QUIET, timeout=30_000)
    return page


def opened(page: Page, name: str) -> None:
    expect(page.locator("#value-title")).to_have_text(re.compile(rf"Value {name}( ·|$)"))
    page.locator(".value-words").first.wait_for()
    page.wait_for_function(QUIET)


def asked(made: Fake, kind: type) -> list[Any]:
    return [ask for _, ask in made.client.asked if isinstance(ask, kind)]


def edits(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("lmscope.view.get().edits")
    return [{name: edit[name] for name in ("kind", "layer", "unit", "by", "to") if name in edit} for edit in found]


def test_a_value_opens_by_name_as_either_tool_writes_it_and_what_names_none_says_why(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    field = page.get_by_label("Open by name")
    for written, said in (("12.34", "such as L12U34"), ("L30U1", "layers 0 to 29"), ("", "such as L12U34")):
        field.fill(written)
        page.keyboard.press("Enter")
        expect(page.locator("#value-says")).to_contain_text(said)
        expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("L")
    expect(page.locator("#value-says")).to_be_empty()
    assert asked(made, ValueAsk) == []

    for written, (layer, unit) in (("L2U7", (2, 7)), ("l3d8", (3, 8)), (" L2 d7 ", (2, 7))):
        field.fill(written)
        page.keyboard.press("Enter")
        opened(page, f"L{layer}U{unit}")
        wanted = (layer, unit, "folded")
        eventually(
            page,
            lambda wanted=wanted: (
                [(ask.layer, ask.unit, ask.reading) for ask in asked(made, ValueAsk)[-1:]] == [wanted]
            ),
        )
        expect(page.locator(".value-words").nth(0).locator("caption")).to_have_text("Promotes")
        expect(page.locator(".value-words").nth(1).locator("caption")).to_have_text("Suppresses")
        expect(page.locator(".value-words").nth(0).locator("tbody tr")).to_have_count(12)
        expect(page.locator("#value-body")).to_contain_text("Its gate reads")
        expect(page.locator(".fires li")).to_have_count(5)
    page.locator(".fires button").nth(2).click()
    page.wait_for_function("lmscope.view.get().focus.token === 2")

    # A click elsewhere on the page opens one too.
    page.evaluate("document.dispatchEvent(new CustomEvent('lmscope:value', {detail: {layer: 3, unit: 9}}))")
    opened(page, "L3U9")
    page.evaluate("lmscope.values.open(0, 4)")
    opened(page, "L0U4")


def test_the_open_value_and_its_reading_are_in_the_link_a_search_shows_spellings_each_hit_opens_and_all_by_keyboard(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made, focus={"unit": {"layer": 1, "unit": 5}, "reads": "raw"})
    opened(page, "L1U5")
    assert asked(made, ValueAsk)[0].reading == "raw"
    page.locator("#value-tools input[value=folded]").check()
    eventually(page, lambda: asked(made, ValueAsk)[-1].reading == "folded")
    page.wait_for_function(QUIET)
    page.locator(".value-similar button").first.click()
    opened(page, "L2U12")
    page.evaluate("lmscope.view.written()")
    page.reload()
    opened(page, "L2U12")
    page.go_back()
    opened(page, "L1U5")

    # A hit is found, opened and given another strength by keyboard.
    page.get_by_label("Words", exact=True).focus()
    page.keyboard.type("Paris")
    page.keyboard.press("Enter")
    expect(page.locator(".search-table")).to_be_visible()
    page.locator(".search-table tbody button").first.focus()
    page.keyboard.press("Enter")
    opened(page, "L0U0")
    expect(page.locator("#value-title")).to_be_focused()
    page.locator("#value-body input[name=value-strength]:checked").focus()
    page.keyboard.press("ArrowRight")
    eventually(page, lambda: edits(page) == [{"kind": "ffn.scale", "layer": 0, "unit": 0, "by": 0}])

    page.get_by_label("Words", exact=True).fill("Paris, , Rome ,")
    page.keyboard.press("Enter")
    expect(page.locator(".search-spellings .value-word")).to_have_count(2)
    expect(page.locator(".search-spellings")).to_contain_text("192 values")
    assert asked(made, SearchAsk)[-1].words == ("Paris", "Rome")
    page.locator("#search-form input[value=suppressed]").check()
    eventually(page, lambda: asked(made, SearchAsk)[-1].end == "suppressed")
    page.locator("#search-form input[value=logit]").check()
    eventually(page, lambda: asked(made, SearchAsk)[-1].ranked == "logit")
    assert asked(made, SearchAsk)[-1].end == "suppressed"
    expect(page.locator("th[aria-sort]")).to_have_text("logit")
    expect(page.locator(".search-way").first).to_have_attribute("aria-label", "suppressed")
    page.locator(".search-table tbody button").nth(1).click()
    opened(page, "L1U5")
    expect(page.locator("tr[data-open]")).to_contain_text("L1U5")
    assert watched.errors == []


def test_empty_panels_teach_with_an_example_searched_and_looked_up_as_a_concept_and_no_words_or_a_refusal_say_why(
    made: Fake, watched: Watched
) -> None:
    page = show(watched, made)
    field = page.get_by_label("Words", exact=True)
    field.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#search-says")).to_have_text("Write a word first.")
    made.client.refuse["search"] = CANNOT
    field.fill("abc")
    page.keyboard.press("Enter")
    expect(page.locator("#search-notice")).to_contain_text("2 tokens: a · bc")
    made.client.refuse.clear()
    made.client.asked.clear()

    page.get_by_role("button", name="king, queen").click()
    expect(page.locator(".search-table")).to_be_visible()
    expect(page.locator("#search-notice")).to_be_empty()
    expect(page.locator(".search-table tbody tr")).to_have_count(12)
    assert asked(made, SearchAsk)[0].words == ("king", "queen")
    page.get_by_role("button", name="L29U0", exact=True).click()
    opened(page, "L29U0")

    # Another reading searches again.
    page.locator("#value-tools input[value=raw]").check()
    eventually(page, lambda: [ask.reading for ask in asked(made, SearchAsk)] == ["folded", "raw"])
    page.locator("#value-tools input[value=folded]").check()
    eventually(page, lambda: asked(made, SearchAsk)[-1].reading == "folded")
    page.wait_for_function(QUIET)

    expect(page.locator("#search-form input[value=keys]")).to_be_hidden()
    page.locator("#search-form input[value=concept]").check()
    expect(page.locator("th[aria-sort]")).to_have_text("dot product")
    expect(page.locator("#search-form input[value=promoted]")).to_be_hidden()
    page.locator("#search-form input[value=keys]").check()
    expect(page.locator(".search-spellings")).to_contain_text("among 192 keys.")
    lookups = [(("king", "queen"), of) for of in ("values", "keys")]
    eventually(page, lambda: [(ask.words, ask.of) for ask in asked(made, LookupAsk)] == lookups)
    page.locator(".search-table tbody button").nth(1).click()
    opened(page, "L1U5")
    expect(page.locator("tr[data-open]")).to_contain_text("L1U5")
    assert watched.errors == []


def test_a_value_is_switched_off_scaled_set_dragged_and_typed_as_an_edit(made: Fake, watched: Watched) -> None:
    page = show(watched, made, focus={"unit": {"layer": 1, "unit": 5}})
    opened(page, "L1U5")
    kind = page.locator("#value-body")
    for value, edit in (
        ("off", {"kind": "ffn.scale", "by": 0}), ("ffn.scale", {"kind": "ffn.scale", "by": 2}),
        ("ffn.set", {"kind": "ffn.set", "to": 1}),
    ):  # fmt: skip
        kind.locator(f"input[value='{value}']").check()
        eventually(page, lambda edit=edit: edits(page) == [{"layer": 1, "unit": 5} | edit])
    expect(page.locator("#edits")).to_contain_text("L1 unit 5 = 1")
    page.go_back()
    expect(kind.locator("input[value='ffn.scale']")).to_be_checked()
    expect(page.locator(".value-slider input[type=number]")).to_have_value("2")
    kind.locator("input[value=none]").check()
    eventually(page, lambda: edits(page) == [])
    expect(page.locator(".value-slider")).to_be_empty()

    # A drag is one entry for Back, and its last value stays.
    page.locator("#value-body input[value='ffn.scale']").check()
    eventually(page, lambda: edits(page) == [{"kind": "ffn.scale", "layer": 1, "unit": 5, "by": 2}])
    page.wait_for_function(QUIET)
    page.evaluate("lmscope.view.written()")
    entries = page.evaluate("history.length")
    slider = page.locator(".value-slider input[type=range]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.75, middle)
    page.mouse.down()
    for share in (0.6, 0.4, 0.2, 0.02):
        page.mouse.move(box["x"] + box["width"] * share, middle, steps=4)
        page.wait_for_timeout(60)
    page.mouse.up()
    eventually(page, lambda: -1 <= edits(page)[0]["by"] < -0.7)
    page.wait_for_function(QUIET)
    (edit,) = edits(page)
    expect(page.locator(".value-slider input[type=number]")).to_have_value(f"{edit['by']:g}")
    page.evaluate("lmscope.view.written()")
    assert page.evaluate("history.length") == entries + 1
    page.go_back()
    eventually(page, lambda: edits(page) == [{"kind": "ffn.scale", "layer": 1, "unit": 5, "by": 2}])
    expect(page.locator(".value-slider input[type=number]")).to_have_value("2")

    page.locator("#value-body input[value='ffn.set']").check()
    exact = page.locator(".value-slider input[type=number]")
    exact.fill("-37.5")
    exact.press("Enter")
    eventually(page, lambda: edits(page)[0].get("to") == -37.5)
    assert watched.errors == []


def test_a_name_and_note_are_refused_with_their_words_left_kept_shown_moved_and_taken_away(
    made: Fake, watched: Watched, tmp_path: Path
) -> None:
    page = show(watched, made, focus={"unit": {"layer": 1, "unit": 5}})
    opened(page, "L1U5")
    gone = {"type": "store-unusable", "status": 503, "what": "The database cannot be used", "why": "its file is gone"}
    made.client.refuse["notes"] = Problem(**gone, instead="restart the server")
    page.get_by_label("Name", exact=True).fill("Capitals")
    page.get_by_role("button", name="Keep").click()
    expect(page.locator("#value-note-notice")).to_contain_text("Its file is gone")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Capitals")
    made.client.refuse.clear()

    page.get_by_label("Name", exact=True).fill("Capitals")
    page.get_by_label("Note", exact=True).fill("of Europe")
    page.get_by_role("button", name="Keep").click()
    eventually(page, lambda: (1, 5) in made.client.kept)
    assert made.client.kept[1, 5].name == "Capitals"
    page.get_by_role("button", name="London", exact=True).click()
    expect(page.locator(".search-table .value-called")).to_have_text("Capitals")
    page.locator("#value-library summary").click()
    expect(page.locator(".value-notes li")).to_contain_text("Capitals")
    page.get_by_label("Find a note").fill("asia")
    expect(page.locator(".value-notes li")).to_have_count(0)
    page.get_by_label("Find a note").fill("EUROPE l1u5")
    expect(page.locator(".value-notes li")).to_have_count(1)

    with page.expect_download() as download:
        page.get_by_role("button", name="Export JSON").click()
    file = tmp_path / "notes.json"
    download.value.save_as(file)
    exported = file.read_text("utf-8")
    assert json.loads(exported)["notes"][0]["name"] == "Capitals"
    made.client.kept.clear()
    page.locator("input[type=file]").set_input_files(file)
    eventually(page, lambda: (1, 5) in made.client.kept)
    file.write_text("[1]")
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator("#value-import-says")).to_contain_text("holds no notes")
    made.client.kept.clear()
    file.write_text(exported)  # mended: the same name again, and no new drawing of the list in between
    page.locator("input[type=file]").set_input_files(file)
    eventually(page, lambda: (1, 5) in made.client.kept)

    page.wait_for_function(QUIET)
    page.reload()
    opened(page, "L1U5")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Capitals")
    page.get_by_label("Name", exact=True).fill("")
    page.get_by_label("Note", exact=True).fill("")
    page.get_by_role("button", name="Keep").click()
    eventually(page, lambda: made.client.kept == {})
    assert watched.errors == []


def test_with_real_models_a_value_says_the_same_in_both_panels(whole: Whole, watched: Watched) -> None:
    """A hit's word stands in the open value at the rank that the search told, with the same logit and z."""
    page = watched.open(link(whole.url, "trace", model=whole.names["llama"], text="The quick brown fox"))
    page.wait_for_function(QUIET, timeout=30_000)
    page.evaluate("lmscope.values.search({words: 'the, a', ranked: 'z', end: 'promoted'})")
    page.wait_for_function("lmscope.values.found() && !lmscope.busy.isOut()", timeout=30_000)
    hit = next(hit for hit in page.evaluate("lmscope.values.found().hits") if hit["rank"] < 16)
    name = f"L{hit['unit']['layer']}U{hit['unit']['unit']}"
    page.locator(".search-table").get_by_role("button", name=name, exact=True).click()
    opened(page, name)
    value = page.evaluate("lmscope.values.answer()")
    assert value["ends"]["highest"][hit["rank"]] == hit["id"]
    assert value["ends"]["highest_logit"][hit["rank"]] == pytest.approx(hit["logit"], rel=1e-4)
    assert value["highest_z"][hit["rank"]] == pytest.approx(hit["z"], rel=1e-4)
    assert watched.errors == []
