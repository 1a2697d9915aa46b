"""Every form survives its JSON, refuses what it does not know, and never holds a NaN."""

import inspect
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

import backend.schema as schema
from backend.schema import (
    Array,
    Conditions,
    Edit,
    HeadAsk,
    HeadName,
    HeadScale,
    Limits,
    OverviewAsk,
    Statistic,
    View,
)
from backend.schema.frozen import Frozen
from tests.schema.forms import KINDS_OF_EDIT, arrays, each_edit, edits, values_of

FORMS = sorted(
    (form for _, form in inspect.getmembers(schema, inspect.isclass) if issubclass(form, Frozen)),
    key=lambda form: form.__name__,
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_any_value_of_a_form_survives_its_json(form: type[BaseModel]) -> None:
    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(values_of(form))
    def survives(value: BaseModel) -> None:
        assert form.model_validate_json(value.model_dump_json()) == value
        assert form.model_validate(value.model_dump(mode="json")) == value
        assert form.model_validate_json(value.model_dump_json(exclude_defaults=True)) == value

    survives()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_form_refuses_an_unknown_field_and_cannot_change(form: type[BaseModel]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        form.model_validate({"surely_unknown": 1})
    assert form.model_config["frozen"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_has_a_json_schema(form: type[BaseModel]) -> None:
    assert form.model_json_schema()["additionalProperties"] is False


def test_the_room_exports_every_form_it_has() -> None:
    forms = {form.__name__ for form in subclasses(Frozen) if form.__module__.startswith("backend.schema.")}
    assert {name for name in forms if not name.startswith("_")} <= set(schema.__all__)
    assert len(set(schema.__all__)) == len(schema.__all__)


def subclasses(form: type) -> set[type]:
    """All descendants."""
    return {child for direct in form.__subclasses__() for child in {direct, *subclasses(direct)}}


@given(arrays())
def test_an_array_gives_back_its_bytes_and_its_shape(array: Array) -> None:
    again = Array.model_validate_json(array.model_dump_json())
    assert (again.data, again.dims, again.dtype) == (array.data, array.dims, array.dtype)
    assert Array.pack(array.dtype, array.dims, array.data) == array
    assert len(array.data) == len(array.bdata) * 3 // 4 - array.bdata.count("=")


def test_an_array_s_shape_is_a_string_because_plotly_reads_no_list() -> None:
    assert Array.pack("u1", (3, 4), bytes(12)).model_dump() == {"dtype": "u1", "bdata": "A" * 16, "shape": "3, 4"}


def test_nan_travels_inside_an_array() -> None:
    array = Array.pack("f4", (1,), struct.pack("<f", float("nan")))
    assert array.data == struct.pack("<f", float("nan"))


@pytest.mark.parametrize(
    ("dtype", "bdata", "shape"),
    [
        ("u1", "AAAA", "4"),
        ("f4", "AAAA", "3"),
        ("f8", "AAAAAAAAAAA=", "1"),
        ("u1", "AAAA", "-1, -3"),
        ("u1", "AAAA", "1_0"),
        ("u1", "AAAA", "3.0"),
        ("u1", "AAAA", ""),
        ("u1", "AAAA", "()"),
        ("u1", "AAA", "2"),
        ("u1", "AAAé", "3"),
        ("u1", "AAAA", "1" * 65),
        ("u1", "AAAA", [3]),
    ],
)
def test_an_array_that_plotly_could_not_read_is_refused(dtype: str, bdata: str, shape: object) -> None:
    with pytest.raises(ValidationError):
        Array.model_validate({"dtype": dtype, "bdata": bdata, "shape": shape})


@given(edits)
def test_an_edit_keeps_its_kind_when_defaults_are_left_out(edit: Edit) -> None:
    kept = edit.model_dump(exclude_defaults=True)
    assert kept["kind"] == edit.kind
    assert TypeAdapter(Edit).validate_python(kept) == edit


BEYOND = {
    "layer": st.integers(max_value=-1) | st.integers(10_000),
    "head": st.integers(max_value=-1) | st.integers(100_000),
    "unit": st.integers(max_value=-1) | st.integers(10_000_000),
    "by": st.floats(1e6, exclude_min=True) | st.floats(max_value=-1e6, exclude_max=True),
    "to": st.floats(1e6, exclude_min=True) | st.sampled_from(["", "f" * 63, "G" * 64, "f" * 65]),
    "vector": st.text(max_size=63) | st.just("A" * 64),
    "steer": st.text(max_size=63) | st.just("0" * 65),
    "at": st.sampled_from([[], [-1], [10**7], [0] * 4097, "some", None, [0.5]]),
    "on": st.sampled_from([None, "maybe", 2]),
}


@pytest.mark.parametrize("kind", KINDS_OF_EDIT, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_edit_with_one_field_beyond_its_bounds_is_refused(kind: type[BaseModel], data: st.DataObject) -> None:
    fields = data.draw(each_edit[kind]).model_dump(mode="json")
    TypeAdapter(Edit).validate_python(fields)
    name = data.draw(st.sampled_from([name for name in fields if name != "kind"]))
    with pytest.raises(ValidationError):
        TypeAdapter(Edit).validate_python(fields | {name: data.draw(BEYOND[name])})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_strength_is_nan_or_infinite(number: str) -> None:
    with pytest.raises(ValidationError):
        HeadScale.model_validate_json(f'{{"kind":"head.scale","layer":0,"head":0,"by":{number}}}')


@pytest.mark.parametrize(
    "change",
    [{"cells": 0}, {"cells": 1025}, {"links": 0}, {"links": 33}, {"token": -1}, {"heads": ()}, {"region": "all"}],
)
def test_a_question_about_a_head_keeps_to_its_limits(change: dict[str, object]) -> None:
    fields = {"view": View(model="m", text="a"), "heads": (HeadName(layer=0, head=0),)}
    HeadAsk.model_validate(fields)
    with pytest.raises(ValidationError):
        HeadAsk.model_validate(fields | change)


@pytest.mark.parametrize("cells", [3, 65])
def test_a_thumbnail_has_between_4_and_64_cells(cells: int) -> None:
    with pytest.raises(ValidationError):
        OverviewAsk(view=View(model="m", text="a"), cells=cells)


def test_the_limits_are_those_of_the_contract() -> None:
    assert Limits().model_dump() == {
        "tokens": 4096,
        "body_bytes": 2 << 20,
        "upload_bytes": 20 << 20,
        "new_tokens": 512,
        "rows": 32,
        "edits": 64,
        "queue": 64,
        "wait_s": 60.0,
        "kept_bytes": 512 << 20,
        "answer_bytes": 256 << 20,
        "capture_bytes": 1 << 30,
    }


@pytest.mark.parametrize("limit", [{"tokens": 0}, {"wait_s": 0}, {"edits": 65}, {"body_bytes": 10}, {"wait_s": 1e999}])
def test_a_limit_that_lets_nothing_through_is_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(limit)


def test_conditions_name_what_differs() -> None:
    here = Conditions(
        model="m", revision="", digest="a", quantisation="none", dtype="float32", device="cpu", kernel="eager",
        versions={"torch": "2.13"},
    )  # fmt: skip
    there = here.model_copy(update={"dtype": "bfloat16", "device": "cuda:0"})
    assert here.differences(here) == {}
    assert here.differences(there) == {"dtype": ("float32", "bfloat16"), "device": ("cpu", "cuda:0")}


def test_a_statistic_says_its_unit_and_its_definition() -> None:
    assert {"label", "unit", "definition", "uniform", "rows"} <= set(Statistic.model_fields)
