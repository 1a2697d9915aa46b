"""On a CUDA device the fused kernel runs, and every number is the one that the processor gives."""

import numpy as np
import pytest
import torch

from backend.models import attention, cell, contributions, forward, kernel, opening, steer, steer_evidence, steer_inside
from backend.models.loaded import Loaded
from backend.schema import (
    CellAsk,
    ContributionsAsk,
    EvidenceAsk,
    Explain,
    HeadAsk,
    HeadName,
    HeadsAsk,
    HeadScale,
    InsideAsk,
    Limits,
    OverviewAsk,
    Reading,
    ResidualAdd,
    Source,
    Steer,
    SteerAsk,
    View,
)
from tests import families, tiny
from tests.models.test_steer import ONE, TWO, UP, with_vectors

pytestmark = pytest.mark.gpu
KINDS = (*tiny.KINDS, "mistral", "qwen3", "gpt_neox", "opt", "roberta", "gpt_oss", "gemma2")
TEXT = "The quick brown fox jumps over the lazy dog, said the Queen. The cat sat on the mat; the dog barked at it."


def opened(kind: str, device: str = "cuda", dtype: torch.dtype = torch.float32) -> Loaded:
    tokenizer = tiny.tokenizer_of("bert" if kind == "roberta" else kind if kind in tiny.KINDS else "llama")
    make = tiny.model_of if kind in tiny.KINDS else families.model
    model = make(kind, len(tokenizer)).to(device, dtype)
    return opening.prepare(model, tokenizer, name="tiny", source=Source(kind="folder", name="tiny"))


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_fused_where_the_family_allows_and_every_promise_is_kept(kind):
    loaded = opened(kind)
    fused = type(loaded.model)._supports_sdpa
    assert loaded.conditions.kernel == kernel.SHOWN[kernel.FUSED if fused else kernel.EAGER]
    assert loaded.conditions.device.startswith("cuda")
    broken = [promise for promise in loaded.card.promises if promise.kept is False]
    assert broken == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reading", [Reading(), Reading(without_first=True, pool="mean"), Reading(definitions="clark")])
def test_answers_are_those_of_the_processor(kind, reading):
    asked = View(model="tiny", text=TEXT, edits=(HeadScale(layer=0, head=1, by=0),), compare=True, reading=reading)
    here, there = opened(kind), opened(kind, "cpu")
    for cells in (64, 8):
        one, other = (
            attention.overview(loaded, OverviewAsk(view=asked, cells=cells), Limits()) for loaded in (here, there)
        )
        for side in ("edited", "unedited"):
            apart = numbers(getattr(one, side).maps).astype(int) - numbers(getattr(other, side).maps)
            assert np.abs(apart).max() <= 1
            for mine, theirs in zip(getattr(one, side).statistics, getattr(other, side).statistics, strict=True):
                np.testing.assert_allclose(numbers(mine.value), numbers(theirs.value), rtol=1e-3, atol=1e-4)
                np.testing.assert_allclose(numbers(mine.uniform), numbers(theirs.uniform), rtol=1e-5)
                np.testing.assert_array_equal(numbers(mine.rows), numbers(theirs.rows))
    heads = (HeadName(layer=1, head=2), HeadName(layer=0, head=0))
    ask = HeadAsk(view=asked, heads=heads, token=4)
    one, other = (attention.head(loaded, ask, Limits()) for loaded in (here, there))
    np.testing.assert_allclose(numbers(one.edited.map), numbers(other.edited.map), atol=1e-4)
    np.testing.assert_allclose(numbers(one.difference.map), numbers(other.difference.map), atol=1e-4)
    np.testing.assert_array_equal(numbers(one.visible), numbers(other.visible))
    assert attention.heads(here, HeadsAsk(view=asked), Limits()).edited[0].name == "entropy"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_maps_are_float32_and_asking_changes_nothing(kind, dtype):
    loaded = opened(kind, dtype=dtype)
    ids = torch.arange(20, 60)[None] % loaded.anatomy.shape.vocabulary
    maps = []
    asked = forward.run(loaded, ids, see=lambda call, maps_BHTS: maps.append(maps_BHTS))
    assert torch.equal(asked, forward.run(loaded, ids))
    assert asked.dtype == dtype
    for each in maps:
        assert each.dtype == torch.float32
        if not loaded.anatomy.sinks:
            torch.testing.assert_close(each.sum(-1), torch.ones_like(each[..., 0]), rtol=0, atol=1e-5)
        if loaded.anatomy.shape.causal:
            assert float(each.triu(1).abs().max()) == 0
    assert [promise.name for promise in loaded.card.promises if promise.kept is False] == []


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "olmo", "olmo2", "gpt_neox", "granite", "mixtral"])
def test_contributions_and_cells_are_those_of_the_processor(kind):
    edits = (HeadScale(layer=0, head=1, by=-2),)
    view = View(model="tiny", text=TEXT, edits=edits, compare=True)
    here, there = (opened_family(kind, device) for device in ("cuda", "cpu"))
    for against in ("foil", "rest"):
        ask = ContributionsAsk(view=view, explain=Explain(token=7, target=7, foil=11, against=against))
        one, other = (contributions.contributions(loaded, ask, Limits()) for loaded in (here, there))
        assert one.edited.sum_error < 1e-3
        for name in ("attention", "feed_forward", "heads"):
            mine, theirs = (numbers(getattr(answer.edited, name)) for answer in (one, other))
            np.testing.assert_allclose(mine, theirs, atol=1e-3)
    if kind != "mixtral":
        one, other = (cell.cell(loaded, CellAsk(view=view, layer=1, token=7), Limits()) for loaded in (here, there))
        assert [value.unit for value in one.edited.values[:3]] == [value.unit for value in other.edited.values[:3]]
        np.testing.assert_allclose(
            numbers(one.edited.before.probability), numbers(other.edited.before.probability), rtol=1e-2, atol=1e-4
        )


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "mixtral"])
def test_sliders_evidence_and_the_inside_of_a_steer_are_those_of_the_processor(kind):
    edits = (ResidualAdd(layer=0, vector=UP, by=1), Steer(steer=ONE, by=0.8), Steer(steer=TWO, by=-1.7, at=(3, 7)))
    view = View(model="tiny", text=TEXT, edits=edits)
    here, there = (with_vectors(opened_family(kind, device)) for device in ("cuda", "cpu"))
    one, other = (steer.steer(at, SteerAsk(view=view, token=7, over="text"), Limits()) for at in (here, there))
    assert (one.kl, one.kl_text) == pytest.approx((other.kl, other.kl_text), rel=1e-2, abs=1e-6)
    theirs = {shift.id: shift for shift in other.likely}
    for shift in one.likely[:5]:
        assert shift.shares == pytest.approx(theirs[shift.id].shares, rel=1e-2, abs=1e-3)
    one, other = (steer_evidence.evidence(at, EvidenceAsk(view=view), Limits()) for at in (here, there))
    np.testing.assert_allclose(numbers(one.evidence)[1:], numbers(other.evidence)[1:], rtol=1e-2, atol=1e-3)
    one, other = (steer_inside.inside(at, InsideAsk(model="tiny", steer=ONE, top=3), Limits()) for at in (here, there))
    assert [each.writes.highest[0] for each in one.dimensions] == [each.writes.highest[0] for each in other.dimensions]


def opened_family(kind: str, device: str) -> Loaded:
    model = families.model(kind).to(device)
    return opening.prepare(model, families.tokenizer(kind), name="tiny", source=Source(kind="folder", name="tiny"))
