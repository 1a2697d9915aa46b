"""The attention page's callbacks: what they ask, in whose name, and what they send to the browser."""

from typing import Any

import pytest
from pydantic import ValidationError

from backend.schema import HeadAsk, HeadScale, OverviewAsk, TokensAsk, View
from frontend.pages.attention import callbacks, ids
from frontend.pages.attention.drawn import drawn
from frontend.parts.notice import notice_place
from lmscope.client import Refused
from tests.browser.fake import FakeClient
from tests.figures.answers import MadeUp

VIEW = View(model="smollm2-135m-instruct", text="The cat sat on the mat.")
EDITED = VIEW.model_copy(update={"edits": (HeadScale(layer=1, head=0, by=0.0),), "compare": True})
PAGE = "/attention"


def asked(view: View = VIEW, **more: Any) -> dict[str, Any]:
    return HeadAsk(view=view, heads=({"layer": 3, "head": 1},), **more).model_dump(mode="json")


async def test_the_grid_goes_to_the_canvas_as_it_came(client: FakeClient) -> None:
    answer, notice = await callbacks.show_grid(VIEW.model_dump(mode="json"), "tab-1")
    assert answer == await client.raw(OverviewAsk(view=VIEW))
    assert notice is None
    assert client.asked[0][0] == "tab-1"


async def test_one_head_comes_with_its_figures(client: FakeClient) -> None:
    bundle, notice = await callbacks.show_head(asked(), "tab-1")
    assert notice is None
    assert set(bundle["figures"]) == {"edited"}
    assert set(bundle["rows"]) == {"light", "dark"}
    assert len(bundle["names"]) == len(bundle["tokens"]) == len(bundle["answer"]["ids"])


async def test_a_comparison_comes_with_three_figures(client: FakeClient) -> None:
    bundle, _ = await callbacks.show_head(asked(EDITED), "tab-1")
    assert set(bundle["figures"]) == {"edited", "unedited", "difference"}


async def test_the_strip_keeps_its_own_question(client: FakeClient) -> None:
    """A newer question of a tab replaces the older one, so the axes' tokens are asked for in nobody's name."""
    await callbacks.show_head(asked(), "tab-1")
    tabs = {type(ask): tab for tab, ask in client.asked}
    assert tabs == {HeadAsk: "tab-1", TokensAsk: None}


async def test_a_map_travels_once() -> None:
    model = MadeUp()
    answer = model.head(HeadAsk.model_validate(asked())).model_dump(mode="json")
    bundle = drawn(answer, model.tokens(VIEW).model_dump(mode="json")["tokens"])
    assert "map" not in bundle["answer"]["edited"]
    assert bundle["figures"]["edited"]["data"][0]["z"] == answer["edited"]["map"]


async def test_an_impossible_head_is_refused_before_it_is_asked(client: FakeClient) -> None:
    bad = asked() | {"heads": [{"layer": -1, "head": 0}]}
    with pytest.raises(ValidationError):
        await callbacks.show_head(bad, "tab-1")
    assert client.asked == []


async def test_a_refusal_reaches_the_page(client: FakeClient) -> None:
    with pytest.raises(Refused) as caught:
        await callbacks.show_grid(View(model="smollm2-135m-instruct", text=" ").model_dump(mode="json"), "tab-1")
    assert caught.value.problem.instead


async def test_copy_as_python_gives_both_texts(client: FakeClient) -> None:
    wanted = {"ask": asked(), "statistic": "previous", "query": 2, "origin": "http://127.0.0.1:1234"}
    texts, _ = await callbacks.show_code(wanted)
    assert "'http://127.0.0.1:1234'" in texts["client"]
    assert "'3.1'" in texts["client"]
    assert "from transformers import" in texts["transformers"]
    assert "query = 2" in texts["transformers"]
    for text in texts.values():
        compile(text, "copied", "exec")


@pytest.mark.parametrize("notice", [ids.OVERVIEW_NOTICE, ids.HEAD_NOTICE, ids.CODE_NOTICE])
def test_every_question_has_a_place_for_its_errors(layout: str, notice: str) -> None:
    assert f"id='{notice}'" in layout
    assert notice_place(notice).id == notice
    assert notice.endswith("-notice"), "the error handler finds it by its name"


def test_the_page_holds_no_number_before_it_asked(layout: str) -> None:
    stores = [ids.OVERVIEW, ids.ASK, ids.HEAD, ids.CODE_ASK, ids.CODE]
    for store in stores:
        assert f"Store(id='{store}')" in layout
