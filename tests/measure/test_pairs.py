"""The streamed top pairs are those of the whole product, under every filter, sign, block size and tie."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.measure.pairs import top_pairs


def dense(a, b, top, rows=None, columns=None, group=None, lowest=False):
    """By the definition, in float64: sorted by score, then row, then column."""
    table = a.double() @ b.double().T
    rows = range(len(a)) if rows is None else rows.tolist()
    columns = range(len(b)) if columns is None else columns.tolist()
    pairs = [
        (float(table[r, c]) * (1 if lowest else -1), r, c)
        for r in rows for c in columns if group is None or group[r] != group[c]
    ]  # fmt: skip
    return [(r, c) for _, r, c in sorted(pairs)][:top], len(pairs)


def found(pairs):
    return list(zip(pairs.row_N.tolist(), pairs.column_N.tolist(), strict=True))


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_streamed_pairs_are_those_of_the_whole_product(data):
    """Whole numbers: every sum is exact, so that ties are ties."""
    seed, size = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 40))
    dice = torch.Generator().manual_seed(seed)
    most = data.draw(st.sampled_from([1, 2, 30]))
    a, b = (torch.randint(-most, most + 1, (size, 5), generator=dice).float() for _ in range(2))
    if data.draw(st.booleans()):
        a[torch.rand(size, generator=dice) < 0.6] = 0
    chosen = [torch.randperm(size, generator=dice)[: data.draw(st.integers(1, size))] for _ in range(2)]
    rows, columns = (one.sort().values if data.draw(st.booleans()) else None for one in chosen)
    group = data.draw(st.sampled_from([None, torch.arange(size), torch.randint(0, 4, (size,), generator=dice)]))
    lowest, top = data.draw(st.booleans()), data.draw(st.integers(1, 60))
    tile = data.draw(st.sampled_from([(1, 1), (3, 7), (8, 4), (64, 64)]))
    answer = top_pairs(a, b, top, rows=rows, columns=columns, group_V=group, lowest=lowest, tile=tile)
    expected, allowed = dense(a, b, top, rows, columns, group, lowest)
    assert found(answer) == expected
    assert answer.allowed == allowed
    table = a.double() @ b.double().T
    assert answer.score_N.tolist() == [float(table[r, c]) for r, c in expected]


@pytest.mark.parametrize("lowest", [False, True])
@pytest.mark.parametrize("tile", [(512, 2048), (7, 130), (100, 3)])
def test_real_numbers_are_ranked_by_their_scores_in_float64_whatever_the_blocks(tile, lowest):
    dice = torch.Generator().manual_seed(3)
    a, b = (torch.randn(400, 16, generator=dice) * torch.rand(400, 1, generator=dice) for _ in range(2))
    answer = top_pairs(a, b, 50, lowest=lowest, tile=tile)
    table = a.double() @ b.double().T
    order = table.flatten().argsort(descending=not lowest)[:50]
    assert [r * 400 + c for r, c in found(answer)] == order.tolist()
    torch.testing.assert_close(answer.score_N, table.flatten()[order], rtol=1e-12, atol=0)


def test_blocks_in_which_no_pair_can_be_found_are_not_made():
    dice = torch.Generator().manual_seed(4)
    a, b = (torch.randn(3000, 8, generator=dice) for _ in range(2))
    a[5:] *= 1e-3
    answer = top_pairs(a, b, 5, tile=(64, 64))
    assert answer.made < 0.05
    assert found(answer) == dense(a[:5], b, 5)[0]


def test_pairs_that_differ_by_less_than_float32_can_tell_are_told_apart():
    a = torch.zeros(300, 2)
    a[:, 0], a[:, 1] = 1e4, torch.arange(300) * 1e-4  # the second number is lost in a float32 sum
    b = torch.ones(4, 2)
    answer = top_pairs(a, torch.cat([b, b.new_zeros(296, 2)]), 3, tile=(64, 64))
    assert answer.row_N.tolist() == [299, 299, 299]


def test_a_search_asks_between_blocks_whether_anybody_waits():
    asked = []
    top_pairs(torch.ones(9, 2), torch.ones(9, 2), 3, tile=(3, 3), cancel=lambda: asked.append(1))
    assert len(asked) == 9


@pytest.mark.gpu
def test_a_gpu_finds_what_the_processor_finds():
    dice = torch.Generator().manual_seed(5)
    a, b = (torch.randn(5000, 64, generator=dice) for _ in range(2))
    group = torch.arange(5000) // 2
    for lowest in (False, True):
        here = top_pairs(a, b, 50, group_V=group, lowest=lowest)
        there = top_pairs(a.cuda(), b.cuda(), 50, group_V=group, lowest=lowest)
        assert found(here) == found(there)


def test_every_column_is_searched_where_there_are_more_of_them_than_rows():
    a, b = torch.ones(3, 1), torch.tensor([[1.0], [2.0], [3.0], [9.0]])
    assert found(top_pairs(a, b, 2)) == [(0, 3), (1, 3)]
    assert found(top_pairs(b, a, 2)) == [(3, 0), (3, 1)]
