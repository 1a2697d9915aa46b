"""Layers that are reduced together give what each gives alone, in their order."""

import pytest
import torch

from backend.measure import fused, pile
from backend.measure.attention import Reducer, Whole, by_layer
from backend.measure.fused import Scores
from backend.measure.pile import Pile
from backend.measure.seen import Marks
from backend.schema.view import Reading
from tests.measure.test_fused import by_hand

HEADS, TOKENS, WIDTH = 4, 12, 8


class Known(Whole):
    """Maps that are known to be a softmax of scores."""

    def __init__(self, seed: int, groups: int = 2, cap: float = 0.0) -> None:
        made = torch.Generator().manual_seed(seed)
        query = torch.randn(HEADS, TOKENS, WIDTH, generator=made)
        object.__setattr__(self, "known", Scores(query, torch.randn(groups, TOKENS, WIDTH, generator=made), 0.3, cap))

    @property
    def heads(self) -> int:
        return HEADS

    @property
    def scores(self) -> Scores:
        return self.known  # type: ignore[attr-defined]


@pytest.fixture
def reducer(monkeypatch: pytest.MonkeyPatch) -> Reducer:
    monkeypatch.setattr(fused, "fits", lambda *_: True)
    monkeypatch.setattr(fused, "reduce", by_hand)
    return Reducer(TOKENS, Marks(*torch.ones(3, TOKENS, dtype=torch.bool)), Reading(), 4)


def masks() -> tuple[torch.Tensor, torch.Tensor]:
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    return causal, causal & ~causal.tril(-4)


@pytest.mark.parametrize("room", [0, 100])
def test_layers_reduced_together_are_what_each_is_alone(
    reducer: Reducer, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    causal, window = masks()
    dice = torch.Generator().manual_seed(1)
    made_TS = torch.rand(HEADS, TOKENS, TOKENS, generator=dice).masked_fill(~causal, -torch.inf).softmax(-1)
    layers = [
        (Known(0), causal), (Known(1), causal), (Known(2, groups=4), causal), (Known(3), causal), (Known(4), window),
        (Whole(made_TS), causal.clone()), (Known(5, cap=2.0), causal), (Known(6), causal),
        (Known(7), causal), (Known(8), None), (Known(9), None),
    ]  # fmt: skip
    alone = [reducer.reduce(maps, mask, lasting=True) for maps, mask in layers]
    monkeypatch.setattr(pile, "PILE_BYTES", room * (HEADS + 2) * TOKENS * WIDTH * 4)
    waiting, found, starts = Pile(reducer), [], []
    monkeypatch.setattr(fused, "reduce", lambda *given, **named: starts.append(1) or by_hand(*given, **named))
    for maps, mask in layers:
        found += waiting.add(maps, mask)
    found += waiting.rest()
    assert waiting.rest() == []
    torch.testing.assert_close(
        by_layer([each.cells_HQK for each in found], 3), torch.stack([a.cells_HQK for a in alone])
    )
    means = reducer.means(found)
    for name in means[0]:
        one = torch.cat([part[name].value_H for part in means])
        other = torch.cat([part[name].value_H for part in reducer.means(alone)])
        torch.testing.assert_close(one, other, equal_nan=True)
    assert len(starts) == {0: 10, 100: 7}[room]
