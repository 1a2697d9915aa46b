"""Layers are aligned by what they are in embedding space: a twin in another basis aligns to itself, and only there."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from backend import errors
from backend.measure.array import from_array
from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.vector_groups import reader_of, rows
from backend.schema import AlignmentAnswer, AlignmentAsk
from backend.studies import alignment
from tests import tiny
from tests.studies import twins
from tests.studies.direct import Direct, Reported, Shelves

ORDER = [2, 0, 3, 1]


@cache
def model(kind: str, twin: str = "") -> Loaded:
    made = twins.plain(kind)
    if twin:
        made = twins.rotated(made, kind)
    if twin == "reordered":
        made = twins.reordered(made, ORDER)
    return twins.opened(made, "bert" if kind == "encoder" else kind, f"{kind} {twin}".strip())


async def aligned(one: Loaded, other: Loaded, **options) -> AlignmentAnswer:
    ask = AlignmentAsk(model=one.name, other=other.name, **options)
    found = await alignment.study(Direct(one), ask, Shelves(one, other), Reported())
    return AlignmentAnswer.model_validate(found)


KINDS = ("llama", "gpt2", "encoder")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_twin_in_another_basis_aligns_to_the_identity_and_looks_random_unprojected(kind):
    one, twin = model(kind), model(kind, "rotated")
    ids = [[5, 9, 11, 7]]
    torch.testing.assert_close(
        *(forward.run(each, ids, logits=kind != "encoder").norm(dim=-1) for each in (one, twin)), rtol=1e-4, atol=1e-4
    )
    to_twin, to_itself = await aligned(one, twin), await aligned(one, one)
    assert to_twin.reading == ("raw" if kind == "encoder" else "folded")
    expected = {"q", "k", "v", "o", "vo", "qk", "value"} | ({"gate", "up"} if kind == "llama" else {"key"})
    assert {group.group for group in to_twin.groups} == expected
    gaps = []
    for group, own in zip(to_twin.groups, to_itself.groups, strict=True):
        assert group.projected.same == twins.LAYERS, group.group
        assert group.projected.order == pytest.approx(1)
        score_LM = from_array(group.projected.scores)
        torch.testing.assert_close(score_LM, from_array(own.projected.scores), atol=2e-5, rtol=0)
        assert group.control is not None
        gaps.append((gap(score_LM), gap(from_array(group.control.scores)), gap(from_array(own.control.scores))))
    projected, control, control_of_itself = torch.tensor(gaps).T
    assert bool((projected > 0.005).all())
    assert bool((control_of_itself > 0.005).all()), "in one basis the control sees it too"
    assert bool((control.abs() < 0.5 * projected).all()), "in another basis it sees nothing"


def gap(score_LM: Tensor) -> float:
    """How far layers of equal number stand out."""
    off = score_LM[~torch.eye(len(score_LM), dtype=torch.bool)]
    return float(score_LM.diagonal().mean() - off.mean())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_twin_with_its_layers_in_another_order_aligns_to_that_order(kind):
    answer = await aligned(model(kind), model(kind, "reordered"), score="best")
    for group in answer.groups:
        assert [(pair.layer, pair.other) for pair in group.projected.pairs] == [
            (layer, ORDER.index(layer)) for layer in range(twins.LAYERS)
        ], group.group
        assert group.projected.same == 0
        for pair in group.projected.pairs:
            assert pair.score == pytest.approx(1, abs=1e-3), "every vector has its like"


def scores_of(loaded: Loaded, part: str, layer: int, reading: str, ids: Tensor) -> Tensor:
    """float64 [P, N]: of every vector over every token, as the instruments of one model read them."""
    reader = reader_of(loaded, part, layer, reading)
    return reader.logits(rows(loaded, part, layer))[:, ids].double()


@pytest.mark.parametrize(("kind", "reading"), [("llama", "folded"), ("gpt2", "raw"), ("encoder", "raw")])
async def test_scores_are_those_of_explicit_correlations(kind, reading):
    one, other = model(kind), twins.opened(twins.plain(kind, seed=3), "bert" if kind == "encoder" else kind, "another")
    answer = await aligned(one, other, reading=reading)
    best = await aligned(one, other, reading=reading, score="best")
    every = torch.arange(answer.shared.tokens)
    assert answer.shared.tokens == len(one.tokenizer) == answer.shared.of
    for group, by_best in zip(answer.groups, best.groups, strict=True):
        if group.group in ("vo", "qk"):
            continue
        one_PN, other_QN = (scores_of(each, group.group, at, reading, every) for each, at in ((one, 1), (other, 2)))
        size_PQ = np.abs(np.corrcoef(one_PN, other_QN)[: len(one_PN), len(one_PN) :])
        assert float(from_array(group.projected.scores)[1, 2]) == pytest.approx(size_PQ.mean(), abs=1e-5), group.group
        expected = (size_PQ.max(0).mean() + size_PQ.max(1).mean()) / 2
        assert float(from_array(by_best.projected.scores)[1, 2]) == pytest.approx(expected, abs=1e-5)
        own_PD, own_QD = rows(one, group.group, 1), rows(other, group.group, 2)
        plain_PQ = np.abs(np.corrcoef(own_PD, own_QD)[: len(own_PD), len(own_PD) :])
        assert group.control is not None
        assert float(from_array(group.control.scores)[1, 2]) == pytest.approx(plain_PQ.mean(), abs=1e-5)


@pytest.mark.parametrize("group", ["vo", "qk"])
async def test_whole_heads_are_compared_by_their_tables_of_all_pairs_of_tokens(group):
    from backend.models.circuits import table

    one, other = model("llama"), model("llama", "reordered")
    answer = await aligned(one, other, groups=(group,))
    tables = [
        np.stack([_whole(table(each, group, at, head, "folded")) for head in range(4)])
        for each, at in ((one, 1), (other, 2))
    ]
    size_HG = np.abs(np.corrcoef(*tables)[:4, 4:])
    assert answer.groups[0].vectors == 4
    assert float(from_array(answer.groups[0].projected.scores)[1, 2]) == pytest.approx(size_HG.mean(), abs=1e-5)


def _whole(made) -> np.ndarray:
    return (made.rows.vectors() @ made.columns.vectors().T).double().flatten().numpy()


async def test_models_of_other_depth_and_width_are_compared_without_a_control():
    one, other = (
        model("llama"),
        twins.opened(twins.plain("llama", num_hidden_layers=2, hidden_size=24), "llama", "small"),
    )
    answer = await aligned(one, other, groups=("o", "gate"))
    for group in answer.groups:
        assert group.projected.scores.dims == (4, 2)
        assert len(group.projected.pairs) == 2
        assert group.projected.order is None
        assert group.projected.same_by_chance == 0.5
        assert group.control is None
    assert "24" in answer.control_why


async def test_partial_answers_have_gaps_and_the_last_has_none(monkeypatch):
    monkeypatch.setattr(alignment, "PUBLISH_S", 0.0)
    monkeypatch.setattr(alignment, "PRODUCTS_AT_ONCE", {"cpu": 0.0})
    told, one = Reported(), model("gpt2")
    ask = AlignmentAsk(model=one.name, other=one.name, groups=("value",))
    await alignment.study(Direct(one), ask, Shelves(one), told)
    gaps = [int(from_array(AlignmentAnswer(**each).groups[0].projected.scores).isnan().sum()) for each in told.partials]
    assert gaps == list(range(15, -1, -1))
    assert not AlignmentAnswer(**told.partials[0]).groups[0].projected.pairs


async def test_other_vocabularies_are_refused_with_the_share_or_mapped_by_string_when_asked():
    one, other = model("llama"), model("gpt2")
    with pytest.raises(errors.CannotShow, match="different vocabularies") as refused:
        await aligned(one, other)
    names = [set(each.tokenizer.get_vocab()) for each in (one, other)]
    both = len(names[0] & names[1])
    assert f"{both:,} tokens" in refused.value.why
    assert f"{both / len(names[0]):.1%}" in refused.value.why
    assert f"{both / len(names[1]):.1%}" in refused.value.why
    assert "by_string" in refused.value.instead
    answer = await aligned(one, other, by_string=True, groups=("value",))
    assert answer.shared.by_string
    assert (answer.shared.tokens, answer.shared.of, answer.shared.other_of) == (both, len(names[0]), len(names[1]))


async def test_what_a_model_lacks_is_said_and_what_neither_has_is_refused():
    one, other = model("llama"), model("gpt2")
    answer = await aligned(one, other, by_string=True, groups=("key", "gate", "value"))
    assert [group.group for group in answer.groups] == ["value"]
    assert "gated" in answer.why["key"]
    assert "not gated" in answer.why["gate"]
    with pytest.raises(errors.CannotShow, match="cannot be compared"):
        await aligned(one, other, by_string=True, groups=("key",))


async def test_a_model_without_a_read_out_says_that_its_input_embedding_reads_what_it_writes():
    encoder = model("encoder")
    answer = await aligned(encoder, encoder, groups=("value",))
    assert any("no read-out" in notice for notice in answer.notices)
    with pytest.raises(errors.CannotShow, match="no read-out"):
        await aligned(encoder, encoder, groups=("value",), reading="folded")


async def test_too_few_shared_tokens_are_refused(monkeypatch):
    monkeypatch.setattr("backend.studies.two_models.FEW", 2.0)
    with pytest.raises(errors.CannotShow, match="share too few tokens"):
        await aligned(model("llama"), model("gpt2"), by_string=True)
    with pytest.raises(errors.CannotShow, match="would be needed") as refused:
        await aligned(model("llama"), model("gpt2"))
    assert "by_string" not in refused.value.instead, "mapping them would be refused, too"


def test_a_tiny_bert_with_a_two_layer_read_out_is_read_raw():
    found = alignment.begun(
        AlignmentAsk(model="tiny-bert", other="tiny-bert"), *[alignment_side(tiny.loaded("bert")) for _ in range(2)]
    )
    assert found.reading == "raw"
    assert "folded" in found.notices[0]


def alignment_side(loaded: Loaded):
    from backend.studies.two_models import side_of

    return side_of(loaded, lambda: None)
