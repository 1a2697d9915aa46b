"""What moved between two distributions, and a feed-forward block taken apart, in closed form."""

import pytest
import torch

from backend.measure.cell import SubUpdates, moved


def test_what_moved_most_comes_first_with_both_probabilities():
    p_V, q_V = torch.tensor([0.5, 0.3, 0.1, 0.1]), torch.tensor([0.1, 0.4, 0.12, 0.38])
    moves = moved(p_V.log() + 3, q_V.log(), 3)
    assert moves.ids_K.tolist() == [0, 3, 1]
    torch.testing.assert_close(moves.before_K, p_V[[0, 3, 1]])
    torch.testing.assert_close(moves.after_K, q_V[[0, 3, 1]])
    torch.testing.assert_close(moves.logit_before_K, p_V[[0, 3, 1]].log() + 3)
    torch.testing.assert_close(moves.logit_after_K, q_V[[0, 3, 1]].log())


def test_of_equal_moves_the_lower_id_comes_first_and_a_forbidden_token_is_left_out():
    before_V, after_V = torch.zeros(6), torch.zeros(6)
    before_V[5] = after_V[5] = -torch.inf
    moves = moved(before_V, after_V, 9)
    assert moves.ids_K.tolist() == [0, 1, 2, 3, 4]
    assert not (moves.after_K - moves.before_K).any()


def test_the_sum_of_sub_updates_is_the_matrix_and_its_bias():
    coefficient_F, value_FD = torch.tensor([2.0, -1.0]), torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    updates = SubUpdates(coefficient_F, value_FD, torch.tensor([0.5, 0.5]))
    assert updates.total().tolist() == [5.5, 8.5]
    assert updates.magnitude().tolist() == [10.0, 1.0]
    assert SubUpdates(coefficient_F, value_FD, None).total().tolist() == [5.0, 8.0]


def test_the_error_of_the_sum_is_relative_to_what_was_given():
    updates = SubUpdates(torch.tensor([1.0]), torch.tensor([[3.0, 4.0]]), None)
    assert updates.sum_error(torch.tensor([3.0, 4.0])) == 0
    assert updates.sum_error(torch.tensor([3.0, 4.5])) == pytest.approx(0.5 / (9 + 4.5**2) ** 0.5)
    nothing = SubUpdates(torch.zeros(1), torch.ones(1, 2), None)
    assert nothing.sum_error(torch.zeros(2)) == 0
