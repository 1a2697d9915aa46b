"""A kernel that makes no maps answers as one that does: every reading, from maps made block by block beside it."""

from functools import cache

import numpy as np
import pytest

from backend.measure import attention as reducing
from backend.measure import fused
from backend.models import attention, kernel
from backend.models.induction import induction
from backend.models.loaded import Loaded
from backend.schema import HeadsAsk, HeadScale, Limits, OverviewAsk, Reading, View
from tests import tiny
from tests.measure.test_fused import by_hand

TEXT = "The quick brown fox jumps over the lazy dog, said the Queen. The cat sat on the mat; the dog barked at it."
READINGS = (
    Reading(), Reading(rows="all", pool="mean"), Reading(without_first=True),
    Reading(without_first=True, pool="mean"), Reading(definitions="clark"),
)  # fmt: skip


@cache
def opened(kind: str, form: str) -> Loaded:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "choose", lambda *_: form)
        return tiny.loaded(kind)


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


def check_equal(one, other) -> None:
    for side in ("edited", "unedited", "difference"):
        mine, theirs = getattr(one, side), getattr(other, side)
        if side != "difference":
            assert np.abs(numbers(mine.maps).astype(int) - numbers(theirs.maps)).max() <= 1
        for found, expected in zip(mine.statistics, theirs.statistics, strict=True):
            np.testing.assert_allclose(numbers(found.value), numbers(expected.value), rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(numbers(found.rows), numbers(expected.rows))


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_equals_that_of_whole_maps(monkeypatch, kind, reading):
    monkeypatch.setitem(reducing.BLOCK_BYTES, "cpu", 4 * 4 * 24 * 7)  # seven rows a block
    edits = (HeadScale(layer=0, head=1, by=0),)
    ask = OverviewAsk(view=View(model="tiny", text=TEXT, edits=edits, compare=True, reading=reading), cells=4)
    beside, whole = opened(kind, kernel.FUSED), opened(kind, kernel.EAGER)
    assert beside.fused
    assert not whole.fused
    check_equal(attention.overview(beside, ask, Limits()), attention.overview(whole, ask, Limits()))


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_what_was_seen_to_equal_the_maps_is_taken_without_them(monkeypatch, kind):
    monkeypatch.setattr(fused, "fits", lambda *_: True)
    monkeypatch.setattr(fused, "reduce", lambda scores, *rest, **options: by_hand(scores, *rest, **options))
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "choose", lambda *_: kernel.FUSED)
        beside = tiny.loaded(kind)
    assert beside.reduces
    induction(beside)
    monkeypatch.setattr(kernel.Call, "maps", None)
    ask = HeadsAsk(view=View(model="tiny", text=TEXT))
    found = attention.heads(beside, ask, Limits()).edited
    monkeypatch.undo()
    expected = attention.heads(opened(kind, kernel.EAGER), ask, Limits()).edited
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(numbers(one.value), numbers(other.value), rtol=1e-4, atol=1e-5)


def test_a_reduction_that_differs_from_the_maps_is_not_used(monkeypatch):
    def wrong(*arguments, **options):
        rows, cells_HQK = by_hand(*arguments, **options)
        return rows | {"entropy": rows["entropy"] + 0.01}, cells_HQK

    monkeypatch.setattr(fused, "fits", lambda *_: True)
    monkeypatch.setattr(fused, "reduce", wrong)
    monkeypatch.setattr(kernel, "choose", lambda *_: kernel.FUSED)
    loaded = tiny.loaded("llama")
    assert not loaded.reduces
    (promise,) = [each for each in loaded.card.promises if "need not be made" in each.name]
    assert promise.kept is False
    assert loaded.card.can["attention"].can, "maps are made instead"
