"""Whatever a form refuses is said in the same words by the API, by the pages and in the terminal."""

import time

import pytest
from pydantic import ValidationError

from backend.schema import View
from backend.schema.reasons import by_field, said, short
from backend.settings import Settings
from frontend.parts.notice import problem_of
from lmscope.serving import errors_of

ID = "it should be an id of 64 hex digits, as the server gives it"
HEAD = {"kind": "head.set", "layer": 0, "head": 0}


def refused(form: type, **fields: object) -> ValidationError:
    with pytest.raises(ValidationError) as error:
        form(**fields)
    return error.value


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({**HEAD, "to": 1, "layer": -1}, "edits.0.layer: it should be greater than or equal to 0"),
        ({**HEAD, "to": "x"}, f"edits.0.to: it should be a number or {ID}"),
        ({**HEAD, "to": None}, "edits.0.to: it should be a number or it should be a text"),
        (HEAD, "edits.0.to: it is missing"),
        ({"kind": "steer", "steer": "abc", "by": 1}, f"edits.0.steer: {ID}"),
        ({"kind": "ffn.scale", "layer": 0.5, "unit": "u", "by": 0},
         "edits.0.layer: it should be a whole number; edits.0.unit: it should be a whole number"),
    ],
)  # fmt: skip
def test_a_wrong_edit_is_said_by_its_fields(edit: dict[str, object], words: str) -> None:
    error = refused(View, model="m", text="a", edits=[edit])
    assert said(error.errors()) == words
    problem = problem_of(error, "never logged")
    assert problem.why == words


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ({"port": "x"}, "LMSCOPE_PORT: it should be a whole number"),
        ({"dtype": "f8"}, "LMSCOPE_DTYPE: it should be 'auto', 'float32', 'bfloat16' or 'float16'"),
        ({"models": ""}, "LMSCOPE_MODELS: it needs 1 or more, and has 0"),
        ({"key": "short"}, "LMSCOPE_KEY is too short to be safe: give it 16 characters or more"),
    ],
)
def test_a_wrong_setting_is_said_under_its_own_name_without_its_value(setting: dict[str, str], line: str) -> None:
    assert list(errors_of(refused(Settings, **setting))) == [line]


def test_many_wrong_fields_are_counted_after_the_first_three() -> None:
    found = refused(View, text="a", model="", revision="", compare="maybe", continuation=5, colour=1).errors()
    assert list(by_field(found)) == ["model", "revision", "continuation", "compare", "colour"]
    assert said(found).endswith("; and 2 more")


def test_what_is_said_is_short_and_can_be_printed() -> None:
    assert short("\ud800" + "x" * 1000).startswith("\\ud800")
    assert len(short("x" * 1000)) == 240


def test_many_wrong_rows_are_said_in_a_moment() -> None:
    found = [{"type": "float_type", "loc": ("rows", row, "label"), "msg": "", "ctx": {}} for row in range(20_000)]
    began = time.thread_time()
    assert said(found).endswith("; and 19,997 more")
    assert time.thread_time() - began < 3
