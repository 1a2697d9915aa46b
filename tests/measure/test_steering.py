"""Two distributions against torch's own divergence and entropy, and forbidden tokens against the definition."""

import pytest
import torch

from backend.measure.steering import Sides, added


def logits(seed: int) -> torch.Tensor:
    return 3 * torch.randn(5, 97, generator=torch.Generator().manual_seed(seed))


def test_divergence_and_entropy_are_those_of_torch():
    base, steered = logits(1), logits(2)
    sides = Sides.of(base, steered)
    p, q = base.double().softmax(-1), steered.double().softmax(-1)
    expected = torch.nn.functional.kl_div(q.log(), p, reduction="none").sum(-1)
    torch.testing.assert_close(sides.divergence(), expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(sides.entropy(), torch.special.entr(torch.stack([p, q])).sum(-1), rtol=1e-10, atol=0)
    ids = torch.tensor([0, 5, 96, 7, 7])
    torch.testing.assert_close(sides.of_tokens(ids)[1], q.log()[range(5), ids], rtol=1e-10, atol=0)


def test_a_small_move_is_not_rounded_away():
    """KL of a move d is half its variance under p: here 1e-10 of it, which float32 would call 0 or less."""
    base = logits(3)[:1]
    move = 1e-4 * torch.randn(97, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    p = base[0].double().softmax(-1)
    variance = float((p * move**2).sum() - (p * move).sum() ** 2)
    assert float(Sides.of(base.double(), base.double() + move).divergence()) == pytest.approx(variance / 2, rel=1e-3)


def test_forbidden_tokens_add_nothing():
    base, steered = logits(1), logits(2)
    base[:, 4] = steered[:, 4] = -torch.inf
    rest = [place for place in range(97) if place != 4]
    one, other = Sides.of(base, steered), Sides.of(base[:, rest], steered[:, rest])
    torch.testing.assert_close(one.divergence(), other.divergence())
    torch.testing.assert_close(one.entropy(), other.entropy())
    assert 4 not in torch.cat(one.rose_and_fell(97)).tolist()


def test_what_rises_and_falls_comes_in_order_and_what_stays_does_not():
    p = torch.tensor([[0.4, 0.3, 0.1, 0.1, 0.1]])
    q = torch.tensor([[0.1, 0.3, 0.2, 0.2, 0.2]])
    rose, fell = Sides.of(p.double().log(), q.double().log()).rose_and_fell(5)
    assert fell.tolist() == [0]
    assert sorted(rose.tolist()) == [2, 3, 4]
    q = torch.tensor([[0.1, 0.2, 0.25, 0.2, 0.25]])
    rose, fell = Sides.of(p.double().log(), q.double().log()).rose_and_fell(1)
    assert (rose.tolist(), fell.tolist()) == ([2], [0]), "of equal ones the lower id"
    assert [ids.tolist() for ids in Sides.of(p, p).rose_and_fell(3)] == [[], []]


def test_what_a_steer_adds_is_c_w_e():
    dice = torch.Generator().manual_seed(0)
    c, left, right, e = (torch.randn(shape, generator=dice) for shape in ((6,), (6, 2), (2, 6), (9, 6)))
    torch.testing.assert_close(added(c, left, right, e), e @ (left @ right).T @ c)
