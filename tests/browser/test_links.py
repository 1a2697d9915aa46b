"""The link is the state: browser and Python read each other's, reload, Back and another browser show the same."""

import json
import re
import zlib
from base64 import urlsafe_b64encode
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from playwright.sync_api import Browser, Page, expect

from backend.schema import Focus, HeadName, HeadScale, HeadSet, Reading, Region, Turn, View
from tests.browser.conftest import SHOWN, Fake, Watched, eventually, wait_for_address
from tests.schema.forms import views

pytestmark = pytest.mark.browser

VIEWS = [
    View(model="smollm2-135m-instruct", text="Seán 東京 🙂 \u2028 <script>\" \\ \x7f \x01 é"),
    View(model="smollm2-135m-instruct", template=False,
         turns=(Turn(role="system", content=""), Turn(role="user", content="Hi"))),
    View(model="all-minilm-l6-v2", pair=("A", "B"), revision="main", continuation="x"),
    View(
        model="smollm2-135m-instruct", text="One two three four five", compare=True,
        edits=(HeadScale(layer=5, head=3, by=0.0), HeadScale(layer=1, head=2, by=-1.25, at=(0, 3), on=False),
               HeadSet(layer=0, head=0, to=1e-5, at="generated")),
        reading=Reading(rows="all", without_first=True, pool="mean"),
        focus=Focus(token=2, heads=(HeadName(layer=29, head=8),), region=Region(q0=1, q1=4, k0=0, k1=3), low=0.5,
                    tab="lines", sort="first", strip="none", spaces=True, row=12, lens="rank", tracked=6042),
    ),
]  # fmt: skip


def damaged(value: Any) -> str:
    """A link that unpacks well and holds something else."""
    return "#v=1" + urlsafe_b64encode(zlib.compress(json.dumps(value).encode())).decode().rstrip("=")


GOOD = VIEWS[0].link().split("#")[1]
BAD = {
    "cut": "#" + GOOD[: len(GOOD) // 2],
    "other version": "#v=9" + GOOD[3:],
    "wrong characters": "#v=1%%%",
    "not packed": "#v=1abcd",
    "not a view": damaged([1, 2]),
    "layer −1": damaged(
        {"model": "m", "text": "t", "edits": [{"kind": "head.scale", "layer": -1, "head": 0, "by": 0}]}
    ),
    "head 10⁹": damaged(
        {"model": "m", "text": "t", "edits": [{"kind": "head.scale", "layer": 0, "head": 10**9, "by": 0}]}
    ),
    "unknown field": damaged({"model": "m", "text": "t", "colour": "red"}),
    "two prompts": damaged({"model": "m", "text": "t", "pair": ["a", "b"]}),
    "bomb": damaged({"model": "m", "text": "0" * 10_000_000}),
}


def test_python_links_open_in_the_browser_and_come_back_the_same_after_a_reload_and_in_another_browser_too(
    calm: Fake, watched: Watched, chromium: Browser
) -> None:
    """The first one in a page that is opened with it, the others in one that showed something else."""
    first, *others = VIEWS
    page = watched.open(first.link(base=calm.url))
    came_back(page, first)
    for view in others:
        page.evaluate("hash => { location.hash = hash; }", "#" + view.link().split("#")[1])
        eventually(page, lambda view=view: View.model_validate(page.evaluate("lmscope.view.get()")) == view)
        came_back(page, view)

    page.locator("#rail a[data-instrument=heads]").click()
    page.wait_for_url("**/heads#v=1*")
    wait_for_address(page)
    url, state = page.url, page.evaluate("lmscope.view.get()")
    page.reload()
    page.wait_for_function(SHOWN)
    assert page.evaluate("lmscope.view.get()") == state
    other = chromium.new_context().new_page()
    other.goto(url)
    other.wait_for_function(SHOWN)
    assert other.evaluate("lmscope.view.get()") == state
    expect(other.locator(".edit")).to_have_count(3)
    other.context.close()


def came_back(page: Page, view: View) -> None:
    assert View.model_validate(page.evaluate("lmscope.view.get()")) == view
    assert View.from_link(page.evaluate("lmscope.view.pack(lmscope.view.get())")) == view
    compact = page.evaluate("lmscope.view.canonical(lmscope.view.compact(lmscope.view.get()))")
    assert json.loads(compact) == json.loads(view.canonical()), "the browser leaves out what Python leaves out"


def test_any_view_is_written_as_python_writes_it_and_neither_a_damaged_link_nor_a_part_that_fails_breaks_the_page(
    calm: Fake, watched: Watched
) -> None:
    made = any_views()
    page = watched.open(calm.url)
    found = page.evaluate(
        """views => Promise.all(views.map(async (view) => {
            const link = await lmscope.view.pack(view);
            const opened = lmscope.view.whole(await lmscope.view.unpack(link));
            return [lmscope.view.canonical(lmscope.view.compact(view)), link, opened];
        }))""",
        [view.model_dump(mode="json") for view in made],
    )
    for view, (canonical, link, opened) in zip(made, found, strict=True):
        assert canonical == view.canonical()
        assert View.from_link(link) == view
        assert View.model_validate(opened) == view
    ends = page.evaluate(
        """links => Promise.all(links.map((link) => lmscope.view.unpack(link).then((view) => typeof view,
            (error) => error instanceof lmscope.view.LinkError ? error.problem.why : String(error))))""",
        damages(),
    )
    assert all(end == "object" or re.match(r"It |This ", end) for end in ends), ends
    assert any("damaged" in end for end in ends)

    page.evaluate("""() => {
        let isReady = false;
        lmscope.view.subscribe(() => { if (isReady) throw new Error("a part that fails"); });
        isReady = true;
    }""")
    page.evaluate("hash => { location.hash = hash; }", VIEWS[3].link().split("/attention")[1])
    page.wait_for_function("lmscope.view.get().text === 'One two three four five'")
    expect(page.locator("[role=option]")).to_have_count(5)
    expect(page.locator("#link-notice .notice")).to_have_count(0)
    assert set(watched.errors) == {"a part that fails"}


def any_views() -> list[View]:
    made: list[View] = []

    @settings(max_examples=150, derandomize=True, database=None, phases=[Phase.generate])
    @given(views)
    def gather(view: View) -> None:
        made.append(view)

    gather()
    return made


def damages() -> list[str]:
    """Links with a few letters changed, half of them cut, too."""
    chance = Random(1)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    made = []
    for view in VIEWS * 25:
        fragment = list(view.link().split("#v=1")[1])
        for _ in range(chance.randint(1, 3)):
            fragment[chance.randrange(len(fragment))] = chance.choice(letters + "%é ")
        made.append("#v=1" + "".join(fragment[: chance.choice([None, len(fragment) // 2])]))
    return made


def test_links_of_the_browser_the_rail_and_share_open_in_python_and_share_says_when_a_text_is_too_long_for_one(
    calm: Fake, watched: Watched
) -> None:
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.open(calm.url)
    page.wait_for_function("document.querySelector('#rail a[data-instrument=heads]').href.includes('#v=1')")
    link = page.locator("#rail a[data-instrument=heads]").get_attribute("href")
    assert link is not None
    assert View.from_link(link).text is not None
    page.evaluate("lmscope.edits.off(5, 3); lmscope.view.update({focus: {token: 4, heads: [{layer: 5, head: 3}]}})")
    eventually(page, lambda: bool(View.from_link(page.url).focus.heads))  # written a moment after it was set
    view = View.from_link(page.url)
    assert view.edits == (HeadScale(layer=5, head=3, by=0.0),)
    assert view.focus.heads == (HeadName(layer=5, head=3),)
    assert view.text == page.evaluate("lmscope.view.get().text")

    page.locator("#share-button").click()
    expect(page.locator("#announcer")).to_have_text("Link copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(calm.url + "/attention#v=1")
    assert View.model_validate(page.evaluate("lmscope.view.get()")) == View.from_link(copied)

    page.evaluate("""() => {
        const words = Array.from({length: 4000}, (_, i) => (Math.sin(i) * 1e9).toString(36).slice(-9));
        lmscope.view.update({text: words.join(" ").repeat(8)}, {push: true});
        return lmscope.view.written();
    }""")
    page.locator("#share-button").click()
    expect(page.locator("#link-notice")).to_contain_text("This view does not fit in a link")


def test_a_damaged_link_says_so_and_shows_the_example(calm: Fake, watched: Watched) -> None:
    """The first one in a page that is opened with it, the others in one that showed something else."""
    name, second, *others = BAD
    page = watched.open(f"{calm.url}/attention{BAD[name]}")
    damage_is_said(page, name, patience=400)
    page.evaluate("hash => { location.hash = hash; }", BAD[second])
    damage_is_said(page, second, patience=400)
    for name in others:
        page.evaluate("hash => { location.hash = hash; }", BAD[name])
        damage_is_said(page, name)


def damage_is_said(page: Page, name: str, patience: float = 0) -> None:
    """`patience`: milliseconds for an address that is written a moment later, by one clock for every damage."""
    expect(page.locator("#link-notice")).to_contain_text("This link cannot be opened")
    expect(page.locator("[role=option]").first).to_have_text("When")
    page.wait_for_function("!lmscope.busy.isOut()")
    assert page.evaluate("lmscope.view.get().model") == "smollm2-135m-instruct", name
    page.wait_for_timeout(patience)
    assert page.url.endswith(BAD[name]), f"{name}: it can be corrected"
    page.evaluate("lmscope.view.update({text: 'Another'}, {push: true})")
    page.wait_for_url("**/attention#v=1*")
    page.wait_for_function("!location.href.endsWith(" + json.dumps(BAD[name]) + ")")
    expect(page.locator("[role=option]")).to_have_count(1)
    page.evaluate("lmscope.notice.clear('link-notice')")


@pytest.mark.parametrize("instrument", ["attention", "heads"])
def test_a_link_fetches_no_model_unasked_and_choosing_another_instead_goes_on(
    calm: Fake, watched: Watched, instrument: str
) -> None:
    """None is fetched in a page that is opened with it, nor in one that showed something else."""
    page = watched.page
    wanted = {"TokensAsk", "OverviewAsk", "HeadAsk"} if instrument == "attention" else {"TokensAsk", "HeadsAsk"}
    for name in ("glassllm-en", "EleutherAI/pythia-70m"):
        view = View(model=name, text="One two three", focus=Focus(heads=(HeadName(layer=1, head=1),)))
        page.goto(view.link(instrument, calm.url))  # of the page that stands there, it is the part behind #
        fetch = page.get_by_role("button", name=f"Fetch {name}")
        expect(fetch).to_be_visible()
        page.locator("#run").click()
        page.wait_for_timeout(300)
        assert calm.client.asked == []
        fetch.click()
        expect(page.locator("[role=option]")).to_have_count(3)
        expect(page.locator("#link-notice .notice")).to_have_count(0)
        eventually(page, lambda: {type(ask).__name__ for _, ask in calm.client.asked} >= wanted)
        assert {ask.view.model for _, ask in calm.client.asked} == {name}
        page.wait_for_function("!lmscope.busy.isOut()")
        calm.client.asked.clear()

    page.goto(View(model="EleutherAI/pythia-160m", text="One two three four").link(instrument, calm.url))
    expect(page.locator("#link-notice .notice-action")).to_be_visible()
    page.locator("#picker-button").click()
    page.locator(".card-choose").first.click()
    expect(page.locator("[role=option]")).to_have_count(4)
    expect(page.locator("#link-notice .notice")).to_have_count(0)
    assert {ask.view.model for _, ask in calm.client.asked} == {"smollm2-135m-instruct"}


def test_an_unknown_address_is_no_page_and_leads_to_one_where_back_and_forward_restore_text_edit_and_instrument(
    calm: Fake, watched: Watched
) -> None:
    page = watched.page
    answer = page.goto(f"{calm.url}/nowhere")
    assert answer is not None
    assert answer.status == 404
    page.get_by_role("link", name="Open LMScope").click()
    page.wait_for_function(SHOWN)

    wait_for_address(page)
    first = page.url
    page.locator("#text").fill("Second text")
    page.locator("#run").click()
    expect(page.locator("[role=option]")).to_have_count(2)
    page.locator("#add-edit").fill("5.3")
    page.keyboard.press("Enter")
    expect(page.locator(".edit")).to_have_count(1)
    page.locator("#rail a[data-instrument=heads]").click()
    page.wait_for_url("**/heads#v=1*")
    page.go_back()
    page.wait_for_url("**/attention#v=1*")
    expect(page.locator(".edit")).to_have_count(1)
    wait_for_address(page)
    page.go_back()
    expect(page.locator(".edit")).to_have_count(0)
    expect(page.locator("#text")).to_have_value("Second text")
    page.go_back()
    expect(page.locator("#text")).to_have_value(
        "When Mary and John went to the store, John gave a bottle of milk to Mary."
    )
    page.wait_for_url(first)
    page.go_forward()
    expect(page.locator("#text")).to_have_value("Second text")


def test_a_token_beyond_the_text_is_said_and_the_focus_on_another_replaces_and_survives_back(
    calm: Fake, watched: Watched
) -> None:
    view = View(model="smollm2-135m-instruct", text="One two three four five six seven eight", focus=Focus(token=999))
    page = watched.open(view.link(base=calm.url))
    expect(page.locator("#link-notice")).to_contain_text("There is no token 999.The text has 8 tokens")
    assert page.evaluate("lmscope.view.get().focus.token") is None
    wait_for_address(page)
    before = page.evaluate("history.length")
    for token in range(6):
        page.evaluate(f"lmscope.view.update({{focus: {{token: {token}}}}})")
    wait_for_address(page)
    assert page.evaluate("history.length") == before
    page.evaluate("lmscope.view.update({focus: {token: 7}}); lmscope.edits.off(1, 1)")
    wait_for_address(page)
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    page.wait_for_function("lmscope.view.get().edits.length === 0 && lmscope.view.get().focus.token === 7")
