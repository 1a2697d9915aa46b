"""Edits fold into tables in the order listed, act on the tokens they name, and never beyond the model."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from backend import errors
from backend.models.checks import check_edits, idle
from backend.models.naming import part_of, tap_of
from backend.models.plan import Row, fold
from backend.models.vectors import Direction, SteerMatrix
from backend.schema import (
    Edit,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadScale,
    HeadSet,
    ResidualAdd,
    ResidualSet,
    Steer,
)
from tests import tiny

TOKENS = 9
PROMPT = 6
LOADED = tiny.Once()
ats = st.one_of(
    st.sampled_from(["all", "prompt", "generated"]),
    st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=4).map(tuple),
)


def named(at: str | tuple[int, ...], token: int) -> bool:
    """Whether `at` names a token, said as the schema says it."""
    if isinstance(at, tuple):
        return token in at
    return {"all": True, "prompt": token < PROMPT, "generated": token >= PROMPT}[at]


numbers = st.floats(-8, 8, width=32)
layers = st.integers(0, 2)
VECTOR = "1" * 64
OTHER = "2" * 64
edits = st.one_of(
    st.builds(HeadScale, layer=layers, head=st.integers(0, 3), by=numbers, at=ats),
    st.builds(HeadSet, layer=layers, head=st.integers(0, 3), to=numbers | st.just(VECTOR), at=ats),
    st.builds(FfnScale, layer=layers, unit=st.sampled_from([0, 7, 95]), by=numbers, at=ats),
    st.builds(FfnSet, layer=layers, unit=st.sampled_from([0, 7, 95]), to=numbers, at=ats),
    st.builds(FfnOutSet, layer=layers, to=numbers | st.just(OTHER), at=ats),
    st.builds(ResidualAdd, layer=layers, vector=st.sampled_from([VECTOR, OTHER]), by=numbers, at=ats),
    st.builds(ResidualSet, layer=layers, to=numbers | st.just(OTHER), at=ats),
    st.builds(Steer, steer=st.sampled_from([VECTOR, OTHER]), by=numbers, at=ats),
)


class Made:
    """Vectors as long as the edits of these tests need them."""

    def direction(self, id: str) -> Direction:
        return Direction(torch.arange(1.0, 5.0) * int(id[0]))

    def steer(self, id: str) -> SteerMatrix:
        rank = int(id[0])
        return SteerMatrix(torch.full((4, rank), 0.5), torch.arange(4.0 * rank).reshape(rank, 4))


def one_after_the_other(edit: Edit, x: Tensor) -> Tensor:
    """What one edit does to the four numbers of its part."""
    stored = Made()
    match edit.kind:
        case "head.scale" | "ffn.scale":
            return x * edit.by
        case "residual.add":
            return x + edit.by * stored.direction(edit.vector).vector_D
        case _:
            return stored.direction(edit.to).vector_D if isinstance(edit.to, str) else torch.full((4,), edit.to)


@given(rows=st.lists(st.lists(edits, max_size=5).map(tuple), min_size=1, max_size=4), x=numbers)
def test_tables_do_what_the_edits_do_one_after_the_other(rows, x):
    plan = fold(LOADED["llama"].anatomy, [Row(edits, PROMPT) for edits in rows], TOKENS, Made())
    for row, listed in enumerate(rows):
        places = {(tap_of(edit), part_of(edit)) for edit in listed if edit.kind != "steer"}
        for (tap, part), token in product(places, range(TOKENS)):
            expected = torch.full((4,), float(x))
            for edit in listed:
                if (tap_of(edit), part_of(edit)) == (tap, part) and named(edit.at, token):
                    expected = one_after_the_other(edit, expected)
            got = torch.full((4,), float(x))
            if plan is not None and tap in plan.tables and part in plan.tables[tap].parts_N:
                place, table = plan.row_BT[row, token], plan.tables[tap]
                column = table.parts_N.tolist().index(part)
                got = x * table.scale_RN[place, column] + table.shift_RNW[place, column].expand(4)
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-4)


@given(rows=st.lists(st.lists(edits, max_size=5).map(tuple), min_size=1, max_size=4))
def test_steers_add_up_on_the_same_state(rows):
    plan = fold(LOADED["llama"].anatomy, [Row(edits, PROMPT) for edits in rows], TOKENS, Made())
    c_D = torch.tensor([1.0, -2.0, 0.5, 3.0])
    for row, token in product(range(len(rows)), range(TOKENS)):
        expected = c_D.clone()
        for edit in rows[row]:
            if edit.kind == "steer" and named(edit.at, token):
                matrix = Made().steer(edit.steer)
                expected += edit.by * (c_D @ (matrix.left_DK @ matrix.right_KD))
        got = c_D
        if plan is not None and (steering := plan.steering) is not None:
            amount_K = steering.amount_RK[plan.row_BT[row, token]]
            got = c_D + ((c_D @ steering.left_DK) * amount_K) @ steering.right_KD
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)


def test_no_edit_means_no_plan_and_row_0_is_the_identity():
    assert fold(LOADED["llama"].anatomy, [Row((), PROMPT)], TOKENS) is None
    off, move = HeadScale(layer=1, head=2, by=0), ResidualAdd(layer=0, vector=VECTOR, by=2)
    plan = fold(LOADED["llama"].anatomy, [Row((off, move), PROMPT), Row((), PROMPT)], TOKENS, Made())
    assert plan.row_BT[1].tolist() == [0] * TOKENS
    assert set(plan.tables) == {"heads.1", "residual.0"}
    for table in plan.tables.values():
        assert table.scale_RN[0].tolist() == [1]
        assert not table.shift_RNW[0].any()


def test_an_edit_that_reaches_no_token_means_no_plan():
    generated = HeadScale(layer=0, head=0, by=0, at="generated")
    assert fold(LOADED["llama"].anatomy, [Row((generated,), TOKENS)], TOKENS) is None


def test_padding_moves_no_edit_and_packed_texts_keep_theirs():
    first, last = HeadScale(layer=0, head=0, by=0, at=(0,)), HeadScale(layer=0, head=1, by=0, at="generated")
    padded, packed = Row((first,), 2, tokens=3), [Row((first,), 2, tokens=4), Row((last,), 2, tokens=3)]
    plan = fold(LOADED["llama"].anatomy, [padded, packed], 7)
    one, other = plan.row_BT[0, 4].item(), plan.row_BT[1, 6].item()
    assert plan.row_BT.tolist() == [[0, 0, 0, 0, one, 0, 0], [one, 0, 0, 0, 0, 0, other]]
    assert one != other
    assert plan.part(5).row_BT.tolist() == [[0, 0], [0, other]]


@pytest.mark.parametrize(
    ("at", "expected"),
    [("all", [1] * 9), ("prompt", [1] * 6 + [0] * 3), ("generated", [0] * 6 + [1] * 3), ((0, 8), [1] + [0] * 7 + [1])],
)
def test_at_is_only_a_row_of_the_plan(at, expected):
    plan = fold(LOADED["llama"].anatomy, [Row((HeadScale(layer=0, head=0, by=0, at=at),), PROMPT)], TOKENS)
    assert (plan.row_BT[0] > 0).int().tolist() == expected


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (HeadScale(layer=3, head=0, by=0), "3 layers"),
        (HeadScale(layer=0, head=4, by=0), "4 heads"),
        (HeadSet(layer=0, head=99_999, to=1), "4 heads"),
        (HeadScale(layer=0, head=0, by=0, at=(9,)), "9 tokens"),
        (FfnScale(layer=3, unit=0, by=0), "3 layers"),
        (FfnSet(layer=0, unit=9_999, to=1), "units, counted from 0"),
        (ResidualAdd(layer=3, vector=VECTOR, by=1), "3 layers"),
        (ResidualAdd(layer=0, vector=VECTOR, by=1), "has 4 numbers"),
        (FfnOutSet(layer=3, to=0), "3 layers"),
        (FfnOutSet(layer=0, to=VECTOR), "has 4 numbers"),
        (ResidualSet(layer=0, to=VECTOR), "has 4 numbers"),
        (HeadSet(layer=0, head=0, to=VECTOR), "has 4 numbers"),
        (Steer(steer=VECTOR, by=1), "has 4 numbers"),
    ],
)
def test_an_edit_beyond_the_model_is_refused_with_both_numbers(edit, words):
    with pytest.raises(errors.CannotShow, match=words) as refused:
        check_edits(LOADED["llama"].anatomy, [edit], TOKENS, Made())
    assert refused.value.needed is not None
    assert refused.value.available is not None
    assert refused.value.instead


def test_an_edit_of_a_layer_without_attention_is_refused_in_words():
    from tests import families

    with pytest.raises(errors.CannotShow, match="no map"):
        check_edits(families.loaded("lfm2").anatomy, [HeadScale(layer=0, head=0, by=0)], TOKENS)


def test_tables_live_where_their_layer_lives():
    plan = fold(LOADED["llama"].anatomy, [Row((HeadScale(layer=1, head=2, by=0.5),), PROMPT)], TOKENS)
    assert plan.tables["heads.1"].scale_RN.device == LOADED["llama"].anatomy.projections[1].weight.device
    assert plan.row_BT.dtype == torch.int64


def test_strengths_that_would_overflow_together_are_refused_in_words():
    edits = (HeadScale(layer=1, head=2, by=1e6),) * 8
    with pytest.raises(errors.CannotShow, match="too strong") as refused:
        fold(LOADED["llama"].anatomy, [Row(edits, PROMPT)], TOKENS)
    assert refused.value.needed > refused.value.available
    assert fold(LOADED["llama"].anatomy, [Row(edits[:1], PROMPT)], TOKENS) is not None


def test_an_edit_that_acts_on_no_token_is_said():
    nowhere = HeadScale(layer=1, head=2, by=0, at="generated")
    assert idle([nowhere], TOKENS, TOKENS)[0].startswith("The edit of head 1.2 acts on no token")
    assert idle([nowhere], TOKENS, PROMPT) == ()
