"""Panels of the steer page in a browser: a slider made end to end, what is refused before any training, the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from backend.schema import EvidenceAsk, MakeAsk, Problem, SweepAsk, TransferAsk, View
from frontend.app import create_app
from frontend.settings import Settings
from tests import tiny
from tests.browser.conftest import SHOWN, Fake, Served, Watched, Whole, eventually
from tests.browser.made_up import MadeUpClient, link
from tests.browser.test_accessible import WIDE, faults_everywhere, settled
from tests.figures import made_up_steers
from tests.whole.killable import Place, serve

pytestmark = pytest.mark.browser

GOOD = [f"The cat number {place} sat on the mat and was {word}." for place in range(12) for word in ("kind", "warm")]
BAD = [
    f"The dog number {place} barked at the store and was {word}." for place in range(12) for word in ("grim", "cold")
]


@pytest.fixture(scope="module")
def made() -> Iterator[Fake]:
    client = MadeUpClient()
    app = create_app(Settings(), client)
    with Served(app.server) as served:
        yield Fake(served.url, client, served)


@pytest.fixture(autouse=True)
def _fresh(made: Fake) -> None:
    made.client.refuse.clear()
    made.client.asked.clear()
    made.client.slow_jobs = False


def show(page: Page, url: str | None = None) -> Page:
    """Open a link, or load the page anew."""
    if url is None:
        page.reload()
    else:
        page.goto(url)
    page.wait_for_function(SHOWN)
    page.wait_for_function("lmscope.steer.shelf() !== null && !lmscope.busy.isOut()")
    return page


def asked(made: Fake, form: type) -> list:
    return [ask for _, ask in made.client.asked if isinstance(ask, form)]


def paste(page: Page, good: list[str], bad: list[str]) -> None:
    page.locator("#make-plus").fill("\n".join(good))
    page.locator("#make-minus").fill("\n".join(bad))


def name_it(page: Page, name: str = "Cats and dogs") -> None:
    for field, text in (("name", name), ("plus", "cats"), ("minus", "dogs")):
        page.locator(f"#make-{field}-field").fill(text)


def quick(page: Page, steps: int = 12) -> None:
    """As little training as a tiny model needs."""
    page.locator("#make-more summary").click()
    for field, number in (("steps", steps), ("rank", 2), ("batch", 8), ("tokens", 16)):
        page.locator(f"#make-{field}").fill(str(number))


# ---------------------------------------------------------------------------------------------------- the whole product


def test_a_steer_is_made_from_pasted_examples_and_moves_the_model(whole: Whole, watched: Watched) -> None:
    """From two boxes of text to a slider with evidence that changes what the model predicts; a reload loses nothing."""
    page = show(watched.page, View(model=whole.names["llama"], text="The cat sat on the").link("steer", whole.url))
    go = page.locator("#make-go")
    expect(go).to_be_disabled()
    paste(page, GOOD[:5], BAD[:5])
    page.locator("#make-check-act").click()
    expect(page.locator("#make-examples-notice")).to_contain_text("5 different texts above 0 and 5 below")
    expect(go).to_be_disabled()
    paste(page, [*GOOD, GOOD[0]], BAD)
    page.locator("#make-check-act").click()
    expect(page.locator(".make-checked")).to_contain_text("48 examples: 24 of the + pole, 24 of the − pole")
    expect(page.locator(".make-checked")).to_contain_text("1 text came more than once")
    name_it(page)
    quick(page)
    expect(page.locator("#make-why")).to_have_text("It is kept as cats-and-dogs.")
    go.click()
    page.wait_for_function("lmscope.steer.make.job.job() !== null")
    show(page)
    done = page.locator("#make-done")
    expect(done).to_contain_text("“cats-and-dogs” is on the shelf", timeout=60_000)
    expect(done).to_contain_text("From −1 to +1 of the slider, held-out texts of “cats” become")
    expect(done).to_contain_text("Beside it, a random steer of equal norm and rank")
    expect(page.locator("#steer-make-figure .scatterlayer .trace")).to_have_count(2)
    page.locator("#make-put").click()
    expect(page.locator("#make-put")).to_have_text("It is on a slider")
    expect(page.locator(".edit-label")).to_have_count(1)
    page.wait_for_function("!lmscope.busy.isOut()")
    expect(page.locator(".notice:visible")).to_have_count(0)
    assert [error for error in watched.errors if "422" not in error] == [], "a browser logs what was refused"


def test_a_making_whose_server_is_killed_goes_on_under_the_open_page(watched: Watched, tmp_path: Path) -> None:
    """The server's process is killed in the middle; the page says so, and then what the next server makes of it."""
    place = Place(tmp_path, None, tiny.folder("llama", tmp_path / "tiny-llama"))
    place.hold("training")
    state = watched.page.locator("#make-state")
    with serve(place) as server:
        view, port = View(model=str(place.small), text="The cat"), server.port
        page = show(watched.page, view.link("steer", server.address))
        paste(page, GOOD, BAD)
        page.locator("#make-check-act").click()
        name_it(page)
        quick(page)
        page.locator("#make-go").click()
        expect(state.locator(".make-what")).to_have_text("cats-and-dogs: training", timeout=30_000)
        expect(state).to_contain_text("of 12", timeout=30_000)
        server.kill()
    expect(page.locator("#tab-notice")).to_contain_text("The server does not answer", timeout=30_000)
    place.hold("")
    with serve(place, port):
        expect(page.locator("#make-done")).to_contain_text("“cats-and-dogs” is on the shelf", timeout=60_000)
        expect(page.locator(".notice:visible")).to_have_count(0, timeout=30_000)
        expect(state).to_be_empty(timeout=30_000)
        page.close()


# ---------------------------------------------------------------------------------------------------- made-up answers


def test_what_no_steer_can_be_made_of_is_refused_before_any_training(
    made: Fake, watched: Watched, tmp_path: Path
) -> None:
    page = show(watched.page, link(made.url, "steer"))
    notice = page.locator("#make-examples-notice")
    page.get_by_role("radio", name="File").check(force=True)
    page.evaluate("lmscope.dom.config().upload = 1000")
    big = tmp_path / "big.csv"
    big.write_text("text,label\n" + "a text,1\n" * 500)
    page.locator("#make-file").set_input_files(big)
    expect(notice).to_contain_text("it has 4,511 bytes, and at most 1,000 are read", ignore_case=True)
    page.evaluate("lmscope.dom.config().upload = 1e6")
    garbage = tmp_path / "picture.csv"
    garbage.write_bytes(bytes(range(256)))
    page.locator("#make-file").set_input_files(garbage)
    page.locator("#make-check-act").click()
    expect(notice).to_contain_text("The file is no text")
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "".join(f"text {place},{1 - 2 * (place % 2)}\n" for place in range(50)))
    page.locator("#make-file").set_input_files(rows)
    expect(notice.locator(".notice")).to_have_count(0)
    page.locator("#make-check-act").click()
    expect(page.locator(".make-checked")).to_contain_text("50 examples")
    page.get_by_role("radio", name="Labelled rows").check(force=True)
    expect(page.locator(".make-checked")).to_have_count(0)
    page.locator("#make-rows").fill(
        "\n".join(f'"Good, {place}", 0.{place % 9 + 1}\nBad {place}; -1' for place in range(25))
    )
    page.locator("#make-check-act").click()
    expect(page.locator(".make-checked")).to_contain_text("25 of the + pole, 25 of the − pole")
    assert asked(made, MakeAsk) == []
    expect(page.locator("#make-go")).to_be_disabled()


def test_a_shelf_that_was_refused_is_asked_for_again(made: Fake, watched: Watched) -> None:
    """As while a model takes longer to load than a question may wait."""
    said = {"what": "The model is being loaded", "why": "it takes long", "instead": "Wait"}
    made.client.refuse["steers"] = Problem(type="loading", status=503, **said)
    watched.page.goto(link(made.url, "steer"))
    expect(watched.page.locator("#steers-notice")).to_contain_text("The model is being loaded")
    made.client.refuse.clear()
    watched.page.wait_for_function("!lmscope.busy.isOut()")  # while a question is out it is not asked again
    watched.page.evaluate("lmscope.view.ask()")
    expect(watched.page.locator("#steers-notice .notice")).to_have_count(0)
    expect(watched.page.locator("#inside-steer option").first).to_contain_text("sentiment")


def test_a_sweep_a_transfer_and_evidence_from_the_keyboard_to_a_file(made: Fake, watched: Watched) -> None:
    page = show(watched.page, link(made.url, "steer"))
    made.client.slow_jobs = True
    page.locator("#sweep-other").select_option(index=1)
    page.locator("#sweep-go").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#sweep-state")).to_contain_text("s left")
    expect(page.locator("#steer-sweep-figure .hm image")).to_have_count(1)
    show(page)
    expect(page.locator("#sweep-state")).to_contain_text("10 of 30")
    page.locator("#sweep-state").get_by_role("button", name="Stop").click()
    expect(page.locator("#sweep-state")).to_contain_text("Stopped: what was measured by then is shown")
    made.client.slow_jobs = False
    (ask,) = asked(made, SweepAsk)
    assert len(ask.strengths) == 7
    assert 0 in ask.strengths
    assert (ask.strengths[0], ask.strengths[-1]) == (-3.4, 2.6), "the slider's own range"
    assert len(ask.other_strengths) == 5
    page.locator("#sweep-go").click()
    page.wait_for_function("lmscope.steer.sweep.job.isDone()")
    expect(page.locator("#sweep-samples dt")).to_have_count(7)
    page.get_by_text("The sweep as a table").click()
    expect(page.locator("#sweep-table tbody tr")).to_have_count(14)
    page.get_by_role("button", name="Download the sweep").click()
    with page.expect_download() as waiting:
        page.locator(".menu-box:popover-open").get_by_role("button", name="CSV of every strength").click()
    assert Path(waiting.value.path()).read_text("utf-8-sig").count("\n") == 15
    page.locator("#spans-go").click()
    expect(page.locator("#spans-said")).to_contain_text("p = 0.012")
    expect(page.locator("#spans-text mark")).to_have_count(2)
    page.locator("#spans-text").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#spans-token")).to_contain_text("+0.9636 nats")
    assert asked(made, EvidenceAsk)[-1].view.edits[0].by == 1, "no slider is on: the chosen one at +1"
    page.locator("#transfer-model").select_option(index=1)
    page.locator("#transfer-go").click()
    expect(page.locator("#transfer-done")).to_contain_text("52 % of its effect survives (95 %: 41 % to 63 %")
    assert len(asked(made, TransferAsk)) == 1
    page.get_by_role("button", name="Copy the steer’s inside as Python").click()
    expect(page.locator("#code-dialog")).to_contain_text(".steer_inside('made-up-30x9', 'aaaa")
    assert watched.errors == []


def test_axe_finds_nothing_with_everything_in_use(made: Fake, watched: Watched) -> None:
    """The sliders, what moves and what is written, and every panel below."""
    page = watched.look(WIDE)
    positive = {"kind": "steer", "steer": made_up_steers.SENTIMENT, "by": 1.0}
    show(page, link(made.url, "steer", text="I thought it was", edits=[positive], sampling={"tokens": 4}))
    expect(page.locator("#steer-kl-text")).to_contain_text("nats")
    page.locator(f"[data-slider='{made_up_steers.SENTIMENT}'] summary").click()
    page.locator("#write-go").click()
    paste(page, [f"good {place}" for place in range(25)], [f"bad {place}" for place in range(25)])
    name_it(page)
    page.locator("#make-check-act").click()
    page.locator("#make-go").click()
    page.locator("#sweep-go").click()
    page.locator("#spans-go").click()
    page.locator("#transfer-model").select_option(index=1)
    page.locator("#transfer-go").click()
    page.locator("#inside-title").scroll_into_view_if_needed()
    for panel in ("make", "sweep", "transfer"):
        page.wait_for_function(f"lmscope.steer.{panel}.job.isDone()")
    eventually(page, lambda: page.evaluate("Boolean(lmscope.steer.inside.answer() && lmscope.steer.spans.answer())"))
    for summary in ("The curve as a table", "The sweep as a table", "As tables"):
        page.get_by_text(summary, exact=True).click()
    expect(page.locator("#write-edited .write-end")).to_be_visible()
    settled(page)
    assert faults_everywhere(page) == {}
