"""The steer page's panels: what their callbacks ask, what becomes of a job, and what can be copied as Python."""

import inspect
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from backend.schema import (
    DirectionAsk,
    EvidenceAsk,
    ExamplesAsk,
    InsideAsk,
    KeepAsk,
    MakeAsk,
    Problem,
    Sampling,
    Steer,
    SweepAsk,
    TransferAsk,
    View,
)
from backend.schema.limits import Limits
from frontend.app import create_app
from frontend.figures.inside import labelled, plane
from frontend.figures.making import curve
from frontend.pages.steer import callbacks, inside, make, spans, sweep
from frontend.parts import asking, following, knowing, upload
from frontend.parts.client_code import BY_FORM, client_calls
from frontend.settings import Settings
from lmscope import Client
from lmscope.client import Refused
from tests.browser.made_up import MadeUpClient
from tests.figures import made_up_making
from tests.figures.answers import packed

MODEL, STEER, SET = "made-up-30x9", "a" * 64, "7" * 64
VIEW = View(model=MODEL, text="a film that was made with love and care", edits=(Steer(steer=STEER, by=1.0),))
MAKE = MakeAsk(model=MODEL, name="mood", plus="praise", minus="blame", examples=SET, rank=None, steps=120)


@pytest.fixture
def client() -> Iterator[MadeUpClient]:
    fake = MadeUpClient()
    token = asking._client.set(fake)
    yield fake
    asking._client.reset(token)


def data(ask: Any) -> dict[str, Any]:
    return ask.model_dump(mode="json")


async def began(ask: Any, kind: str) -> str:
    """Start a job as the browser does; its id."""
    asked = {"asks": [{"kind": kind, "ask": data(ask)}], "key": "k", "turn": 1}
    told = await following.started(asked, {kind: type(ask)}, "tab-1")
    return str(told["jobs"][kind])


async def test_a_making_has_a_curve_while_it_runs_and_a_card_when_it_is_done(client: MadeUpClient) -> None:
    id = await began(MAKE, "make")
    assert client.asked == [("tab-1", MAKE)]
    found = [await following.told({"id": id, "key": "k"}, "tab-1") for _ in range(3)]
    assert [told["job"]["state"] for told in found] == ["running", "running", "done"]
    lengths = [len(told["answer"]["curve"]) for told in found]
    assert lengths == sorted(set(lengths)), "it grows"
    assert [told["answer"]["card"] is None for told in found] == [True, True, False]
    assert all(told["job"]["result"] is None for told in found), "it travels once"


async def test_a_job_that_no_server_knows_any_more_is_lost_and_other_refusals_stand(client: MadeUpClient) -> None:
    async def gone(id: str) -> Any:
        raise Refused(Problem(type="unknown-job", status=status, what="No such job", why="a", instead="b"))

    client.job = gone  # type: ignore[method-assign]
    client.with_tab = lambda tab: client  # type: ignore[method-assign]
    status = 404
    told = await following.told({"id": "x", "key": "k"}, "tab-1")
    assert told["job"]["state"] == "lost"
    assert told["job"]["problem"]["what"] == "No such job"
    assert told["answer"] is None
    status = 503
    with pytest.raises(Refused):
        await following.told({"id": "x", "key": "k"}, "tab-1")


async def test_a_job_is_stopped_where_it_stands(client: MadeUpClient) -> None:
    id = await began(SweepAsk(view=VIEW, steer=STEER), "sweep")
    await following.told({"id": id, "key": "k"}, "tab-1")
    await following.stopped({"ids": [id]}, "tab-1")
    told = await following.told({"id": id, "key": "k"}, "tab-1")
    assert told["job"]["state"] == "cancelled"
    assert 0 < len(told["answer"]["points"]) < 7


async def test_inside_and_evidence_answer_their_own_question(client: MadeUpClient) -> None:
    figure, answer, _ = await inside.show_inside(
        {"ask": data(InsideAsk(model=MODEL, steer=STEER)), "key": "i"}, "dark", "tab-1"
    )
    assert answer["key"] == "i"
    assert len(figure.data[0].x) == len(made_up_making.WORDS)
    answer, _ = await spans.show_spans({"ask": data(EvidenceAsk(view=VIEW)), "key": "e"}, "tab-1")
    assert answer["key"] == "e"
    assert len(answer["answer"]["spans"]) == 2


async def test_what_was_answered_before_is_found_and_a_refusal_finds_nothing(client: MadeUpClient) -> None:
    ask = KeepAsk(model=MODEL, count=9)
    look = {"key": "k", "kind": "keep", "ask": data(ask)}
    id = await began(ask, "keep")
    assert await knowing.found(look, {"keep": KeepAsk}, "tab-1") == {"key": "k", "id": None}, "it runs yet"
    for _ in range(3):
        await following.told({"id": id, "key": "k"}, "tab-1")
    assert (await knowing.found(look, {"keep": KeepAsk}, "tab-1"))["id"] == id
    client.refuse["known"] = Problem(type="unknown-model", status=404, what="No such model", why="a", instead="b")
    assert (await knowing.found(look, {"keep": KeepAsk}, "tab-1"))["id"] is None


def test_figures_of_jobs_draw_what_was_found() -> None:
    made = made_up_making.make(MAKE, 1.0)
    figure = make.draw(data(made), {}, "light")
    assert [list(line.y) for line in figure.data] == [
        [point.train for point in made.curve], [point.held_out for point in made.curve]
    ]  # fmt: skip
    assert figure.layout.shapes[0].x0 == made.best
    assert curve([]).layout.annotations[0].text.startswith("The first check")
    ask = SweepAsk(view=VIEW, steer=STEER, strengths=(-1, 0, 1))
    drawn = {"plus": "praise", "minus": "blame", "measure": "plus"}
    lines = {line.name: list(line.y) for line in sweep.draw(data(made_up_making.sweep(ask, 1.0)), drawn, "light").data}
    assert lines["texts: praise"] == [-point.plus.mean for point in made_up_making.sweep(ask, 1.0).points if point.plus]


def test_words_of_the_plane_have_room_and_a_second_direction_may_be_missing() -> None:
    answer = data(made_up_making.inside(InsideAsk(model=MODEL, steer=STEER)))
    assert next(iter(plane(answer).data[0].customdata)) == "␣good"
    across, up = np.array([0.0, 0.001, 1.0]), np.array([0.0, 0.0, 1.0])
    assert labelled(across, up, ["one", "two", "far"]) == [True, False, True], "the second would lie over the first"
    answer["scatter"] = data(packed(np.stack([across, np.full(3, np.nan)], 1).astype("f4")))
    answer |= {"scatter_ids": [0, 1, 2], "dimensions": answer["dimensions"][:1]}
    figure = plane(answer)
    assert list(figure.data[0].y) == [0, 0, 0]
    assert not figure.layout.yaxis.visible


# ---------------------------------------------------------------------------------------------------- examples


@pytest.fixture
def pages() -> httpx.AsyncClient:
    fake = MadeUpClient()
    app = create_app(Settings(), fake).server
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


async def post(pages: httpx.AsyncClient, body: bytes) -> httpx.Response:
    return await pages.post("/examples", content=body, headers={"X-Lmscope-Tab": "tab-1"})


async def test_examples_are_checked_and_refusals_come_in_words(pages: httpx.AsyncClient) -> None:
    texts = {pole: tuple(f"{pole} {place}" for place in range(25)) for pole in ("plus", "minus")}
    card = await post(pages, ExamplesAsk(name="mood", **texts).model_dump_json().encode())
    assert (card.status_code, card.json()["plus"], card.json()["minus"]) == (200, 25, 25)
    few = await post(pages, ExamplesAsk(name="mood", plus=("a",), minus=("b",)).model_dump_json().encode())
    assert (few.status_code, few.json()["what"]) == (422, "There are too few examples")
    for body in (b"\x89PNG\r\n", b"[]", b'{"name": "Mood!"}'):
        bad = await post(pages, body)
        assert bad.status_code == 422
        assert bad.json()["what"] == "These examples cannot be read"
        assert bad.json()["why"]


async def test_a_body_over_the_limit_is_refused_with_both_numbers(
    pages: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "Limits", lambda: Limits(upload_bytes=2048))
    answer = await post(pages, b" " * 3000)
    assert answer.status_code == 413
    assert (answer.json()["needed"], answer.json()["available"]) == (3000, 2048)


def test_a_file_that_the_browser_takes_fits_into_the_body() -> None:
    assert upload.file_bytes() * 4 / 3 < Limits().upload_bytes
    assert upload.file_bytes() * 4 / 3 > 0.99 * Limits().upload_bytes


# ---------------------------------------------------------------------------------------------------- Python

ASKS = {
    "steer_evidence": EvidenceAsk(view=VIEW, against="base"),
    "steer_inside": InsideAsk(model=MODEL, steer=STEER, top=5),
    "make": MAKE,
    "direction": DirectionAsk(model=MODEL, name="d", plus="a", minus="b", examples=SET, layer=3, method="pca"),
    "transfer": TransferAsk(steer=STEER, model="made-up-12x12", name="mood-there"),
    "sweep": SweepAsk(
        view=VIEW.model_copy(update={"sampling": Sampling(seed=3)}), steer=STEER, strengths=(0, 1), control=False
    ),
}


@pytest.mark.parametrize("name", list(ASKS))
async def test_copy_as_python_asks_the_same(name: str) -> None:
    """What is copied runs against a client that notes what it was asked."""
    texts, _ = await callbacks.show_code({"asks": {name: [data(ASKS[name])]}, "origin": "http://127.0.0.1:1"})
    assert asked_by(texts["client"], type(ASKS[name])) == ASKS[name]


def asked_by(script: str, form: type) -> Any:
    method = BY_FORM[form].method
    signature = inspect.signature(getattr(Client, method))
    found: list[Any] = []

    class Noting:
        def __init__(self, address: str) -> None:
            assert address == "http://127.0.0.1:1"

        def __getattr__(self, name: str) -> Any:
            assert name == method

            def ask(*given: Any, **named: Any) -> Any:
                bound = dict(signature.bind(self, *given, **named).arguments)
                bound |= bound.pop("options", {})
                found.append(form(**{key: value for key, value in bound.items() if key != "self"}))
                card = type("Card", (), {"evidence": None})
                return type("Answer", (), {"csv": staticmethod(lambda: ""), "card": card, "survives": None})

            return ask

    names: dict[str, Any] = {"print": lambda *_: None, "Client": Noting}
    script = script.replace("from lmscope import Client, View", "from lmscope import View")
    exec(compile(script.replace("from lmscope import Client\n", ""), "copied", "exec"), names)
    (ask,) = found
    return ask


def test_two_questions_about_one_view_are_one_script() -> None:
    script = client_calls([ASKS["steer_evidence"], ASKS["steer_evidence"]], "http://127.0.0.1:1")
    assert script.count("view = ") == 1
    assert script.count("client.") == 2
