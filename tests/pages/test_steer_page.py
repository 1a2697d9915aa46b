"""The steer page's callbacks: what they ask, in whose name, and what they pass on."""

from typing import Any

import pytest
from pydantic import ValidationError

from backend.schema import Problem, Steer, SteerAsk, View, WriteAsk
from frontend.pages.steer import callbacks, ids
from frontend.parts import steers
from lmscope.client import Refused
from tests.browser.fake import FakeClient
from tests.figures.made_up_steers import SENTIMENT

VIEW = View(model="smollm2-135m-instruct", text="The film was", edits=(Steer(steer=SENTIMENT, by=1.5),))
PAGE = "/steer"


def asked(**more: Any) -> dict[str, Any]:
    return {"ask": SteerAsk(view=VIEW, **more).model_dump(mode="json"), "key": "k", "edits": [], "serial": 4}


async def test_an_answer_comes_back_under_the_number_of_its_question(client: FakeClient) -> None:
    data, notice = await callbacks.show_steered(asked(), "tab-1")
    assert (data["serial"], data["key"], notice) == (4, "k", None)
    assert data["answer"] == await client.raw(SteerAsk(view=VIEW))
    assert client.asked[0] == ("tab-1", SteerAsk(view=VIEW))


async def test_the_mean_over_the_text_is_a_question_of_the_same_tab(client: FakeClient) -> None:
    data, _ = await callbacks.show_text(asked(over="text"), "tab-1")
    assert data["answer"]["kl_text"] > 0
    assert client.asked[0][0] == "tab-1"


async def test_a_refusal_and_an_impossible_question_reach_the_page(client: FakeClient) -> None:
    client.refuse["steer"] = Problem(type="cannot-show", status=422, what="It fits another model", why="x", instead="y")
    with pytest.raises(Refused, match="another model"):
        await callbacks.show_steered(asked(), "tab-1")
    with pytest.raises(ValidationError):
        await callbacks.show_steered({**asked(), "ask": asked()["ask"] | {"top": 0}}, "tab-1")


async def test_the_shelf_is_asked_for_the_model_that_is_open(client: FakeClient) -> None:
    data, _ = await steers.show_steers({"model": VIEW.model, "revision": None, "due": 1})
    assert (data["model"], data["revision"]) == (VIEW.model, None)
    assert [each["fits"] for each in data["shelf"]["steers"]] == [True, True, True, True, False]


async def test_copy_as_python_asks_the_same(client: FakeClient) -> None:
    asks = {
        "steer": [asked(over="text")["ask"]],
        "write": [WriteAsk(view=VIEW.model_copy(update={"compare": True}), ratio=True).model_dump(mode="json")],
    }
    texts, _ = await callbacks.show_code({"asks": asks, "origin": "http://127.0.0.1:1234"})
    assert ".steer(view, over='text')" in texts["client"]
    assert ".write(view, ratio=True)" in texts["client"]
    assert f"steer='{SENTIMENT}', by=1.5" in texts["client"]
    compile(texts["client"], "copied", "exec")


@pytest.mark.parametrize("notice", [ids.NOTICE, ids.TEXT_NOTICE, ids.CODE_NOTICE])
def test_every_question_has_a_place_for_its_errors(layout: str, notice: str) -> None:
    assert f"id='{notice}'" in layout


def test_base_stands_before_steered_and_the_colours_say_what_they_mean(layout: str) -> None:
    assert layout.index("write-unedited-title") < layout.index("write-edited-title")
    assert "−2 nats or less, 0, +2 nats or more" in layout
