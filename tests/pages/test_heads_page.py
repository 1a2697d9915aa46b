"""The heads page's callbacks: one question, a figure and a table."""

from typing import Any

from backend.schema import HeadsAsk, View
from frontend.pages.heads import callbacks, ids
from tests.browser.fake import FakeClient

VIEW = View(model="smollm2-135m-instruct", text="The cat sat on the mat.")
PAGE = "/heads"


def asked(**more: Any) -> dict[str, Any]:
    given = {"view": VIEW.model_dump(mode="json"), "heads": [], "statistic": "entropy", "normalised": False}
    return given | {"side": "edited"} | more


async def test_the_figure_shows_every_head_and_the_table_gets_the_answer(client: FakeClient) -> None:
    figure, answer, notice = await callbacks.show_heads(asked(), "light", "tab-1")
    assert len(figure.data[0].x) == 270
    assert answer == await client.raw(HeadsAsk(view=VIEW))
    assert notice is None
    assert client.asked[0][0] == "tab-1"


async def test_the_theme_and_the_open_head_reach_the_figure(client: FakeClient) -> None:
    light, _, _ = await callbacks.show_heads(asked(heads=[{"layer": 2, "head": 3}]), "light", None)
    dark, _, _ = await callbacks.show_heads(asked(), "dark", None)
    assert light.layout.template.layout.font.color != dark.layout.template.layout.font.color
    assert max(light.data[0].marker.size) > max(dark.data[0].marker.size)


async def test_copy_as_python_gives_both_texts(client: FakeClient) -> None:
    texts, _ = await callbacks.show_code(asked(origin="http://127.0.0.1:1234"))
    assert ".heads(view)" in texts["client"]
    assert "from transformers import" in texts["transformers"]
    for text in texts.values():
        compile(text, "copied", "exec")


def test_the_page_says_that_one_sentence_is_an_anecdote(layout: str) -> None:
    assert "One sentence is an anecdote" in layout


def test_every_question_has_a_place_for_its_errors(layout: str) -> None:
    for notice in (ids.NOTICE, ids.CODE_NOTICE):
        assert f"id='{notice}'" in layout
