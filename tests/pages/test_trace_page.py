"""The trace page's callbacks: what they ask, in whose name, and what they draw."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from backend.schema import Problem, TokensAsk, TraceAsk, View
from frontend.pages.trace import callbacks, ids
from lmscope.client import Refused
from tests.browser.fake import FakeClient

VIEW = View(model="smollm2-135m-instruct", text="The capital of France is")
DRAWN = {"side": "edited", "colour": "probability", "token": 4, "row": None, "width": 900}
PAGE = "/trace"


def ask(**more: Any) -> dict[str, Any]:
    return TraceAsk(view=VIEW, **more).model_dump(mode="json")


def asked(drawn: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"ask": ask(**more), "drawn": DRAWN | (drawn or {}), "turn": 7}


async def test_the_first_paint_has_gaps_and_the_whole_has_none(client: FakeClient) -> None:
    part, data, notice = await callbacks.show_lens(asked(part="focus"), "light", "tab-1")
    whole, _, _ = await callbacks.show_lens(asked(), "light", "tab-1")
    assert np.isnan(np.asarray(part.data[0].z)).any()
    assert not np.isnan(np.asarray(whole.data[0].z)).any()
    assert (data["part"], data["turn"]) == ("focus", 7)
    assert data["answer"] == await client.raw(TraceAsk(view=VIEW, part="focus"))
    assert notice is None


async def test_the_strip_keeps_its_own_question(client: FakeClient) -> None:
    await callbacks.show_lens(asked(), "light", "tab-1")
    assert {type(each): tab for tab, each in client.asked} == {TraceAsk: "tab-1", TokensAsk: None}


async def test_colour_side_and_theme_reach_the_figure(client: FakeClient) -> None:
    light, _, _ = await callbacks.show_lens(asked({"colour": "entropy"}), "light", None)
    dark, _, _ = await callbacks.show_lens(asked({"side": "unedited"}), "dark", None)
    assert light.data[0].colorbar.title.text == "Entropy, nats"
    assert "compare with unedited" in dark.layout.annotations[0].text
    assert light.layout.template.layout.font.color != dark.layout.template.layout.font.color


async def test_a_token_is_followed_and_its_neighbours_come_along(client: FakeClient) -> None:
    figure, data, notice = await callbacks.show_tracked(
        {"ask": ask(part="focus", tracked=(0, 6)), "id": 6, "turn": 3}, "dark", "tab-1"
    )
    assert len(figure.data) == 3
    assert data["answer"]["tracked"] == [0, 6]
    assert data["turn"] == 3
    assert notice is None


async def test_a_refusal_and_an_impossible_question_reach_the_page(client: FakeClient) -> None:
    client.refuse["trace"] = Problem(
        type="cannot-show", status=422, what="This model has no lens", why="x", instead="y"
    )
    with pytest.raises(Refused, match="no lens"):
        await callbacks.show_lens(asked(), "light", "tab-1")
    with pytest.raises(ValidationError):
        await callbacks.show_lens({**asked(), "ask": ask() | {"top": 0}}, "light", "tab-1")


async def test_copy_as_python_asks_the_same(client: FakeClient) -> None:
    texts, _ = await callbacks.show_code({"asks": {"trace": [ask(tracked=(6,))]}, "origin": "http://127.0.0.1:1234"})
    assert ".trace(view, tracked=(6,))" in texts["client"]
    assert "'http://127.0.0.1:1234'" in texts["client"]
    compile(texts["client"], "copied", "exec")


@pytest.mark.parametrize("notice", [ids.NOTICE, ids.COLUMN_NOTICE, ids.CODE_NOTICE])
def test_every_question_has_a_place_for_its_errors(layout: str, notice: str) -> None:
    assert f"id='{notice}'" in layout


def test_the_page_says_what_the_lens_cannot_see(layout: str) -> None:
    assert "what is not on top is not therefore absent" in layout
