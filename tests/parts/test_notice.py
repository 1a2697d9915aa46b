"""An error is told once, in its place, and what the user did is no error."""

import pytest
from dash import no_update
from dash._callback_context import context_value
from dash._utils import AttributeDict
from dash.exceptions import PreventUpdate

from backend.schema import Problem, View
from frontend.parts import notice
from lmscope.client import Refused

TOO_LONG = Problem(
    type="too-long", status=422, what="The text is too long", why="9 of 4 tokens.", instead="Shorten it."
)


@pytest.fixture
def outputs():
    """Make `ctx.outputs_list` what a callback would see."""
    kept = {}

    def set_to(*ids: str) -> None:
        listed = [{"id": id, "property": "children" if id.endswith("-notice") else "data"} for id in ids]
        kept["token"] = context_value.set(
            AttributeDict(outputs_list=listed if len(listed) > 1 else listed[0], updated_props={})
        )

    yield set_to
    context_value.reset(kept["token"])


def words(component) -> str:
    return str(component.to_plotly_json())


def test_a_refusal_goes_to_the_callbacks_own_place(outputs) -> None:
    outputs("grid", "grid-notice")
    untouched, shown = notice.on_error(Refused(TOO_LONG))
    assert untouched is no_update
    for part in (TOO_LONG.what, TOO_LONG.why, TOO_LONG.instead):
        assert part in words(shown)


def test_a_question_that_a_newer_one_replaced_is_silent(outputs) -> None:
    outputs("grid", "grid-notice")
    with pytest.raises(PreventUpdate):
        notice.on_error(Refused(TOO_LONG.model_copy(update={"type": "replaced"})))


def test_what_stands_under_a_stopped_question_is_said_to_be_older(outputs) -> None:
    outputs("grid", "grid-notice")
    untouched, shown = notice.on_error(Refused(TOO_LONG.model_copy(update={"type": "cancelled"})))
    assert untouched is no_update
    assert notice.OLDER in words(shown)
    assert "notice-waiting" in shown.className


def test_an_impossible_view_is_explained_and_not_repeated(outputs) -> None:
    outputs("grid", "grid-notice")
    with pytest.raises(ValueError, match="layer") as raised:
        View.model_validate(
            {"model": "m", "text": "secret", "edits": [{"kind": "head.scale", "layer": -1, "head": 0, "by": 1}]}
        )
    shown = notice.on_error(raised.value)[1]
    assert "layer" in words(shown)
    assert "secret" not in words(shown)


def test_our_own_fault_is_logged_and_told_without_details(outputs, caplog) -> None:
    outputs("grid", "grid-notice")
    shown = notice.on_error(RuntimeError("/private/path"))[1]
    assert "This part of the page failed" in words(shown)
    assert "/private/path" not in words(shown)
    assert "a page callback failed" in caplog.text


def test_a_callback_without_a_place_tells_the_shell(outputs) -> None:
    outputs("grid")
    assert notice.on_error(Refused(TOO_LONG)) is no_update
    assert "shell-notice" in context_value.get().updated_props


@pytest.mark.parametrize(
    ("words_given", "said"),
    [
        ("the text is long", "The text is long."),
        ("glassllm-en is not loaded", "glassllm-en is not loaded."),
        ("a/b is gone.", "a/b is gone."),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_models_name(words_given: str, said: str) -> None:
    assert notice.sentence(words_given) == said
