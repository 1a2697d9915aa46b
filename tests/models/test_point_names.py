"""Whatever a person writes for a point means one place of the model, or is refused in words that name what there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from backend import errors
from backend.models.loaded import Loaded
from backend.models.point_names import resolve
from backend.schema import CaptureAsk, View
from backend.schema.capture import NOT_THEIRS, PLACES, THEIRS, pattern
from tests import tiny

LAYERS = 3
KNOWN = [*PLACES, *THEIRS, *NOT_THEIRS]
SIGNS = "abcdefghijklmnopqrstuvwxyzLABC0123456789_.*"
points = st.text(SIGNS, min_size=1, max_size=64)
layers = st.integers(0, 2 * LAYERS).map(str) | st.sampled_from(["*", "L", "00", "9" * 40, "-1"])


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return tiny.loaded("llama")


@st.composite
def near_points(draw: st.DrawFn) -> str:
    """A known name with some layer, perhaps with a slip of the pen."""
    name = draw(st.sampled_from(KNOWN)).replace("L", draw(layers), 1)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(name) - 1))
        name = name[:at] + draw(st.sampled_from(SIGNS)) + name[at + draw(st.integers(0, 1)) :]
    return name[:64]


@given(point=points | near_points())
def test_a_name_means_places_of_this_model_or_is_refused_in_words(loaded: Loaded, point: str) -> None:
    try:
        found = resolve(loaded, (point,)).places
    except errors.CannotShow as refusal:
        words = f"{refusal.what} {refusal.why} {refusal.instead}"
        assert len(words) > len(point)
        offered = any(known in refusal.instead for known in [*PLACES, *THEIRS])
        assert offered or f"layer from 0 to {LAYERS - 1}" in words or "every layer" in words or "nearest" in words
        return
    template, layer = pattern(point)
    assert len(found) == (LAYERS if layer == "*" else 1)
    same = THEIRS.get(template)
    for name, place in found.items():
        assert place in loaded.points.found
        assert pattern(name)[0] == template
        assert pattern(place)[0] in ((same.place, "embedding") if same else (template,))


@given(point=st.text(max_size=70))
def test_a_form_that_no_name_has_is_refused_before_any_model(point: str) -> None:
    fine = 0 < len(point) <= 64 and all(sign.isascii() and (sign.isalnum() or sign in "_.*") for sign in point)
    view = View(model="m", text="a")
    if fine:
        assert CaptureAsk(view=view, points=(point,)).points == (point,)
    else:
        with pytest.raises(ValidationError):
            CaptureAsk(view=view, points=(point,))


@pytest.mark.parametrize(
    "change", [{"points": ()}, {"points": ("final",) * 1025}, {"positions": ()}, {"positions": (-1,)}, {"dtype": "f8"}]
)
def test_a_question_keeps_to_its_form(change: dict[str, object]) -> None:
    fields = {"view": View(model="m", text="a"), "points": ("final",)}
    CaptureAsk.model_validate(fields)
    with pytest.raises(ValidationError):
        CaptureAsk.model_validate(fields | change)


def test_several_names_of_one_place_and_one_name_twice(loaded: Loaded) -> None:
    found = resolve(loaded, ("residual.1", "residual.*", "blocks.1.hook_resid_post", "residual.01")).places
    assert list(found) == ["residual.1", "residual.0", "residual.2", "blocks.1.hook_resid_post"]


def test_layers_that_lack_a_place_are_left_out_of_all_and_said(loaded: Loaded) -> None:
    whole = loaded.points
    some = {place: found for place, found in whole.found.items() if place not in ("maps.0", "maps.2")}
    loaded.points = type(whole)(some, whole.facts, whole.no_logits)
    try:
        resolved = resolve(loaded, ("maps.*",))
        assert list(resolved.places) == ["maps.1"]
        assert resolved.notices == ("Only these layers have maps.*: 1.",)
        with pytest.raises(errors.CannotShow, match=r"maps\.0"):
            resolve(loaded, ("maps.0",))
    finally:
        loaded.points = whole
