"""What LM-Steer is promised to be, in every family whose output embedding is steered."""

import pytest
import torch
from torch import Tensor, nn

from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.plan import Row, fold
from backend.models.vectors import Direction, SteerMatrix
from backend.schema import Edit, Steer
from tests import families
from tests.questions import TOKENS, some_ids

STEERED = tuple(kind for kind in families.OPENED if not families.FAMILIES[kind].steer)
each_steered = pytest.mark.parametrize("kind", STEERED)
ONE, TWO, BOTH = "1" * 64, "2" * 64, "3" * 64
STRENGTHS = {ONE: 0.8, TWO: -1.7}


class TwoAndTheirSum:
    """Steers of rank 2 and 3, and 0.8 of the first plus −1.7 of the second as one full matrix."""

    def __init__(self, loaded: Loaded) -> None:
        dice, width = torch.Generator().manual_seed(3), loaded.anatomy.unembedding.weight.shape[1]
        self.matrices = {
            id: SteerMatrix(torch.randn(width, rank, generator=dice), torch.randn(rank, width, generator=dice) / width)
            for id, rank in ((ONE, 2), (TWO, 3))
        }
        self.matrices[BOTH] = SteerMatrix(self.merged(), torch.eye(width))

    def merged(self) -> Tensor:
        return sum(by * self.matrices[id].left_DK @ self.matrices[id].right_KD for id, by in STRENGTHS.items())

    def direction(self, id: str) -> Direction:
        raise KeyError(id)

    def steer(self, id: str) -> SteerMatrix:
        return self.matrices[id]


def steered(loaded: Loaded, *edits: Edit, **options) -> Tensor:
    plan = fold(loaded.anatomy, [Row(edits, TOKENS - 4)], TOKENS, TwoAndTheirSum(loaded))
    return forward.run(loaded, [some_ids(loaded)], plan, logits=True, **options)[0]


TOGETHER = tuple(Steer(steer=id, by=by) for id, by in STRENGTHS.items())


@each_steered
def test_at_zero_the_logits_are_bit_identical(kind):
    loaded = families.opened(kind)
    assert torch.equal(steered(loaded, Steer(steer=ONE, by=0), Steer(steer=TWO, by=0.0)), steered(loaded))


@each_steered
def test_logits_before_any_cap_are_linear_in_the_strength(kind):
    loaded = families.opened(kind)
    cap = getattr(loaded.model.config, "final_logit_softcapping", None)
    found = torch.stack([steered(loaded, Steer(steer=ONE, by=by)) for by in (0, 0.5, 1.0)]).double()
    bent = torch.zeros_like(found[0], dtype=torch.bool)
    if cap is not None:  # near the cap nothing can be told apart any more
        bent, found = (found.abs() > 0.9 * cap).any(0), cap * torch.atanh(found / cap)
    move, twice = ((under - found[0])[~bent] for under in found[1:])
    assert float(move.abs().max()) > 1e-3
    torch.testing.assert_close(twice, 2 * move, rtol=1e-3, atol=2e-4)


@each_steered
def test_two_steers_together_equal_the_merged_one(kind):
    loaded = families.opened(kind)
    torch.testing.assert_close(
        steered(loaded, *TOGETHER), steered(loaded, Steer(steer=BOTH, by=1)), rtol=1e-4, atol=1e-4
    )


@each_steered
def test_it_equals_moving_every_output_embedding_and_keeps_the_bias(kind):
    """e becomes e + Σ a W e in an untouched model; its own bias, multipliers and caps come after."""
    loaded = families.opened(kind)
    edited = families.without_taps(kind)
    unembedding = edited.get_output_embeddings()
    if unembedding.bias is not None:  # random, for a bias of 0 proves nothing; the open model gets the same
        bias_V = torch.randn(len(unembedding.bias), generator=torch.Generator().manual_seed(5))
        loaded = families.loaded(kind)
        for one in (unembedding, loaded.anatomy.unembedding):
            one.bias.data.copy_(bias_V)
    table_VD = unembedding.weight.detach()
    unembedding.weight = nn.Parameter(table_VD + table_VD @ TwoAndTheirSum(loaded).merged().T)
    with torch.inference_mode():
        expected = edited(input_ids=torch.tensor([some_ids(loaded)]), use_cache=False).logits[0]
    torch.testing.assert_close(steered(loaded, *TOGETHER), expected, rtol=1e-4, atol=1e-4)


@each_steered
def test_rows_with_strengths_of_their_own_equal_solo_runs(kind):
    loaded = families.opened(kind)
    settings = [(), TOGETHER, (Steer(steer=ONE, by=-2),), (Steer(steer=TWO, by=0.3, at=(4, 7)), TOGETHER[0])]
    rows = [Row(edits, TOKENS - 4) for edits in settings]
    plan = fold(loaded.anatomy, rows, TOKENS, TwoAndTheirSum(loaded))
    together = forward.run(loaded, [some_ids(loaded)] * len(rows), plan, logits=True)
    for found, edits in zip(together, settings, strict=True):
        torch.testing.assert_close(found, steered(loaded, *edits), rtol=1e-4, atol=1e-4)


@each_steered
def test_weights_and_maps_are_bit_identical_under_a_steer(kind):
    """Tied embeddings stay what they were, and the text is read with the same attention in every layer."""
    loaded = families.opened(kind)
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    maps: list[list[Tensor]] = [[], []]
    for edits, seen in zip(((), TOGETHER), maps, strict=True):
        steered(loaded, *edits, see=lambda call, maps_BHTS, seen=seen: seen.append(maps_BHTS.clone()))
    assert len(maps[0]) == len(families.FAMILIES[kind].layers)
    assert all(torch.equal(plain, under) for plain, under in zip(*maps, strict=True))
    after = loaded.model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
