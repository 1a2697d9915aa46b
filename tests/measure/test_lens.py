"""A lens read block by block is what the whole distribution says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import Cancelled
from backend.measure.lens import read_states


def rows(states_ND, first):
    return states_ND


@given(seed=st.integers(0, 10**6), states=st.integers(1, 9), vocabulary=st.integers(1, 40), top=st.integers(1, 8),
       rows_at_once=st.integers(1, 9))  # fmt: skip
def test_every_block_size_gives_what_the_whole_distribution_gives(seed, states, vocabulary, top, rows_at_once):
    dice = torch.Generator().manual_seed(seed)
    logits = torch.randn(states, vocabulary, generator=dice) * 4
    tracked = torch.randint(vocabulary, (states, 2), generator=dice)
    followed = tracked[:, 0]
    lens = read_states(logits, rows, tracked, top=top, vocabulary=vocabulary, followed_N=followed,
                       block_bytes=4 * vocabulary * rows_at_once)  # fmt: skip
    p = logits.double().softmax(-1)
    order = logits.argsort(dim=-1, descending=True, stable=True)
    shown = min(top, vocabulary)
    assert torch.equal(lens.ids_NK, order[:, :shown])
    torch.testing.assert_close(lens.probability_NK.double(), p.gather(-1, order[:, :shown]), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(lens.entropy_N.double(), torch.special.entr(p).sum(-1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lens.tracked_probability_NW.double(), p.gather(-1, tracked), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(lens.followed_probability_N, lens.tracked_probability_NW[:, 0])
    places = order.argsort(-1)
    assert torch.equal(lens.rank_NW, places.gather(-1, tracked))


def test_many_unlikely_tokens_of_a_large_vocabulary_are_counted():
    logits = torch.randn(4, 49_152, generator=torch.Generator().manual_seed(0)) * 4 + 20
    logits[:, 100] = logits.logsumexp(-1) + 1
    lens = read_states(logits, rows, torch.full((4, 1), 3), top=3, vocabulary=49_152)
    p = logits.double().softmax(-1)
    torch.testing.assert_close(lens.probability_NK.double(), p.gather(-1, lens.ids_NK), rtol=4e-6, atol=0)
    torch.testing.assert_close(lens.tracked_probability_NW[:, 0].double(), p[:, 3], rtol=4e-6, atol=0)
    torch.testing.assert_close(lens.entropy_N.double(), torch.special.entr(p).sum(-1), rtol=0, atol=2e-5)


def test_unless_it_is_said_which_the_likeliest_token_is_followed():
    lens = read_states(torch.tensor([[0.0, 2.0, 1.0]]), rows, torch.empty(1, 0, dtype=torch.int64), top=1, vocabulary=3)
    assert lens.followed_N.tolist() == [2.0]


def test_a_forbidden_token_adds_nothing_to_the_entropy():
    logits = torch.tensor([[0.0, 0.0, -torch.inf], [5.0, -torch.inf, -torch.inf]])
    lens = read_states(logits, rows, torch.empty(2, 0, dtype=torch.int64), top=3, vocabulary=3)
    torch.testing.assert_close(lens.entropy_N, torch.tensor([2.0, 1.0]).log(), atol=1e-6, rtol=0)
    assert lens.probability_NK[:, -1].tolist() == [0, 0]


def test_among_equal_tokens_the_lower_id_comes_first():
    lens = read_states(torch.zeros(1, 4), rows, torch.tensor([[2]]), top=4, vocabulary=4)
    assert lens.ids_NK.tolist() == [[0, 1, 2, 3]]
    assert lens.rank_NW.tolist() == [[2]]


def test_half_precision_logits_are_read_in_float32():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1)).half()
    lens = read_states(logits, rows, torch.empty(3, 0, dtype=torch.int64), top=1, vocabulary=50)
    assert lens.logit_NK.dtype == lens.entropy_N.dtype == torch.float32


def test_a_cancelled_lens_stops_at_the_next_block():
    blocks = []

    def read(states_ND, first):
        blocks.append(first)
        return states_ND

    def cancel():
        if blocks:
            raise Cancelled("Stopped", "you asked for it", "Ask again.")

    with pytest.raises(Cancelled):
        read_states(torch.zeros(9, 3), read, torch.empty(9, 0, dtype=torch.int64), top=1, vocabulary=3, block_bytes=12,
                    cancel=cancel)  # fmt: skip
    assert blocks == [0]
