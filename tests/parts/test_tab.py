"""The pages' own routes: links are opened by the schema, a tab's websocket tells the backend when it closes."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable

import pytest
from anyio import CancelScope
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from backend.schema import HeadScale, Problem, Sampling, View
from frontend.app import create_app
from frontend.parts.assets import FOLDER
from frontend.parts.writing import ended
from frontend.settings import Settings
from tests.browser.fake import FakeClient


async def until(happened: Callable[[], object]) -> None:
    """Wait half a minute at most for something that another task does."""
    for _ in range(3000):
        if happened():
            return
        await asyncio.sleep(0.01)


@pytest.fixture
def fake() -> FakeClient:
    return FakeClient()


@pytest.fixture
def pages(fake: FakeClient):
    with TestClient(create_app(Settings(), fake).server) as client:
        yield client


def test_a_view_comes_back_whole(pages: TestClient) -> None:
    view = View(model="m", text="t", edits=(HeadScale(layer=1, head=2, by=0),))
    answer = pages.post("/view", content=view.canonical())
    assert answer.status_code == 200
    assert answer.json() == view.model_dump(mode="json")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("[]", "does not hold a view"),
        ('{"model":"m","text":"t","edits":[{"kind":"head.scale","layer":-1,"head":0,"by":0}]}', "layer"),
        ('{"model":"m","text":"t","edits":[{"kind":"head.scale","layer":0,"head":0,"by":NaN}]}', "NaN"),
        ('{"model":"m"}', "exactly one of"),
        ('{"model":"m","text":"\\ud800"}', "text"),
        ("[" * 100_000, "does not hold a view"),
        (json.dumps({"model": "m", "text": "x" * 300_000}), "more than"),
        (b"\xff\xfe", "utf-8"),
    ],
)  # fmt: skip
def test_what_is_no_view_is_refused_in_words(pages: TestClient, body: str | bytes, why: str) -> None:
    answer = pages.post("/view", content=body)
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["type"] == "bad-link"
    assert why in problem["why"]
    assert len(answer.content) < 1000, "the input is not echoed"


@pytest.mark.parametrize(
    "wrong", [{"text": 5}, {"pair": ["a", "b"]}, {"edits": [{"kind": "head.scale", "layer": -1, "head": 0, "by": 0}]},
              {"colour": "red"}, {"model": ""}],
)  # fmt: skip
def test_why_a_link_is_wrong_is_said_without_the_words_of_a_library(pages: TestClient, wrong: dict) -> None:
    why = pages.post("/view", content=json.dumps({"model": "m", "text": "t"} | wrong)).json()["why"]
    for word in ("Value error", "Input", "Extra", "function-", "scale."):
        assert word not in why


def test_bytes_on_the_websocket_are_no_fault(pages: TestClient, fake: FakeClient, caplog) -> None:
    with pages.websocket_connect("/tab/one") as socket:
        socket.receive_text()
        socket.send_bytes(b"\x00stop")
        socket.send_text("stop")
        socket.close()
        socket.portal.call(until, lambda: fake.gone)
    assert fake.stopped == ["one"]
    assert caplog.text == ""


def test_the_websocket_relays_events_and_its_closing_is_told(pages: TestClient, fake: FakeClient) -> None:
    with pages.websocket_connect("/tab/one") as socket:
        assert json.loads(socket.receive_text()) == {"questions": [], "jobs": []}
        socket.send_text("stop")
        socket.close()
        socket.portal.call(until, lambda: fake.gone)
    assert fake.gone == ["one"]
    assert fake.stopped == ["one"]


def write(view: View, number: int) -> str:
    return json.dumps({"write": {"view": view.model_dump(mode="json")}, "id": number})


def told(socket, *kinds: str) -> list[dict]:
    """What is said until one of these is."""
    found = []
    while not found or not set(kinds) & set(found[-1]):
        found.append(json.loads(socket.receive_text()))
    return found


WRITTEN = View(model="smollm2-135m-instruct", text="t", sampling=Sampling(tokens=3))


def test_what_is_written_comes_over_the_websocket_with_the_number_of_its_question(pages, fake) -> None:
    with pages.websocket_connect("/tab/one") as socket:
        socket.receive_text()
        socket.send_text("{nonsense")
        socket.send_text('{"write": {"view": {}}}')
        socket.send_text(write(WRITTEN, 7))
        events = told(socket, "written")
    assert {event["id"] for event in events} == {7}
    assert [event["write"]["kind"] for event in events[:-1]] == ["begun", "token", "token", "token", "ended"]
    assert fake.asked[-1][0] == "one"


def test_a_newer_continuation_takes_the_older_one_s_place_and_null_ends_it(pages, fake) -> None:
    fake.held = True
    with pages.websocket_connect("/tab/one") as socket:
        socket.receive_text()
        for number in (1, 2):
            socket.send_text(write(WRITTEN, number))
            while json.loads(socket.receive_text())["id"] != number:
                pass
        socket.portal.call(until, lambda: fake.ended)
        assert fake.ended == ["one"]
        socket.send_text('{"write": null, "id": 3}')
        socket.portal.call(until, lambda: len(fake.ended) == 2)
        assert fake.ended == ["one", "one"]
        socket.close()
        socket.portal.call(until, lambda: fake.gone)


def test_closing_the_websocket_ends_the_writing(pages, fake) -> None:
    fake.held = True
    with pages.websocket_connect("/tab/one") as socket:
        socket.receive_text()
        socket.send_text(write(WRITTEN, 1))
        told(socket, "write")
        socket.close()
        socket.portal.call(until, lambda: fake.ended)
    assert fake.ended == ["one"]


def test_a_writing_that_fails_says_so_and_the_next_one_is_written(pages, fake, monkeypatch, caplog) -> None:
    begun: list[View] = []

    async def fails(self, view: View, **_) -> AsyncGenerator[None, None]:
        begun.append(view)
        raise KeyError("a fault of ours")
        yield

    with monkeypatch.context() as patched, pages.websocket_connect("/tab/one") as socket:
        socket.receive_text()
        patched.setattr(FakeClient, "write_stream", fails)
        socket.send_text(write(WRITTEN, 1))
        socket.portal.call(until, lambda: begun)
        patched.undo()
        socket.send_text(write(WRITTEN, 2))
        first, *_, last = told(socket, "written")
    assert (first["id"], first["problem"]["type"], first["problem"]["why"]) == (1, "broken", "KeyError")
    assert last["id"] == 2
    assert "a continuation failed" in caplog.text


async def test_a_scope_that_ends_a_tab_while_its_tasks_end_is_not_surprised() -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    with CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        await ended(task)
    assert scope.cancelled_caught
    assert task.cancelled()


def test_what_cannot_be_written_is_told_in_words(pages, fake) -> None:
    fake.refuse["write"] = Problem(type="busy", status=503, what="Too many", why="64 wait", instead="Wait")
    with pages.websocket_connect("/tab/one") as socket:
        socket.receive_text()
        socket.send_text(write(WRITTEN, 1))
        assert told(socket, "problem")[-1]["problem"]["what"] == "Too many"
        socket.send_text(
            json.dumps({"write": {"view": {"model": "m", "text": "t", "sampling": {"tokens": 0}}}, "id": 2})
        )
        (refused,) = told(socket, "problem")
        assert refused["id"] == 2
        assert "tokens" in refused["problem"]["why"]


def test_another_site_may_not_listen(pages: TestClient, fake: FakeClient) -> None:
    with (
        pytest.raises(WebSocketDisconnect),
        pages.websocket_connect("/tab/one", headers={"origin": "http://evil.example"}),
    ):
        pass
    assert fake.gone == []


def test_every_page_has_its_address_and_anything_else_is_not_found(pages: TestClient) -> None:
    first = pages.get("/", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (307, "/attention")
    for name in ("attention", "heads"):
        assert "/assets/lmscope.js?m=" in pages.get(f"/{name}").text
    assert pages.get("/nowhere").status_code == 404
    assert pages.get("/api/v1/nowhere").status_code == 404


@pytest.mark.parametrize(
    "path",
    ["/assets/nothing.js?m=1", "/assets/%2e%2e/app.py?m=1", "/_dash-component-suites/dash/nothing.js",
     "/_dash-component-suites/os/environ.py", "/_dash-component-suites/dash/%2e%2e/%2e%2e/dash/dash.py"],
)  # fmt: skip
def test_a_file_that_is_not_ours_to_give_is_not_found_and_its_absence_not_kept(pages: TestClient, path: str) -> None:
    answer = pages.get(path)
    assert answer.status_code == 404
    assert "immutable" not in answer.headers.get("cache-control", "")


def test_a_script_is_kept_by_browsers_and_never_guessed_at(pages: TestClient) -> None:
    for kind in ("js", "css"):
        headers = pages.get(f"/assets/lmscope.{kind}?m=1").headers
        assert "immutable" in headers["cache-control"]
        assert headers["x-content-type-options"] == "nosniff"


def test_all_our_scripts_are_one_file_and_so_are_all_style_sheets(pages: TestClient) -> None:
    page = pages.get("/attention").text
    for kind, names in (("js", r'src="(/assets/[^"]*)"'), ("css", r'href="(/assets/[^"]*css[^"]*)"')):
        (address,) = re.findall(names, page)
        files = sorted(FOLDER.glob(f"*.{kind}"))
        joined = pages.get(address).content
        places = [joined.index(file.read_bytes()) for file in files]
        assert len(files) > 5
        assert places == sorted(places)


def test_each_script_is_a_function_of_its_own() -> None:
    """Joined, none sees another's names, and none is strict for all."""
    for file in FOLDER.glob("*.js"):
        code = re.sub(r"/\*.*?\*/", "", file.read_text(), count=1, flags=re.S).strip()
        assert code.startswith("(function () {"), file.name
        assert code.endswith("})();"), file.name


def test_what_browsers_fetch_is_packed(pages: TestClient) -> None:
    assert pages.get("/attention", headers={"accept-encoding": "gzip"}).headers["content-encoding"] == "gzip"
