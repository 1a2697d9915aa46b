"""How fast the page feels: figures are printed, and bounds are loose enough for two busy cores.

`pytest tests/browser/test_speed.py -s` shows the figures.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from playwright.sync_api import Page

import backend.app
import backend.settings
from frontend.app import create_app
from frontend.settings import Settings
from lmscope.client import AsyncClient
from tests.browser.conftest import Fake, Served, Watched, eventually
from tests.browser.made_up import MadeUpClient, link

pytestmark = pytest.mark.browser

SMOLLM2 = "smollm2-135m-instruct"
CACHE = Path(__file__).resolve().parents[2] / "models_cache"
WORDS = ("one two three four five six seven eight nine ten " * 7).split()
READY = "!lmscope.busy.isOut()"
WATCH = """() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((entry) => entry.duration)))
        .observe({type: "longtask"});
}"""
SCROLL = """async () => {
    const scroller = document.querySelector(".grid-scroller");
    const frames = [];
    let last = performance.now();
    for (let i = 0; i < 60; i++) {
        scroller.scrollTop = (scroller.scrollHeight - scroller.clientHeight) * (1 - Math.abs(1 - i / 30));
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        frames.push(now - last);
        last = now;
    }
    return frames;
}"""


REDRAW = """() => Array.from({length: 7}, () => {
    lmscope.attention.page.grid.draw();
    return Number(document.querySelector(".grid-scroller").dataset.drawMs);
})"""


ROOM = """async () => {
    const found = {};
    for (const drawn of document.querySelectorAll(".js-plotly-plot")) {
        if (!drawn.checkVisibility() || !drawn.layout.margin) continue;
        const given = drawn.layout.margin, had = {...drawn._fullLayout._size};
        await window.Plotly.relayout(drawn, {margin: null});
        const needed = drawn._fullLayout._size;
        found[drawn.parentElement.id] = ["l", "r", "t", "b"].map((side) => [given[side], had[side], needed[side]]);
    }
    return found;
}"""
"""Of each side of each picture: the margin it was given, the one it has, and what Plotly finds by itself."""


def report(name: str, **figures: float) -> None:
    """One JSON line, as `lmscope bench` prints them."""
    print("\n" + json.dumps({"subject": name, **{key: round(value, 1) for key, value in figures.items()}}))


def tried(measure: Callable[[int], float], bound: float, least: int, most: int = 40) -> list[float]:
    """Measurements until one is below the bound: what else runs on the machine is not the page's fault."""
    found: list[float] = []
    while len(found) < least or (min(found) >= bound and len(found) < most):
        found.append(measure(len(found)))
    return found


def run_to_grid(page: Page, text: str) -> float:
    """Milliseconds from Run to the new grid on the canvas."""
    page.locator("#text").fill(text)
    return page.evaluate(
        """async () => {
            const before = lmscope.attention.page.grid.data;
            const began = performance.now();
            document.querySelector("#run").click();
            while (lmscope.attention.page.grid.data === before) await new Promise(requestAnimationFrame);
            return performance.now() - began;
        }"""
    )


def click_to_head(page: Page, layer: int, head: int) -> float:
    """Milliseconds from opening a head to its map drawn by Plotly."""
    return page.evaluate(
        """([layer, head]) => new Promise((resolve) => {
            const began = performance.now();
            const plot = document.querySelector("#attention-map .js-plotly-plot");
            plot.once("plotly_afterplot", () => resolve(performance.now() - began));
            lmscope.attention.page.grid.act.open([{layer, head}]);
        })""",
        [layer, head],
    )


@pytest.fixture(scope="module")
def made() -> Iterator[Fake]:
    client = MadeUpClient()
    with Served(create_app(Settings(), client).server) as server:
        yield Fake(server.url, client, server)


@pytest.fixture(scope="module")
def smollm2() -> Iterator[str]:
    if not list((CACHE / "models").glob(f"{SMOLLM2}@*/card.json")):
        pytest.fail(f"{SMOLLM2} is not in models_cache; run `make setup`, which fetches it")
    settings = backend.settings.Settings(models=(SMOLLM2,), cache_dir=CACHE)
    server = backend.app.create_app(settings)
    create_app(Settings(), AsyncClient("http://127.0.0.1", app=server), server)
    with Served(server) as served:
        yield served.url


@pytest.mark.pretrained
def test_run_to_grid_and_click_to_head_of_a_real_model(smollm2: str, watched: Watched) -> None:
    watched.context.set_default_timeout(120_000)
    page = watched.page
    page.goto(link(smollm2, model=SMOLLM2, text="Hello there.", focus={"heads": [{"layer": 5, "head": 3}]}))
    page.wait_for_function("document.querySelector('#head-panel')?.dataset.head", timeout=120_000)
    page.wait_for_function("document.querySelector('#attention-map .nsewdrag')")
    page.wait_for_function(READY)

    def quiet(took: float) -> float:
        page.wait_for_function(READY)
        return took

    grids = tried(lambda turn: quiet(run_to_grid(page, " ".join(WORDS[turn % 5 : turn % 5 + 64]))), 3000, least=2)
    heads = tried(lambda turn: quiet(click_to_head(page, 10 + turn % 20, 1)), 600, least=2)
    tokens = page.evaluate("lmscope.attention.page.grid.data.tokens")
    drawing = float(page.locator(".grid-scroller").get_attribute("data-draw-ms") or "nan")
    report(
        "browser-real",
        heads=270,
        tokens=tokens,
        run_to_grid_ms=min(grids),
        click_to_head_ms=min(heads),
        draw_ms=drawing,
    )
    assert 60 <= tokens <= 68
    assert min(grids) < 3000
    assert min(heads) < 600


def test_a_thousand_heads_draw_and_scroll(made: Fake, watched: Watched) -> None:
    page = watched.open(link(made.url, model="made-up-32x32", text=" ".join(WORDS[:64] * 8)))
    page.wait_for_function("document.querySelector('.grid-scroller')?.dataset.drawMs")
    page.wait_for_function(READY)
    page.wait_for_timeout(500)  # tasks of the first load are reported late, and are not the subject here
    page.evaluate(WATCH)
    redraws = tried(lambda _: min(page.evaluate(REDRAW)), 50, least=1)
    took = run_to_grid(page, " ".join(WORDS[1:65] * 8))
    page.wait_for_function(READY)
    page.wait_for_timeout(300)
    longest = max(page.evaluate("window.tasks"), default=0.0)
    page.evaluate("window.tasks.length = 0")
    page.get_by_role("button", name="Larger").click()
    page.get_by_role("button", name="Larger").click()
    scrolls: list[list[float]] = []

    def scroll(_: int) -> float:
        scrolls.append(page.evaluate(SCROLL))
        return median(scrolls[-1])

    pace = min(tried(scroll, 50, least=1))
    frames = min(scrolls, key=median)
    page.wait_for_timeout(200)
    scrolling = max(page.evaluate("window.tasks"), default=0.0)
    seen = page.evaluate("lmscope.attention.page.grid.data.tokens")
    figures = {"redraw_ms": min(redraws), "run_to_grid_ms": took, "longest_task_ms": longest}
    scrolled = {"frame_ms": pace, "worst_frame_ms": max(frames), "scroll_task_ms": scrolling}
    report("browser-1024", heads=1024, tokens=seen, **figures, **scrolled)
    assert seen == 512
    assert min(redraws) < 50, "the grid's redraw for 1,024 heads"
    assert pace < 50


def test_a_picture_is_drawn_again_only_where_its_place_has_another_size(made: Fake, watched: Watched) -> None:
    page = watched.open(link(made.url, "heads"))
    page.wait_for_function("document.querySelector('#heads-figure .point')")
    page.wait_for_function(READY)
    drawn = page.locator("#heads-figure .js-plotly-plot")
    drawn.evaluate("(drawn) => { window.draws = 0; drawn.on('plotly_afterplot', () => (window.draws += 1)); }")
    drawn.evaluate("(drawn) => window.Plotly.Plots.resize(drawn)")  # what Dash does with every picture
    assert page.evaluate("window.draws") == 0
    page.set_viewport_size({"width": 900, "height": 900})
    page.wait_for_function("window.draws > 0")
    assert abs(drawn.evaluate("(drawn) => drawn._fullLayout.width - drawn.clientWidth")) < 1


def test_a_picture_is_given_the_room_that_its_labels_need_so_that_it_is_laid_out_once(
    made: Fake, watched: Watched
) -> None:
    page = watched.open(link(made.url, "trace", focus={"heads": [{"layer": 5, "head": 3}]}))
    seen: dict[str, list[list[float]]] = {}
    for name, last in (("trace", "why-figure"), ("heads", "heads-figure"), ("attention", "attention-map")):
        page.evaluate("(name) => lmscope.view.go(name)", name)
        page.wait_for_function(f"document.querySelector('#{last} .js-plotly-plot')?.layout?.margin")
        page.wait_for_function(READY)
        seen |= page.evaluate(ROOM)
    assert {"trace-figure", "trace-tracked-figure", "why-figure", "heads-figure", "attention-map"} <= set(seen)
    for name, sides in seen.items():
        for given, drawn, needed in sides:
            assert drawn - given <= 1, f"{name} was laid out again: {sides}"
            assert -1 <= given - needed <= 12, f"{name} has empty room: {sides}"


def test_nothing_moves_when_answers_arrive(made: Fake, watched: Watched) -> None:
    """Layout shift after the first picture, as browsers measure it; 0.1 is what they call good."""
    page = watched.open(link(made.url, focus={"heads": [{"layer": 5, "head": 3}]}))
    page.wait_for_function("document.querySelector('#attention-map .nsewdrag')")
    page.wait_for_function(READY)
    page.evaluate("""() => {
        window.shifts = [];
        new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((entry) => entry.value)))
            .observe({type: "layout-shift"});
    }""")
    run_to_grid(page, "Another text of a few words .")
    page.wait_for_function(READY)
    click_to_head(page, 7, 2)
    page.wait_for_timeout(500)
    shift = sum(page.evaluate("window.shifts"))
    report("browser-shift", layout_shift=shift * 1000)
    assert shift < 0.1


def test_the_grid_of_a_small_model_is_small_on_the_wire(made: Fake, watched: Watched) -> None:
    sizes: dict[str, int] = {}

    def note(response: Any) -> None:
        asked = response.request.post_data or ""
        if "attention-overview" in asked and response.status == 200:
            sizes["grid"] = len(response.body())

    watched.page.on("response", note)
    page = watched.open(link(made.url, text=" ".join(WORDS[:64] * 8), model="made-up-12x12"))
    page.wait_for_function("document.querySelector('.grid-scroller')?.dataset.drawMs")
    eventually(page, lambda: "grid" in sizes)
    report("browser-bytes", heads=144, tokens=512, grid_bytes=sizes["grid"])
    assert sizes["grid"] < 2_000_000
