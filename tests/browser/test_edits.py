"""The edit bar: nobody may look at an edited model without knowing."""

import time

import pytest
from playwright.sync_api import Page, expect

from backend.schema import (
    Ability,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadsAsk,
    HeadScale,
    HeadSet,
    OverviewAsk,
    ResidualAdd,
    ResidualSet,
    Steer,
    TokensAsk,
    View,
)
from tests.browser.conftest import Fake, Watched, eventually, wait_for_address

pytestmark = pytest.mark.browser


def add(page: Page, text: str) -> None:
    page.locator("#add-edit").fill(text)
    page.locator("#add-edit").press("Enter")


def last(calm: Fake, kind: type) -> View:
    """What the newest question of a kind is about."""
    return [ask.view for _, ask in calm.client.asked if isinstance(ask, kind)][-1]


def strength(page: Page, text: str) -> None:
    page.get_by_label("Strength, exactly").fill(text)
    page.get_by_label("Strength, exactly").press("Tab")


def edits(page: Page) -> tuple[object, ...]:
    return View.model_validate(page.evaluate("lmscope.view.get()")).edits


TYPED: tuple[tuple[str, object, str], ...] = (
    ("5.3", HeadScale(layer=5, head=3, by=0), "L5 head 3 off"),
    ("5.3 x 0.5", HeadScale(layer=5, head=3, by=0.5), "L5 head 3 × 0.5"),
    ("L5 head 3 × −2", HeadScale(layer=5, head=3, by=-2), "L5 head 3 × −2"),
    ("5.3 = 0", HeadSet(layer=5, head=3, to=0), "L5 head 3 = 0"),
    ("L12H4 off", HeadScale(layer=12, head=4, by=0), "L12 head 4 off"),
    ("L12U34", FfnScale(layer=12, unit=34, by=0), "L12 unit 34 × 0"),
    ("l2d1535 x 0.5", FfnScale(layer=2, unit=1535, by=0.5), "L2 unit 1535 × 0.5"),
    ("L2 unit 7 = -1.5", FfnSet(layer=2, unit=7, to=-1.5), "L2 unit 7 = −1.5"),
)  # fmt: skip


def test_typing_a_head_makes_an_edit_or_is_refused_in_words_and_a_panel_changes_its_strength_kind_and_place(
    calm: Fake, watched: Watched
) -> None:
    page = watched.open(calm.url)
    for text, words in (
        ("30.0", "layers 0 to 29"),
        ("L30U1", "layers 0 to 29"),
        ("0.9", "heads 0 to 8"),
        ("first head", "Write layer.head"),
        ("5.3 x 1e99", "Write layer.head"),
    ):
        add(page, text)
        expect(page.locator("#add-edit-says")).to_contain_text(words)
    assert edits(page) == ()
    for text, edit, label in TYPED:
        add(page, text)
        expect(page.locator(".edit-label")).to_have_text(label)
        assert edits(page) == (edit,), text
        expect(page.locator("#add-edit")).to_have_value("")
        page.locator("#clear-edits").click()
        expect(page.locator(".edit")).to_have_count(0)

    # A panel changes what was typed.
    page.locator("#token-4").click()
    add(page, "5.3")
    page.locator(".edit-label").click()
    strength(page, "0.25")
    expect(page.locator(".edit-label")).to_contain_text("L5 head 3 × 0.25")
    page.get_by_label("Which tokens").select_option("focus")
    eventually(page, lambda: edits(page) == (HeadScale(layer=5, head=3, by=0.25, at=(4,)),))
    expect(page.locator(".edit-label")).to_contain_text("token 4")
    page.get_by_role("radio", name="= set").check()
    eventually(page, lambda: edits(page) == (HeadSet(layer=5, head=3, to=0, at=(4,)),))
    page.keyboard.press("Escape")
    expect(page.locator("#edit-panel")).to_be_hidden()
    expect(page.locator(".edit-label")).to_be_focused()


def test_the_bar_says_that_the_model_is_edited_stays_in_sight_deletes_clears_compares_and_keeps_an_edit_that_is_off(
    calm: Fake, watched: Watched
) -> None:
    page = watched.look(390)
    watched.open(f"{calm.url}/attention")
    expect(page.locator("#edits")).to_contain_text("Model as trained")
    page.evaluate("lmscope.edits.off(5, 3)")
    expect(page.locator("#edits.has-edits")).to_contain_text("Edited model")

    # On a phone only the edits stay in sight.
    page.wait_for_function("!lmscope.busy.isOut()")
    page.evaluate("scrollTo(0, 800)")
    eventually(page, lambda: abs(page.evaluate("document.getElementById('edits').getBoundingClientRect().top")) < 2)
    assert page.evaluate("document.querySelector('.top').getBoundingClientRect().bottom") < 80
    watched.look(1440)

    for text in ("6.1", "7.2"):
        add(page, text)
    page.get_by_role("button", name="Delete L6 head 1 off").click()
    expect(page.locator(".edit")).to_have_count(2)
    page.get_by_role("switch", name="compare with unedited").check()
    eventually(page, lambda: last(calm, OverviewAsk).compare)
    page.locator("#clear-edits").click()
    expect(page.locator(".edit")).to_have_count(0)
    page.wait_for_function("!lmscope.view.get().compare")
    wait_for_address(page)
    page.go_back()
    expect(page.locator(".edit")).to_have_count(2)
    page.get_by_role("button", name="Delete L7 head 2 off").click()
    expect(page.locator("#edits.has-edits")).to_contain_text("Edited model")
    page.locator("#rail a[data-instrument=heads]").click()
    page.wait_for_url("**/heads#*")
    page.evaluate("scrollTo(0, 9999)")
    expect(page.locator("#edits.has-edits")).to_be_in_viewport()
    eventually(page, lambda: any(isinstance(ask, HeadsAsk) for _, ask in calm.client.asked))
    eventually(page, lambda: len(last(calm, HeadsAsk).edits) == 1)
    page.get_by_role("switch", name="L5 head 3 off, on").uncheck()
    expect(page.locator("#edits")).to_contain_text("Edits off")
    expect(page.locator(".edit.is-off")).to_have_count(1)

    # An edit that is off is kept, and not asked.
    eventually(page, lambda: last(calm, HeadsAsk).edits == ())
    assert edits(page) == (HeadScale(layer=5, head=3, by=0, on=False),)


EVERY_KIND = {
    HeadScale(layer=5, head=3, by=0): "L5 head 3 off",
    HeadSet(layer=5, head=3, to="ab12cd" + "0" * 58): "L5 head 3 = vector ab12cd",
    FfnScale(layer=12, unit=34, by=0): "L12 unit 34 × 0",
    FfnSet(layer=12, unit=34, to=2.5, at="prompt"): "L12 unit 34 = 2.5the prompt only",
    FfnOutSet(layer=4, to="feed00" + "3" * 58, at=(2,)): "Feed-forward of block 4 = vector feed00token 2",
    ResidualAdd(layer=3, vector="c0ffee" + "1" * 58, by=2): "Stream after block 3 + 2 × direction c0ffee",
    ResidualAdd(layer=3, vector="c0ffee" + "1" * 58, by=-0.5): "Stream after block 3 − 0.5 × direction c0ffee",
    ResidualSet(layer=4, to=0, at=(2,)): "Stream after block 4 = 0token 2",
    Steer(steer="abc123" + "2" * 58, by=1.5, on=False): "Steer abc123 × 1.5",
}


def test_an_edit_of_any_kind_is_said_switched_placed_deleted_and_changed_in_a_panel_and_an_unknown_kind_is_named(
    calm: Fake, watched: Watched
) -> None:
    made = tuple(EVERY_KIND)
    page = watched.open(View(model="smollm2-135m-instruct", text="One two three four", edits=made).link(base=calm.url))
    expect(page.locator(".edit-label")).to_have_text(list(EVERY_KIND.values()))
    assert edits(page) == made
    for index, edit in enumerate(made):
        chip = page.locator(".edit").nth(index)
        chip.get_by_role("switch").set_checked(not edit.on)
        chip.locator(".edit-label").click()
        panel = page.locator("#edit-panel")
        expect(panel.get_by_label("Strength, exactly")).to_have_count(
            0 if isinstance(getattr(edit, "to", 0), str) else 1
        )
        panel.get_by_label("Which tokens").select_option("generated")
        page.keyboard.press("Escape")
        expect(chip.locator(".edit-label")).to_be_focused()
    turned = tuple(edit.model_copy(update={"on": not edit.on, "at": "generated"}) for edit in made)
    eventually(page, lambda: edits(page) == turned)
    for left in reversed(range(len(made))):
        page.locator(".edit-delete").first.click()
        expect(page.locator(".edit")).to_have_count(left)
    assert edits(page) == ()

    # A unit and a steer have a panel like a head's.
    unit, steer = FfnScale(layer=12, unit=34, by=0), Steer(steer="abc123" + "2" * 58, by=1.5)
    page.evaluate("edits => lmscope.view.update({edits})", [edit.model_dump() for edit in (unit, steer)])
    page.locator(".edit-label").first.click()
    page.get_by_role("radio", name="= set").check()
    strength(page, "4")
    page.keyboard.press("Escape")
    page.locator(".edit-label").nth(1).click()
    expect(page.get_by_role("radiogroup", name="What is done")).to_have_count(0)
    strength(page, "-2")
    changed = (FfnSet(layer=12, unit=34, to=4), steer.model_copy(update={"by": -2.0}))
    eventually(page, lambda: edits(page) == changed)
    page.keyboard.press("Escape")

    # One of a kind that the page does not know is named, and breaks nothing.
    page.evaluate("lmscope.view.update({edits: [{kind: 'weights.new', at: 'all', on: true, layer: 1, rank: 3}]})")
    expect(page.locator(".edit-label")).to_have_text("Edit weights.new")
    page.locator(".edit-label").click()
    expect(page.locator("#edit-panel")).to_contain_text("does not know this kind of edit")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete Edit weights.new").click()
    expect(page.locator(".edit")).to_have_count(0)
    assert watched.errors == []


def test_a_drag_asks_one_question_at_a_time_and_is_one_step_back(calm: Fake, watched: Watched) -> None:
    page = watched.open(calm.url)
    add(page, "5.3")
    edited = lambda: [ask for _, ask in calm.client.asked if isinstance(ask, TokensAsk) and ask.view.edits]  # noqa: E731
    eventually(
        page, lambda: {ask.scores for ask in edited()} == {False, True}
    )  # both are there: the rest is the hand's
    page.wait_for_function("!lmscope.busy.isOut()")
    wait_for_address(page)
    before = page.evaluate("history.length")
    calm.client.delay, calm.client.asked[:] = 0.25, []
    page.locator(".edit-label").click()
    box = page.get_by_label("Strength", exact=True).bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, y)
    page.mouse.down()
    start = time.monotonic()
    for step in range(40):
        page.mouse.move(box["x"] + box["width"] * (0.25 + step * 0.015), y)
        page.wait_for_timeout(12)
    shown = page.locator(".edit-label").text_content()
    page.mouse.up()
    calm.client.delay = 0.0
    eventually(page, lambda: {ask.scores for ask in edited() if ask.view.edits == edits(page)} == {False, True})
    page.wait_for_function("!lmscope.busy.isOut()")
    took = time.monotonic() - start
    wait_for_address(page)
    final = edits(page)[0]
    assert isinstance(final, HeadScale)
    assert final.by > 0.5
    assert f"× {final.by:g}" in (shown or ""), "the slider is not moved by an answer"
    strengths = [ask.view.edits[0].by for ask in edited()]
    # Each answer takes a quarter of a second, and one question is out at a time; the released value comes on top.
    assert 2 <= len(set(strengths)) <= took / 0.25 + 2, "one question at a time, not every move"
    assert strengths[-1] == final.by, "the last question is the released value"
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    page.wait_for_function("lmscope.view.get().edits[0].by === 0")


def test_changing_the_model_leaves_edits_behind_and_what_the_next_one_does_not_offer_is_refused_with_its_reason(
    calm: Fake, watched: Watched
) -> None:
    kept = calm.client.shelf
    no = {"ffn": Ability(can=False, why="its blocks have no single write matrix")}
    assert kept[1].name == "all-minilm-l6-v2"
    calm.client.shelf = (kept[0], kept[1].model_copy(update={"edits": no}), *kept[2:])
    try:
        page = watched.open(calm.url)
        add(page, "5.3")
        page.locator("#picker-button").click()
        page.get_by_role("button", name="all-minilm-l6-v2 on disk").click()
        expect(page.locator("#announcer")).to_contain_text("One edit belonged to the former model")
        add(page, "L2U3")
        expect(page.locator("#add-edit-says")).to_have_text("Its blocks have no single write matrix.")
        assert edits(page) == ()
        wait_for_address(page)
        page.go_back()
        expect(page.locator(".edit-label")).to_have_text("L5 head 3 off")
    finally:
        calm.client.shelf = kept
