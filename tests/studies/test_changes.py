"""What changed between two models is found where it was planted, counted whole, and nothing where nothing changed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2ForSequenceClassification,
)

from backend import errors
from backend.models import opening
from backend.models.loaded import Loaded
from backend.models.vector_groups import reader_of, rows
from backend.schema import ChangesAnswer, ChangesAsk, Source
from backend.studies import changes
from backend.studies.changed import SAME, SAME_BUT
from tests import families, tiny
from tests.studies import twins
from tests.studies.direct import Direct, Reported, Shelves

LAYER, UNIT, TOKEN = 2, 7, 60


def pair(kind: str, change: Callable[[Any], None]) -> tuple[Loaded, Loaded]:
    """A model, and the same after a change."""
    one, other = twins.plain(kind), twins.plain(kind)
    with torch.no_grad():
        change(other)
    tokenizer = "bert" if kind == "encoder" else kind
    return twins.opened(one, tokenizer, "before"), twins.opened(other, tokenizer, "after")


async def changed(one: Loaded, other: Loaded, told: Reported | None = None, **options: Any) -> ChangesAnswer:
    ask = ChangesAsk(model=one.name, other=other.name, **options)
    found = await changes.study(Direct(one), ask, Shelves(one, other), told or Reported())
    return ChangesAnswer.model_validate(found)


def nothing(model: Any) -> None: ...


@pytest.mark.parametrize("kind", ["llama", "gpt2", "encoder"])
async def test_nothing_changed_between_a_model_and_itself_and_it_is_said(kind):
    one, other = pair(kind, nothing)
    for reading in ("raw", None):
        answer = await changed(one, other, reading=reading)
        assert answer.same
        assert not answer.vectors
        assert SAME in answer.notices
        assert all(size.norm == size.changed == 0 for size in answer.sizes)
        assert sum(size.numbers for size in answer.sizes) == one.anatomy.shape.parameters, "all are counted"


def value_of(kind: str, model: Any) -> torch.Tensor:
    """The value vector of the unit, as it lies in the model."""
    if kind == "llama":
        return model.model.layers[LAYER].mlp.down_proj.weight[:, UNIT]
    if kind == "gpt2":
        return model.transformer.h[LAYER].mlp.c_proj.weight[UNIT]
    return model.encoder.layer[LAYER].output.dense.weight[:, UNIT]


@pytest.mark.parametrize(
    ("kind", "reading"), [("llama", "folded"), ("llama", "raw"), ("gpt2", "raw"), ("encoder", "raw")]
)
async def test_one_value_moved_along_a_token_is_found_with_that_word_first(kind, reading):
    def plant(model: Any) -> None:
        read_out = model.get_output_embeddings() or model.get_input_embeddings()
        direction = read_out.weight[TOKEN].clone()
        if reading == "folded":
            direction *= model.model.norm.weight
        value_of(kind, model).add_(0.5 * direction / direction.norm())

    one, other = pair(kind, plant)
    for by in ("norm", "relative", "moved"):
        answer = await changed(one, other, reading=reading, by=by)
        assert not answer.same
        (found,) = answer.vectors
        assert (found.layer, found.group, found.index, found.name) == (LAYER, "value", UNIT, f"L{LAYER}U{UNIT}")
        assert found.ends.highest[0] == TOKEN
        assert str(TOKEN) in answer.words
        before = float(value_of(kind, one.model).norm())
        assert found.norm == pytest.approx(0.5, rel=1e-5)
        assert found.relative == pytest.approx(0.5 / before, rel=1e-5)
        apart_1D = rows(other, "value", LAYER)[[UNIT]] - rows(one, "value", LAYER)[[UNIT]]
        logits_V = reader_of(one, "value", LAYER, reading).logits(apart_1D)[0]
        assert found.moved == pytest.approx(float(logits_V.double().std(correction=0)), rel=1e-5)
        assert found.ends.highest_logit[0] == pytest.approx(float(logits_V.max()), rel=1e-6)
        assert found.ends.lowest[0] == int(logits_V.argmin())
        (size,) = [size for size in answer.sizes if size.changed]
        assert (size.layer, size.group, size.norm) == (LAYER, "value", pytest.approx(0.5, rel=1e-5))
        whole = float(rows(one, "value", LAYER).norm())
        assert size.relative == pytest.approx(0.5 / whole, rel=1e-5)


async def test_every_group_is_told_apart_and_the_largest_changes_come_first():
    def scatter(model: Any) -> None:
        block = model.transformer.h[1]
        block.attn.c_attn.weight[:, 32 + 2 * 8 + 3] += 1.0  # W_K, head 2, coordinate 3
        block.attn.c_attn.weight[:, 64] += 2.0  # W_V, head 0
        block.attn.c_proj.weight[9] += 1.0  # W_O, head 1, coordinate 1
        block.mlp.c_fc.weight[:, 4] += 1.0
        block.mlp.c_proj.bias += 0.1
        block.ln_1.weight[0] += 1.0
        model.transformer.wpe.weight[3] += 1.0
        model.transformer.wte.weight[TOKEN] += 1.0
        model.transformer.wte.weight[TOKEN + 1] += 3.0

    one, other = pair("gpt2", scatter)
    answer = await changed(one, other, reading="raw")
    told = {(each.group, each.layer, each.head, each.index) for each in answer.vectors}
    assert told == {
        ("k", 1, 2, 3), ("v", 1, 0, 0), ("o", 1, 1, 1), ("key", 1, None, 4), ("bias", 1, None, 1),
        ("embedding", None, None, TOKEN), ("embedding", None, None, TOKEN + 1),
    }  # fmt: skip
    assert [each.index for each in answer.vectors if each.group == "embedding"] == [TOKEN + 1, TOKEN]
    norms = {(size.layer, size.group): (size.norm, size.changed) for size in answer.sizes if size.changed}
    root = 32**0.5
    assert norms == {
        (1, "k"): (pytest.approx(root, rel=1e-5), 32), (1, "v"): (pytest.approx(2 * root, rel=1e-5), 32),
        (1, "o"): (pytest.approx(root, rel=1e-5), 32), (1, "key"): (pytest.approx(root, rel=1e-5), 32),
        (1, "bias"): (pytest.approx(0.1 * root, rel=1e-4), 32), (1, "norm"): (pytest.approx(1), 1),
        (None, "position"): (pytest.approx(root, rel=1e-5), 32),
        (None, "embedding"): (pytest.approx(root * 10**0.5, rel=1e-5), 64),
    }  # fmt: skip
    names = {each.group: each.name for each in answer.vectors}
    assert names["k"] == "1.2 k 3"
    assert names["bias"] == "L1 feed-forward bias"
    one_layer = await changed(one, other, reading="raw", layer=0)
    assert not one_layer.vectors
    assert {size.layer for size in one_layer.sizes if size.changed} == {1, None}


async def test_only_so_many_of_a_group_are_listed_and_partials_grow(monkeypatch):
    monkeypatch.setattr(changes, "PUBLISH_S", 0.0)

    def shift(model: Any) -> None:
        for layer, block in enumerate(model.model.layers):
            block.mlp.up_proj.weight += 0.1 * (layer + 1)

    told = Reported()
    answer = await changed(*pair("llama", shift), told, limit=3, reading="raw")
    assert [each.group for each in answer.vectors] == ["up"] * 3
    assert {each.layer for each in answer.vectors} == {3}, "the last layer changed most"
    counted = [len(ChangesAnswer(**partial).sizes) for partial in told.partials]
    assert counted == sorted(counted)
    assert counted[0] < counted[-1]


async def test_other_shapes_and_other_vocabularies_and_layers_that_are_none_are_refused():
    one, deep = pair("llama", nothing)[0], twins.opened(twins.plain("llama", num_hidden_layers=5), "llama", "deep")
    with pytest.raises(errors.CannotShow, match="cannot be subtracted") as refused:
        await changed(one, deep)
    assert "layers: 4 and 5" in refused.value.why
    with pytest.raises(errors.CannotShow, match="no layer 4"):
        await changed(one, one, layer=4)
    bert = twins.opened(twins.plain("encoder"), "bert", "bert")
    gpt2 = twins.opened(twins.plain("gpt2", n_inner=48), "gpt2", "gpt2")
    with pytest.raises(errors.CannotShow, match="different vocabularies"):
        await changed(bert, gpt2)


async def test_a_model_without_a_read_out_says_so():
    answer = await changed(*pair("encoder", lambda model: value_of("encoder", model).add_(1.0)))
    assert any("no read-out" in notice for notice in answer.notices)
    assert answer.reading == "raw"


@pytest.mark.parametrize("kind", ["falcon, grouped", "mixtral", "electra"])
async def test_no_number_of_an_odd_family_is_missed(kind):
    one, other = families.opened(kind), families.loaded(kind)  # one is shared with other tests
    answer = await changed(one, other)
    assert answer.same
    assert sum(size.numbers for size in answer.sizes) == one.anatomy.shape.parameters
    with torch.no_grad():
        for weight in other.model.parameters():
            weight += 0.01
    answer = await changed(one, other)
    assert all(size.changed == size.numbers for size in answer.sizes)
    if kind == "electra":
        assert "another map stands between" in answer.why["value"] + answer.why["q"]


def classified(
    kind: str,
    named: type,
    folder: Path,
    labels: Sequence[str] = ("bad", "good"),
    change: Callable[[Any], None] = nothing,
) -> tuple[Loaded, Any]:
    """A classifier read back from its folder, and as transformers made it: of one kind the same but for the change."""
    base = tiny.model_of(kind, len(tiny.tokenizer_of(kind)))
    torch.manual_seed(0)
    several = {"num_labels": len(labels), "id2label": dict(enumerate(labels))}
    config = base.config.__class__(**base.config.to_dict() | several)
    config.pad_token_id = 0
    model = named(config).eval()
    with torch.no_grad():
        change(model)
    model.save_pretrained(folder)
    tiny.tokenizer_of(kind).save_pretrained(folder)
    source = Source(kind="folder", name=folder.name)
    return opening.open_folder(folder, name=folder.name, source=source, digest=folder.name), model


CLASSES = {
    "bert": (BertForSequenceClassification, BertForTokenClassification), "gpt2": (GPT2ForSequenceClassification,),
}  # fmt: skip


PAIRS = [(kind, named) for kind, classes in CLASSES.items() for named in classes]


@pytest.mark.parametrize(("kind", "named"), PAIRS)
async def test_a_classifier_is_kept_beside_its_trunk_and_its_labels_are_read_as_words(kind, named, tmp_path):
    def plant(model: Any) -> None:
        last = model.score if kind == "gpt2" else model.classifier
        last.weight.copy_(model.get_input_embeddings().weight[[TOKEN, TOKEN + 1]])

    loaded, model = classified(kind, named, tmp_path / "mine", change=plant)
    assert loaded.classifier is not None
    assert loaded.classifier.labels == ("bad", "good")
    ids = [5, 9, 11]
    states_TD = loaded.anatomy.trunk(input_ids=torch.tensor([ids])).last_hidden_state[0]
    torch.testing.assert_close(
        loaded.classifier.logits(states_TD, ids), model(input_ids=torch.tensor([ids])).logits[0], atol=1e-5, rtol=1e-4
    )
    answer = await changed(loaded, loaded)
    assert [(each.side, each.label) for each in answer.classifier] == [
        (side, label) for side in ("model", "other") for label in ("bad", "good")
    ]
    through = named is BertForSequenceClassification
    if not through:
        assert [each.ends.highest[0] for each in answer.classifier[:2]] == [TOKEN, TOKEN + 1]
        assert answer.classifier[0].contrast.highest[0] == TOKEN
        assert answer.classifier[0].contrast.lowest[0] == TOKEN + 1
    assert any("another layer" in notice for notice in answer.notices) == through


def counted(model: Any, but: str = "nothing") -> int:
    """Parameters of a whole checkpoint, tied ones once."""
    return sum(weight.numel() for name, weight in model.named_parameters() if but not in name)


@pytest.mark.parametrize(("kind", "named"), PAIRS)
async def test_heads_that_differ_over_one_trunk_are_found_and_every_parameter_is_counted_once(kind, named, tmp_path):
    def redraw(model: Any) -> None:
        (model.score if kind == "gpt2" else model.classifier).weight[1] += model.get_input_embeddings().weight[TOKEN]

    one, model = classified(kind, named, tmp_path / "one")
    again, _ = classified(kind, named, tmp_path / "again")
    other, after = classified(kind, named, tmp_path / "other", change=redraw)
    alike = await changed(one, again)
    assert alike.same
    assert sum(size.numbers for size in alike.sizes) == counted(model)
    by_group = {size.group: size.numbers for size in alike.sizes if size.layer is None}
    assert by_group["classifier"] == 64 + 2 * (kind == "bert")
    assert by_group.get("pooler", 0) == (32 * 32 + 32 if named is BertForSequenceClassification else 0)
    for by in ("norm", "moved"):
        answer = await changed(one, other, by=by)
        assert not answer.same
        assert SAME not in answer.notices
        (size,) = [size for size in answer.sizes if size.changed]
        apart_D = after.get_input_embeddings().weight[TOKEN].detach()
        assert (size.layer, size.group, size.changed) == (None, "classifier", 32)
        assert size.norm == pytest.approx(float(apart_D.norm()), rel=1e-5)
        (found,) = answer.vectors
        assert (found.group, found.index, found.name) == ("classifier", 1, "good")
        if named is BertForSequenceClassification:  # its labels are read through the pooler's matrix
            apart_D = apart_D @ after.bert.pooler.dense.weight.detach()
        assert found.norm == pytest.approx(float(apart_D.norm()), rel=1e-4)
        assert found.ends.highest[0] == int((one.anatomy.embedding.weight @ apart_D).argmax())
        assert str(found.ends.highest[0]) in answer.words
    assert not (await changed(one, other, layer=0)).vectors


async def test_a_pooler_is_compared_where_it_is_in_the_files_and_left_out_where_it_was_drawn(tmp_path):
    one, _ = classified("bert", BertForSequenceClassification, tmp_path / "one")
    other, _ = classified(
        "bert", BertForSequenceClassification, tmp_path / "other", change=lambda it: it.bert.pooler.dense.bias.add_(0.5)
    )
    answer = await changed(one, other)
    assert not answer.same
    (size,) = [size for size in answer.sizes if size.changed]
    assert (size.group, size.changed, size.norm) == ("pooler", 32, pytest.approx(0.5 * 32**0.5, rel=1e-5))
    tokens, same = classified("bert", BertForTokenClassification, tmp_path / "tokens")
    again, _ = classified("bert", BertForTokenClassification, tmp_path / "again")
    assert "pooler.dense.weight" in tokens.drawn
    answer = await changed(tokens, again)
    assert answer.same, "what was drawn at random is no change"
    assert any("tokens hold no pooler" in notice for notice in answer.notices)
    assert sum(size.numbers for size in answer.sizes) == counted(same)
    answer = await changed(tokens, one)
    assert not answer.same
    assert any("Only one of both" in notice and "pooler.dense.weight" in notice for notice in answer.notices)


async def test_labels_are_met_by_name_and_other_numbers_of_labels_are_no_sameness(tmp_path):
    def swap(model: Any) -> None:
        model.score.weight.copy_(model.score.weight.flip(0))

    one, _ = classified("gpt2", GPT2ForSequenceClassification, tmp_path / "one")
    turned, _ = classified("gpt2", GPT2ForSequenceClassification, tmp_path / "turned", ("good", "bad"), swap)
    answer = await changed(one, turned)
    assert not answer.same
    assert not answer.vectors, "each label's vector is what it was"
    assert any("another order" in notice for notice in answer.notices)
    renamed, _ = classified("gpt2", GPT2ForSequenceClassification, tmp_path / "renamed", ("no", "yes"), swap)
    assert {each.name for each in (await changed(one, renamed)).vectors} == {"bad / no", "good / yes"}
    three, _ = classified("gpt2", GPT2ForSequenceClassification, tmp_path / "three", ("a", "b", "c"))
    answer = await changed(one, three)
    assert not answer.same
    assert any("other sizes" in notice and "classifier.score.weight" in notice for notice in answer.notices)
    assert "no label in common" in answer.why["classifier"]


async def test_what_is_not_compared_is_no_sameness(tmp_path):
    one, _ = classified("bert", BertForQuestionAnswering, tmp_path / "one")
    other, _ = classified(
        "bert", BertForQuestionAnswering, tmp_path / "other", change=lambda it: it.qa_outputs.weight.add_(1)
    )
    answer = await changed(one, other)
    assert not answer.same
    assert SAME_BUT in answer.notices
    assert any("qa_outputs.weight" in notice for notice in answer.notices)
    assert (await changed(one, one)).same, "a model is what it is"


async def test_rows_of_the_embedding_that_stand_for_no_token_are_counted():
    size = len(tiny.tokenizer_of("llama"))

    def padded(more: float) -> Any:
        made = tiny.model_of("llama", size + 8)
        with torch.no_grad():
            made.get_input_embeddings().weight[size + 3] += more
        return made

    one, same, other = (twins.opened(padded(more), "llama", f"by {more}") for more in (0.0, 0.0, 1.0))
    answer = await changed(one, same)
    assert answer.same
    assert sum(each.numbers for each in answer.sizes) == counted(one.model)
    answer = await changed(one, other)
    assert not answer.same
    assert [(each.group, each.changed) for each in answer.sizes if each.changed] == [("embedding", 32)]
    assert not answer.vectors, "such a row has no word"
    shorter = twins.opened(tiny.model_of("llama", size), "llama", "shorter")
    assert any("have no place in both" in notice for notice in (await changed(one, shorter)).notices)
