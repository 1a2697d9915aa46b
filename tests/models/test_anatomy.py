"""Parts are found by asking, and what cannot be read is refused in words."""

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel

from backend import errors
from backend.models import opening
from backend.models.anatomy import matrix
from backend.schema import Source
from tests import families, tiny


def test_a_llama_shows_query_heads_and_the_key_heads_they_share():
    shape = tiny.loaded("llama").anatomy.shape
    assert (shape.layers, shape.heads, shape.kv_heads, shape.head_width, shape.width) == (3, 4, 2, 8, 32)
    assert shape.causal
    assert shape.context == tiny.CONTEXT
    assert shape.attention_layers == (0, 1, 2)


@pytest.mark.parametrize(
    ("kind", "projection", "write", "norm"),
    [
        ("llama", "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.down_proj", "model.norm"),
        ("gpt2", "transformer.h.1.attn.c_proj", "transformer.h.1.mlp.c_proj", "transformer.ln_f"),
        ("bert", "bert.encoder.layer.1.attention.output.dense", "bert.encoder.layer.1.output.dense",
         "cls.predictions.transform.LayerNorm"),
    ],
)  # fmt: skip
def test_projection_write_matrix_and_final_norm_are_the_right_modules(kind, projection, write, norm):
    loaded = tiny.loaded(kind)
    parts = dict(loaded.model.named_modules())
    assert loaded.anatomy.projections[1] is parts[projection]
    assert loaded.anatomy.write[1] is parts[write]
    assert loaded.anatomy.final_norm is parts[norm]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_matrix_is_input_by_output_whichever_way_it_is_stored(kind):
    anatomy = tiny.loaded(kind).anatomy
    assert matrix(anatomy.write[0]).shape[1] == anatomy.shape.width
    assert anatomy.output_matrix(0).shape == (anatomy.shape.heads * anatomy.shape.head_width, anatomy.shape.width)


@pytest.mark.parametrize("kind", ["mamba"])
def test_a_family_whose_attention_cannot_be_read_is_refused_in_words(kind):
    with pytest.raises(errors.NoAttention) as refused:
        families.loaded(kind)
    assert "attention" in refused.value.why
    assert "Llama" in refused.value.instead


@pytest.mark.parametrize(("kind", "word"), [("mixtral", "experts"), ("gpt_oss", "experts"), ("lfm2", "attention")])
def test_units_are_refused_where_another_matrix_could_be_mistaken_for_them(kind, word):
    anatomy = families.loaded(kind).anatomy
    assert anatomy.write == {}
    assert word in anatomy.write_why


def test_a_hybrid_offers_only_the_layers_that_call_for_attention():
    loaded = families.loaded("lfm2")
    assert loaded.anatomy.shape.attention_layers == (1,)
    assert sorted(loaded.anatomy.projections) == [1]


def test_positions_taken_by_padding_are_not_offered_as_context():
    assert families.loaded("roberta").anatomy.shape.context == 128


def test_a_model_without_a_read_out_opens_and_says_so():
    tokenizer = tiny.tokenizer_of("bert")
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=48)  # fmt: skip
    loaded = opening.prepare(BertModel(config), tokenizer, name="trunk", source=Source(kind="folder", name="trunk"))
    assert loaded.anatomy.unembedding is None
    assert loaded.card.can["attention"].can


def test_the_probe_leaves_no_hook_behind():
    model = tiny.model_of("llama", 420)
    model.set_attn_implementation("lmscope")
    before = _hooks(model)
    from backend.models.anatomy import Anatomy

    Anatomy.of(model)
    assert _hooks(model) == before


def _hooks(model: torch.nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules())


def test_blocks_that_cannot_be_told_apart_are_refused():
    model = tiny.model_of("llama", 420)
    model.model.twin = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    model.set_attn_implementation("lmscope")
    with pytest.raises(errors.NoAttention, match="2 lists"):
        opening.prepare(model, tiny.tokenizer_of("llama"), name="twin", source=Source(kind="folder", name="twin"))


def test_opening_a_folder_gives_the_model_that_was_saved(tmp_path):
    tiny.folder("gpt2", tmp_path / "gpt2")
    source = Source(kind="folder", name="gpt2")
    loaded = opening.open_folder(tmp_path / "gpt2", name="gpt2", source=source, digest="d")
    expected = AutoModel.from_pretrained(tmp_path / "gpt2")
    for name, parameter in expected.named_parameters():
        assert torch.equal(parameter, dict(loaded.model.transformer.named_parameters())[name])
    assert loaded.card.architecture == "GPT2LMHeadModel"
    assert loaded.card.memory_bytes == sum(
        parameter.numel() * parameter.element_size() for parameter in loaded.model.parameters()
    )


@pytest.mark.parametrize(
    ("kind", "groups"), [("falcon", 1), ("falcon, grouped", 2), ("falcon, alibi", 4), ("gpt_bigcode", 1)]
)
def test_a_value_that_several_heads_share_counts_once_though_it_was_repeated(kind, groups):
    assert families.opened(kind).anatomy.shape.kv_heads == groups


def test_a_window_back_and_forth_is_as_wide_as_what_is_seen():
    assert families.opened("modernbert").anatomy.shape.window == 5
