"""The slider: both distributions against the plain model, shares that add up, and no forward pass for a new value."""

import copy
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from backend import errors
from backend.models import forward, opening
from backend.models import steer as instrument
from backend.models.loaded import Loaded
from backend.models.vectors import Direction, SteerMatrix
from backend.schema import FfnSet, HeadScale, Limits, ResidualAdd, Source, Steer, SteerAnswer, SteerAsk, View
from tests import families, tiny

TEXT = "The quick brown fox jumps over the lazy dog."
ONE, TWO, UP, DOWN = "1" * 64, "2" * 64, "3" * 64, "4" * 64
STEERABLE = tuple(kind for kind in families.DECODERS if not families.FAMILIES[kind].steer)
TOGETHER = (Steer(steer=ONE, by=0.8), Steer(steer=TWO, by=-1.7))


class Made:
    """Two steers and two directions."""

    def __init__(self, loaded: Loaded) -> None:
        dice, width = torch.Generator().manual_seed(3), loaded.anatomy.unembedding.weight.shape[1]
        self.steers = {
            id: SteerMatrix(torch.randn(width, 2, generator=dice), torch.randn(2, width, generator=dice) / width)
            for id in (ONE, TWO)
        }
        self.directions = {id: torch.randn(loaded.anatomy.shape.width, generator=dice) / 4 for id in (UP, DOWN)}

    def steer(self, id: str) -> SteerMatrix:
        return self.steers[id]

    def direction(self, id: str) -> Direction:
        return Direction(self.directions[id])


def with_vectors(loaded: Loaded) -> Loaded:
    loaded.vectors = Made(loaded)
    return loaded


@cache
def llama() -> Loaded:
    return with_vectors(tiny.loaded("llama"))


def ask(*edits, text: str = TEXT, compare: bool = False, **options) -> SteerAsk:
    return SteerAsk(view=View(model="tiny", text=text, edits=edits, compare=compare), **options)


def steer(loaded: Loaded, *edits, **options) -> SteerAnswer:
    return instrument.steer(loaded, ask(*edits, **options), Limits())


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, "<f4")


def plain_logits(kind: str, ids: tuple[int, ...], *edits: Steer) -> Tensor:
    """float64 [T, V] of a model that LMScope has never touched, its output embeddings moved one and all."""
    model, made = families.without_taps(kind), Made(families.opened(kind))
    unembedding = model.get_output_embeddings()
    table_VD = unembedding.weight.detach()
    merged = sum(edit.by * made.steer(edit.steer).left_DK @ made.steer(edit.steer).right_KD for edit in edits)
    unembedding.weight = nn.Parameter(table_VD + (table_VD @ merged.T if edits else 0))
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every forward pass of any model."""
    run, counted = forward.run, list[int]()

    def counting(loaded, ids, *args, **options):
        counted.append(len(ids))
        return run(loaded, ids, *args, **options)

    monkeypatch.setattr(forward, "run", counting)
    return counted


@pytest.mark.parametrize("kind", STEERABLE)
def test_both_distributions_are_those_of_the_plain_model_and_the_shares_add_up(kind):
    loaded = with_vectors(copy.copy(families.opened(kind)))
    answer = steer(loaded, *TOGETHER, token=5, over="text", top=7)
    base, steered = (plain_logits(kind, answer.ids, *edits) for edits in ((), TOGETHER))
    for words, logits in ((answer.base, base[5]), (answer.steered, steered[5])):
        p = logits.softmax(-1)
        np.testing.assert_allclose(numbers(words.probability), p[list(words.ids)], rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(numbers(words.logit), logits[list(words.ids)], rtol=1e-4, atol=1e-4)
        assert numbers(words.probability)[0] == pytest.approx(float(p.max()), rel=1e-3)
        assert words.entropy == pytest.approx(float(torch.special.entr(p).sum()), rel=1e-3)
    p, q = base.softmax(-1), steered.softmax(-1)
    kl = torch.nn.functional.kl_div(q.log(), p, reduction="none").sum(-1)
    assert answer.kl == pytest.approx(float(kl[5]), rel=1e-3, abs=1e-6)
    assert answer.kl_text == pytest.approx(float(kl.mean()), rel=1e-3, abs=1e-6)
    assert [shift.id for shift in answer.likely] == list(dict.fromkeys(answer.base.ids + answer.steered.ids))
    change = q[5] - p[5]
    assert answer.rose[0].steered - answer.rose[0].base == pytest.approx(float(change.max()), rel=1e-3)
    assert answer.fell[0].steered - answer.fell[0].base == pytest.approx(float(change.min()), rel=1e-3)
    capped = any(getattr(loaded.model.config, name, None) for name in ("final_logit_softcapping", "logits_soft_cap"))
    assert any("caps its logits" in notice for notice in answer.notices) is capped
    for shift in answer.likely + answer.rose + answer.fell:
        assert shift.logit == pytest.approx(float(steered[5, shift.id] - base[5, shift.id]), rel=1e-3, abs=1e-4)
        assert sum(shift.shares) + shift.rest == pytest.approx(shift.logit, abs=1e-5)
        assert capped or abs(shift.rest) < 1e-4


def test_each_share_is_what_the_slider_does_alone():
    answer = steer(llama(), *TOGETHER)
    for place, slider in enumerate(TOGETHER):
        one = steer(llama(), slider)
        alone = {shift.id: shift for shift in one.likely + one.rose + one.fell}
        met = [shift for shift in answer.likely if shift.id in alone]
        assert met
        for shift in met:
            assert shift.shares[place] == pytest.approx(alone[shift.id].logit, rel=1e-3, abs=1e-5)


def test_a_new_value_of_a_steer_needs_no_forward_pass(passes):
    loaded = with_vectors(tiny.loaded("llama"))
    passes.clear()  # those of opening it
    first = steer(loaded, *TOGETHER)
    assert (first.forward, passes) == (True, [1])
    passes.clear()
    for by in (0.0, 0.1, -3.0):
        for token in (None, 2):
            moved = steer(loaded, TOGETHER[0].model_copy(update={"by": by}), TOGETHER[1], token=token, over="text")
            assert not moved.forward
    steer(loaded, compare=True)
    steer(loaded, TOGETHER[1].model_copy(update={"at": (3,)}))
    assert passes == []
    assert steer(loaded, *TOGETHER, text="The cat sat.").forward
    assert steer(loaded, HeadScale(layer=0, head=1, by=0), *TOGETHER).forward
    assert passes == [1, 1]


def test_a_direction_is_kept_by_its_strength(passes):
    loaded = with_vectors(tiny.loaded("llama"))
    passes.clear()
    up = ResidualAdd(layer=1, vector=UP, by=2)
    assert steer(loaded, up, *TOGETHER).forward
    assert len(passes) == 2, "with it and without it"
    assert not steer(loaded, up, TOGETHER[0]).forward
    assert not steer(loaded, up.model_copy(update={"by": 0})).forward
    assert steer(loaded, up.model_copy(update={"by": 2.5}), *TOGETHER).forward
    assert len(passes) == 3


def test_with_one_direction_the_shares_are_exact_and_with_two_the_rest_is_what_they_do_together():
    loaded = llama()
    up, down = ResidualAdd(layer=0, vector=UP, by=2), ResidualAdd(layer=1, vector=DOWN, by=-3)
    one = steer(loaded, TOGETHER[0], up, TOGETHER[1])
    assert max(abs(shift.rest) for shift in one.likely) < 1e-4
    alone = {shift.id: shift.logit for shift in steer(loaded, up, top=50).likely}
    for shift in one.likely:
        assert len(shift.shares) == 3
        if shift.id in alone:
            assert shift.shares[1] == pytest.approx(alone[shift.id], abs=1e-5)
    two = steer(loaded, up, TOGETHER[0], down)
    assert max(abs(shift.rest) for shift in two.likely) > 1e-2
    for shift in two.likely:
        assert sum(shift.shares) + shift.rest == pytest.approx(shift.logit, abs=1e-5)


def test_the_base_keeps_every_other_edit_and_idle_ones_do_nothing():
    loaded, other = llama(), FfnSet(layer=1, unit=3, to=6.0)
    edits = (
        FfnSet(layer=0, unit=1, to=9.0, on=False),
        TOGETHER[0],
        other,
        TOGETHER[1].model_copy(update={"on": False}),
    )
    answer = steer(loaded, *edits)
    assert answer.sliders == (1,)
    assert answer.base == steer(loaded, other).steered
    assert answer.base != steer(loaded).base


def test_a_steer_acts_at_the_tokens_that_it_names():
    loaded = llama()
    at = Steer(steer=ONE, by=2, at=(3,))
    assert steer(loaded, at, token=3).steered == steer(loaded, Steer(steer=ONE, by=2), token=3).steered
    beside = steer(loaded, at, token=4)
    assert (beside.kl, beside.rose, beside.fell, beside.base) == (0.0, (), (), beside.steered)
    assert {shift.shares for shift in beside.likely} == {(0.0,)}
    length = len(beside.ids)
    assert steer(loaded, at, over="text").kl_text == pytest.approx(steer(loaded, at, token=3).kl / length, rel=1e-6)
    assert any("acts on no token" in said for said in steer(loaded, Steer(steer=ONE, by=2, at="generated")).notices)


def test_at_zero_and_without_sliders_both_sides_are_the_same_to_the_bit():
    for edits in ((), (Steer(steer=ONE, by=0), Steer(steer=TWO, by=0))):
        answer = steer(llama(), *edits, over="text")
        assert answer.base == answer.steered
        assert (answer.kl, answer.kl_text, answer.rose, answer.fell) == (0.0, 0.0, (), ())
    assert any("No slider is on" in notice for notice in steer(llama()).notices)
    assert all(len(shift.shares) == 2 for shift in answer.likely)


def test_it_is_cancelled_between_blocks(monkeypatch):
    monkeypatch.setattr(instrument, "BLOCK_BYTES", 1)
    seen: list[int] = []

    def cancel() -> None:
        seen.append(1)
        if len(seen) == 3:
            raise errors.Cancelled("a", "b", "c")

    steer(llama(), *TOGETHER)  # its states are kept
    with pytest.raises(errors.Cancelled):
        instrument.steer(llama(), ask(*TOGETHER, over="text"), Limits(), cancel)
    monkeypatch.undo()
    whole = steer(llama(), *TOGETHER, over="text").kl_text
    monkeypatch.setattr(instrument, "BLOCK_BYTES", 4 * 4 * 420 * 3)
    assert steer(llama(), *TOGETHER, over="text").kl_text == pytest.approx(whole, rel=1e-6)


def half(dtype: torch.dtype) -> Loaded:
    tokenizer = tiny.tokenizer_of("llama")
    model = tiny.model_of("llama", len(tokenizer)).to(dtype)
    return opening.prepare(model, tokenizer, name="half", source=Source(kind="folder", name="half"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_it_says_what_can_be_told_apart_and_shares_stay_exact(dtype):
    wide, loaded = llama(), with_vectors(half(dtype))
    answer, exact = steer(loaded, *TOGETHER), {shift.id: shift for shift in steer(wide, *TOGETHER, top=50).likely}
    largest = float(numbers(answer.steered.logit).max())
    assert answer.step == torch.finfo(dtype).eps * 2.0 ** np.floor(np.log2(largest))
    assert any(str(dtype).removeprefix("torch.") in notice for notice in answer.notices)
    assert steer(wide).step < 1e-5
    met = [shift for shift in answer.likely if shift.id in exact]
    assert met
    for shift in met:
        assert shift.logit == pytest.approx(exact[shift.id].logit, abs=4 * answer.step + 0.05)
    tiny_move = steer(loaded, Steer(steer=ONE, by=1e-4)).likely
    assert all(shift.shares[0] != 0 for shift in tiny_move), "float32 holds what half precision rounds away"


def test_a_steer_that_half_precision_does_not_hold_is_refused_in_words():
    loaded = with_vectors(half(torch.float16))
    for over in ("token", "text"):
        with pytest.raises(errors.CannotShow, match="no longer numbers in float16"):
            steer(loaded, Steer(steer=ONE, by=1e6), over=over)
    assert np.isfinite(steer(llama(), Steer(steer=ONE, by=1e6), over="text").kl_text)


def test_every_word_that_is_named_can_be_read():
    answer = steer(llama(), *TOGETHER)
    shown = {shift.id for shift in answer.likely + answer.rose + answer.fell}
    assert {str(id) for id in shown} == set(answer.words)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [("bert", {}, "predicts no token"), ("llama", {"token": 999}, "There is no token 999")],
)
def test_what_cannot_be_asked_is_refused_in_words(kind, options, words):
    loaded = with_vectors(tiny.loaded(kind))
    with pytest.raises(errors.CannotShow) as refusal:
        steer(loaded, **options)
    assert words in f"{refusal.value.what} {refusal.value.why}"
    assert loaded.card.can["steer"].can is (kind != "bert")
    assert instrument.steer_bytes(loaded, ask(), Limits()) > 0
