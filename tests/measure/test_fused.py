"""Statistics straight from queries and keys are those of the maps."""

import numpy as np
import pytest
import torch
from torch import Tensor

from backend.measure import fused
from backend.measure.attention import Reducer, Whole
from backend.measure.fused import Scores
from backend.measure.pooling import edges, pool_map
from backend.measure.seen import Marks
from backend.schema import Reading

HEADS, GROUPS, WIDTH = 4, 2, 24


def weights_of(scores: Scores, mask_TS: Tensor) -> Tensor:
    """The whole maps, as one would write them down."""
    key_HSD = scores.key_GSD.float().repeat_interleave(len(scores.query_HTD) // len(scores.key_GSD), 0)
    products = scores.query_HTD.float() @ key_HSD.transpose(1, 2) * scores.scale
    if scores.cap:
        products = scores.cap * torch.tanh(products / scores.cap)
    return products.masked_fill(~mask_TS, -torch.inf).softmax(-1)


def by_hand(scores, sees_2T, marks_2S, cells, *, pool):
    """What the kernel promises, with whole maps."""
    tokens = scores.query_HTD.shape[1]
    keys_S = torch.arange(tokens, device=sees_2T.device)
    maps_HTS = weights_of(scores, (keys_S >= sees_2T[0, :, None]) & (keys_S < sees_2T[1, :, None]))
    borders = edges(tokens, cells)
    places = torch.arange(maps_HTS.shape[-1], device=maps_HTS.device)
    apart_TS = places[:, None] - places
    picked = {name: (apart_TS == step).float() for name, step in (("previous", 1), ("self", 0), ("next", -1))}
    rows = {name: (maps_HTS * pick).sum(-1) for name, pick in picked.items()}
    rows |= {
        "entropy": torch.special.entr(maps_HTS).sum(-1), "first": maps_HTS[..., 0], "sum": maps_HTS.sum(-1),
        "separators": maps_HTS @ marks_2S[0], "punctuation": maps_HTS @ marks_2S[1],
        "distance": (maps_HTS * apart_TS.abs()).sum(-1),
    }  # fmt: skip
    return {name: rows[name] for name in fused.NAMES}, pool_map(maps_HTS, borders, borders, pool)


def case(
    tokens: int, kind: str, cap: float = 0.0, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[Scores, Tensor, Marks]:
    dice = torch.Generator().manual_seed(tokens)
    query, key = (torch.randn(n, tokens, WIDTH, generator=dice).to(device, dtype) for n in (HEADS, GROUPS))
    mask = torch.ones(tokens, tokens, dtype=torch.bool)
    mask = mask if kind == "both ways" else mask.tril() & ~mask.tril(-9 if kind == "window" else -tokens)
    marks = Marks(*(torch.rand(tokens, generator=dice).lt(share).to(device) for share in (0.8, 0.2, 0.3)))
    return Scores(query, key, 0.3, cap), mask.to(device), marks


class FromScores:
    """Maps of which only the scores are told."""

    def __init__(self, scores: Scores) -> None:
        self.scores, self.heads = scores, HEADS

    def block(self, *_):
        raise AssertionError("no map is made")


@pytest.mark.parametrize("tokens", [5, 64, 100])
@pytest.mark.parametrize("kind", ["causal", "window", "both ways"])
@pytest.mark.parametrize(("cells", "pool"), [(16, "max"), (7, "mean"), (None, "max")])
def test_a_reducer_makes_the_same_of_scores_and_of_maps(monkeypatch, tokens, kind, cells, pool):
    monkeypatch.setattr(fused, "fits", lambda *_: True)
    monkeypatch.setattr(fused, "reduce", by_hand)
    check(*case(tokens, kind), cells, pool)


@pytest.mark.parametrize("reading", [Reading(without_first=True), Reading(definitions="clark")])
def test_a_reading_that_changes_the_weights_is_taken_from_maps(monkeypatch, reading):
    monkeypatch.setattr(fused, "fits", lambda *_: True)
    scores, mask_TS, marks = case(12, "causal")
    holed_TS = mask_TS.clone()
    holed_TS[8, 3] = False
    for reducer, mask, fuses in (
        (Reducer(12, marks, reading, 4), mask_TS, False),
        (Reducer(12, marks, Reading(), 4, sinks=True), mask_TS, False),
        (Reducer(12, marks, Reading(), 4), holed_TS, False),
        (Reducer(12, marks, Reading(), 4), mask_TS, True),
    ):
        assert reducer.may_fuse(scores, reducer.sees(mask)) is fuses


def check(scores: Scores, mask_TS: Tensor, marks: Marks, cells: int | None, pool: str) -> None:
    tokens = len(mask_TS)
    answers = []
    for maps in (FromScores(scores), Whole(weights_of(scores, mask_TS))):
        reducer = Reducer(tokens, marks, Reading(pool=pool), cells)
        layer = reducer.reduce(maps, mask_TS, lasting=True)
        answers.append((layer.cells_HQK, reducer.means([layer])[0]))
    (one, found), (other, expected) = answers
    if cells is not None:
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    for name in expected:
        np.testing.assert_allclose(found[name].value_H.cpu(), expected[name].value_H.cpu(), rtol=1e-4, atol=1e-5)
        assert torch.equal(found[name].rows_H, expected[name].rows_H)


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [5, 64, 500, 2048])
@pytest.mark.parametrize("kind", ["causal", "window", "both ways"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("cap", "pool"), [(0.0, "max"), (2.0, "mean")])
def test_the_kernel_sums_what_it_says(tokens, kind, dtype, cap, pool):
    scores, mask_TS, marks = case(tokens, kind, cap, dtype, "cuda")
    assert fused.fits(scores, min(32, tokens))
    check(scores, mask_TS, marks, 32, pool)
