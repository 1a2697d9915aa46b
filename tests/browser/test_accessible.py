"""axe-core finds nothing against WCAG 2 A and AA on any page, wide and narrow, light and dark, whatever is open."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from backend.schema import Problem
from tests.browser.conftest import Fake, Watched

pytestmark = pytest.mark.browser
Theme = Literal["light", "dark"]
WIDE, NARROW = 1440, 390
OTHER: dict[Theme, Theme] = {"light": "dark", "dark": "light"}
RULES: dict[str, Any] = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]},
    "resultTypes": ["violations"],  # nobody reads what passed, and naming its elements takes most of the time
}
NOT_OURS = {"exclude": [[".ag-pinned-left-header"]]}
"""AG Grid draws an empty row of column groups above a pinned column."""
DRAWN = {"exclude": [*NOT_OURS["exclude"], [".main-svg"], ["tbody tr:nth-child(n+13):nth-last-child(n+13)"]]}
"""axe reads `color`, but the words of a picture are painted with `fill`; tests/figures/test_look.py looks at those.

Of a long table the first and the last twelve rows are looked at: those between are painted like them.
"""
PAINTS = """(places, left_out) => {
    const grounds = new Map(), paints = new Map();
    const ground = (part) => {
        if (part === null) return "";
        if (!grounds.has(part)) {
            const { backgroundColor, backgroundImage, opacity } = getComputedStyle(part);
            const covers = backgroundColor.startsWith("rgb(") && backgroundImage === "none" && opacity === "1";
            const own = `${backgroundColor} ${backgroundImage} ${opacity}`;
            grounds.set(part, covers ? own : `${own} on ${ground(part.parentElement)}`);
        }
        return grounds.get(part);
    };
    const kin = (part) => [part, part.parentElement, part.parentElement?.parentElement]
        .map((each) => each && `${each.tagName}.${each.className}`).join(" in ");
    for (const part of places.flatMap((place) => [...place.querySelectorAll("*"), place])) {
        const says = [...part.childNodes].some((each) => each.nodeType === Node.TEXT_NODE && each.data.trim() !== "");
        if (!(says || part.matches("input, select, textarea")) || !part.checkVisibility()) continue;
        if (part.closest(left_out)) continue;
        const { color, fontSize, fontWeight, position } = getComputedStyle(part);
        const paint = [color, fontSize, fontWeight, position, kin(part), part.disabled, ground(part)].join("; ");
        if (!paints.has(paint)) paints.set(paint, part);
    }
    return [...paints.values()];
}"""
"""One element of each paint that has words: the same classes, letters, and colours down to the first that covers."""
GRAVE = ("serious", "critical")

BUSY = """() => {
    lmscope.edits.off(5, 3);
    lmscope.edits.add({...lmscope.editKinds.parse("2.1 = 1"), on: false});
    lmscope.edits.add(lmscope.editKinds.parse("L12U34 x 0.5"));
    const steer = {kind: "steer", at: "prompt", on: true, steer: "a".repeat(64), by: 1.5};
    lmscope.edits.add(steer);
    const focus = {token: 4, heads: [{layer: 2, head: 1}]};
    lmscope.view.update({compare: true, continuation: " and left", focus});
}"""
"""Edits of several kinds, a comparison, a continuation and an open head."""


COLOURS = RULES | {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The rules that look at colours, which is all that differs between the themes; they take most of the time."""
SHAPES = RULES | {"rules": {name: {"enabled": False} for name in COLOURS["runOnly"]}}
"""All others."""
WIDER = """() => [...document.querySelectorAll('#page, .values-panel')]
    .filter((place) => place.scrollWidth > place.clientWidth).map((place) => place.id || place.className)"""
RUN = "async ([without, rules]) => (await axe.run(without, rules)).violations"
RUN_PAINTS = """async ([{ include, exclude }, rules]) => {
    const places = include ? include.flatMap((each) => [...document.querySelectorAll(each)]) : [document.body];
    const paints = (PAINTS)(places, exclude.flat().join());
    return paints.length ? (await axe.run({ include: paints, exclude }, rules)).violations : [];
}""".replace("PAINTS", PAINTS)


def faults(
    page: Page, every: tuple[dict[str, Any], ...] = (SHAPES, COLOURS), within: list[str] | None = None
) -> dict[str, list[str]]:
    """Rule broken → the elements that break it; `within` are selectors of places, when not the whole page is meant."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    places = {"include": [[each] for each in within]} if within else {}
    found: list[dict[str, Any]] = []
    for rules in every:
        run, without = (RUN_PAINTS, DRAWN) if rules is COLOURS else (RUN, NOT_OURS)
        found += page.evaluate(run, [without | places, rules])
    heard = [each for each in found if each["impact"] in GRAVE or "best-practice" not in each["tags"]]
    return {each["id"]: [f"{node['target']} {node['failureSummary']}" for node in each["nodes"]] for each in heard}


def faults_everywhere(
    page: Page, colours: list[str] | None = None, opening: tuple[str, ...] = (), *, only: list[str] | None = None
) -> dict[str, list[str]]:
    """The same in this window in both themes, then in a narrow or wide one in the second of them; both of these stay.

    The last look is at shapes alone: no colour depends on the width.
    `colours` are the only places whose colours are looked at, those that a test is about; `only` are those that have
    changed since everything was looked at: the rest is not looked at again.
    `opening` are buttons, each of which opens a popover that is looked at in the same way.
    """
    places = {"shapes": only, "colours": only or colours}
    first: Theme = page.evaluate("lmscope.theme.now()")
    second = OTHER[first]
    width = _width(page)
    found = _said(f"{width}, {first}", _looks(page, (SHAPES, COLOURS), places, opening))
    turn(page, second)
    found |= _said(f"{width}, {second}", _looks(page, (COLOURS,), places, opening))
    width = NARROW if width == WIDE else WIDE
    widen(page, width)
    found |= _said(f"{width}, {second}", _looks(page, (SHAPES,), places, opening))
    if wider := page.evaluate(WIDER):
        found["wider than its place"] = wider
    return found


def _width(page: Page) -> int:
    shown = page.viewport_size
    assert shown
    return shown["width"]


def _looks(
    page: Page, every: tuple[dict[str, Any], ...], places: dict[str, list[str] | None], opening: tuple[str, ...]
) -> Iterable[tuple[str, list[str]]]:
    """Faults by rule: of the page, and of each popover."""
    for rules in every:
        yield from faults(page, (rules,), places["colours" if rules is COLOURS else "shapes"]).items()
    for name in opening:
        page.get_by_role("button", name=name).click()
        rules = RULES if len(every) > 1 else every[0]
        yield from ((f"{name}: {rule}", each) for rule, each in faults(page, (rules,), popover(page)).items())
        page.keyboard.press("Escape")


def _said(where: str, found: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    return {f"{where}: {rule}": each for rule, each in found}


def widen(page: Page, width: int) -> None:
    """Show the page in a window of this width, with whatever is drawn anew for it."""
    page.set_viewport_size({"width": width, "height": 900})
    settled(page)


def turn(page: Page, theme: Theme) -> None:
    """Show this theme, with whatever is drawn anew for it."""
    if page.evaluate("lmscope.theme.now()") == theme:
        return
    page.emulate_media(color_scheme=theme)
    page.wait_for_function(f"lmscope.theme.now() === '{theme}'")
    settled(page)


def popover(page: Page) -> list[str]:
    """The popover that is open, and its button."""
    name = page.evaluate("document.querySelector(':popover-open').id")
    return [f"#{name}", f"[popovertarget={name}]"]


STILL = """() => new Promise((resolve) => {
    let quiet;
    const end = () => [observer.disconnect(), clearTimeout(quiet), clearTimeout(last), resolve()];
    const wait = () => [clearTimeout(quiet), quiet = setTimeout(end, 120)];
    const last = setTimeout(end, 10000), observer = new MutationObserver(wait);
    observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    wait();
})"""
"""Until nothing has changed for a moment."""


def settled(page: Page) -> None:
    """Until everything is answered, and what was answered is drawn."""
    for _ in range(10):
        page.wait_for_function("!lmscope.busy.isOut()")
        page.evaluate(STILL)
        if page.evaluate("!lmscope.busy.isOut()"):
            return
    raise AssertionError("the page goes on asking")


@pytest.fixture
def seen(calm: Fake, watched: Watched) -> Callable[[str], Page]:
    """Opens a page in a wide window."""
    watched.look(WIDE)
    return lambda name: watched.open(f"{calm.url}/{name}")


def test_the_attention_page_with_everything_in_use(seen: Callable[[str], Page]) -> None:
    page, panel = seen("attention"), ["#head-panel"]
    settled(page)
    assert faults(page, within=panel) == {}, "nothing open"
    turn(page, "dark")
    assert faults(page, (COLOURS,), panel) == {}, "nothing open, dark"
    page.evaluate(BUSY)
    settled(page)
    assert faults_everywhere(page, opening=("About this head", "Download this head", "About the grid")) == {}, "Map"
    tabs = ("Lines", "Text", "Table")
    for tab in tabs:
        page.get_by_role("tab", name=tab).click()
        settled(page)
        assert faults(page, within=panel) == {}, f"{tab}, narrow, light"
        assert page.evaluate(WIDER) == [], tab
    turn(page, "dark")
    for tab in reversed(tabs):
        page.get_by_role("tab", name=tab).click()
        settled(page)
        assert faults(page, (COLOURS,), panel) == {}, f"{tab}, narrow, dark"


def test_the_heads_page_with_everything_in_use(seen: Callable[[str], Page]) -> None:
    page = seen("heads")
    page.evaluate(BUSY)
    settled(page)
    assert faults_everywhere(page, opening=("About the heads",)) == {}


def test_everything_that_opens(seen: Callable[[str], Page]) -> None:
    page = seen("attention")
    page.evaluate(BUSY)
    settled(page)
    _look_at_what_opens(page, SHAPES, COLOURS)
    turn(page, "dark")
    _look_at_what_opens(page, COLOURS)
    widen(page, NARROW)
    _look_at_what_opens(page, SHAPES)


def _look_at_what_opens(page: Page, *every: dict[str, Any]) -> None:
    page.locator("#picker-button").click()
    page.get_by_role("button", name="About smollm2-135m-instruct").click()
    assert faults(page, every, popover(page)) == {}, "the picker"
    page.keyboard.press("Escape")
    page.locator(".edit-label").first.click()
    assert faults(page, every, ["#edit-panel", "#edits"]) == {}, "an edit's panel"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#code-dialog")).to_be_visible()
    assert faults(page, every, ["#code-dialog"]) == {}, "code"
    assert page.evaluate(WIDER) == [], "wider than its place"
    page.keyboard.press("Escape")


def test_notices_and_a_server_that_is_busy(seen: Callable[[str], Page], calm: Fake) -> None:
    page = seen("attention")
    settled(page)
    said = {"what": "It is too long", "why": "it has 9,000 tokens", "instead": "Shorten it"}
    for name in ("tokens", "attention"):
        calm.client.refuse[name] = Problem(type="too-long", status=422, **said)
    page.locator("#text").fill("Another")
    page.locator("#run").click()
    expect(page.locator(".notice").first).to_be_visible()
    page.evaluate("""() => {
        const problem = {type: "updated", what: "LMScope has changed", why: "Everything is in the link."};
        lmscope.notice.show("update-notice", problem, {label: "Reload", act: () => null});
        lmscope.edits.add({kind: "weights.new", at: "all", on: true});
    }""")
    settled(page)
    assert faults_everywhere(page) == {}
