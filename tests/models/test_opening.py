"""A folder that cannot be opened is refused in words a person understands, never as a fault of LMScope."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import T5Config, T5ForConditionalGeneration, Wav2Vec2Config, Wav2Vec2ForCTC

from backend import errors
from backend.models import opening
from backend.schema import Source
from tests import tiny


def refusal(folder: Path) -> errors.LmscopeError:
    with pytest.raises(errors.ModelRefused) as refused:
        opening.open_folder(folder, name="mine", source=Source(kind="folder", name="mine"), digest="d")
    assert refused.value.what == "mine cannot be opened"
    return refused.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.folder("llama", tmp_path)


def test_a_model_of_pictures_is_no_model_of_text(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "vit", "architectures": ["ViTModel"]}))
    assert "no model of text" in refusal(folder).why


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model": {"type": "BPE", "vocab": 3}}'])
def test_a_broken_tokenizer_is_named_as_what_is_broken(folder: Path, content: str) -> None:
    (folder / "tokenizer.json").write_text(content)
    assert "tokenizer's files are damaged" in refusal(folder).why


def test_weights_of_another_shape_are_said_without_the_words_of_a_library(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.0.self_attn.q_proj.weight"] = torch.zeros(5, 7)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    why = refusal(folder).why
    assert "other shapes than its config.json says" in why
    assert "ignore_mismatched_sizes" not in why


def test_a_word_that_transformers_does_not_have_is_quoted(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "zzz"}))
    assert "asks for 'zzz'" in refusal(folder).why


def test_weights_that_are_no_numbers_are_refused_as_what_they_are(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.0.self_attn.q_proj.weight"][0, 0] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    why = refusal(folder).why
    assert "breaks down on ordinary tokens" in why


def test_a_configuration_that_leaves_layers_out_is_refused_with_a_name(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    why = refusal(folder).why
    assert "says 2 layers" in why
    assert "model.layers.2." in why


LEFT_OVER = {
    "a weight of a layer": ("model.layers.0.self_attn.q_norm.weight", torch.ones(8)),
    "a bias": ("model.layers.1.self_attn.q_proj.bias", torch.ones(32)),
    "a weight after the layers": ("model.norm.bias", torch.ones(32)),
}


@pytest.mark.parametrize("what", LEFT_OVER)
def test_weights_that_would_not_be_used_are_refused_with_a_name(folder: Path, what: str) -> None:
    key, weight = LEFT_OVER[what]
    change_weights(folder, {key: weight})
    why = refusal(folder).why
    assert "have no place in what its config.json describes" in why
    assert key in why


def test_heads_for_other_tasks_and_what_old_files_hold_beside_weights_are_left_alone(folder: Path) -> None:
    change_weights(folder, {
        "score.weight": torch.ones(2, 32), "model.pooler.dense.weight": torch.ones(32, 32),
        "model.layers.0.self_attn.masked_bias": torch.tensor(-1e4),
        "model.layers.0.self_attn.bias": torch.ones(1, 1, 8, 8), "model.position_ids": torch.arange(8)[None],
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4),
    })  # fmt: skip
    opened = opening.open_folder(folder, name="mine", source=Source(kind="folder", name="mine"), digest="d")
    assert opened.card.can["attention"].can


def test_weights_rounded_to_whole_numbers_are_refused_without_what_they_stand_for(folder: Path) -> None:
    change_weights(folder, {"model.layers.0.mlp.down_proj.weight": torch.ones(32, 48, dtype=torch.int8)})
    assert "whole numbers" in refusal(folder).why


def change_weights(folder: Path, changes: dict[str, torch.Tensor]) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | changes, path, {"format": "pt"})


@pytest.mark.parametrize("content", ["", "{", "[]", "5", "null", '{"a": 1}'])
def test_a_broken_configuration_is_named_as_what_is_broken(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    assert "its configuration is not understood" in refusal(folder).why


WRONG = {
    "num_hidden_layers": ("x", -1, 0, 4), "hidden_size": ("big", 0), "num_attention_heads": (0, 3),
    "num_key_value_heads": (3,), "vocab_size": (-5, 1), "rope_parameters": (5, {"rope_type": "zzz"}),
    "rms_norm_eps": ("a", float("nan")), "pad_token_id": (99999,), "dtype": ("zzz",), "layer_types": (["a"] * 3,),
    "quantization_config": (5, {"quant_method": "gptq", "bits": 4}), "attention_bias": (True,),
    "model_type": ("clip", "bert", "mamba", "whisper", "zzz"), "return_dict": (False,),
}  # fmt: skip


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_configuration_that_does_not_fit_is_refused_in_words(folder: Path, field: str, value: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {field: value}))
    refused = refusal(folder)
    assert refused.why
    assert refused.instead


def test_what_reads_sound_is_no_model_of_text(tmp_path: Path) -> None:
    config = Wav2Vec2Config(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, conv_dim=(8,),
        conv_stride=(2,), conv_kernel=(2,), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    Wav2Vec2ForCTC(config).save_pretrained(tmp_path)
    tiny.tokenizer_of("llama").save_pretrained(tmp_path)
    assert "it reads input_values" in refusal(tmp_path).why


def test_an_architecture_that_breaks_down_under_the_checks_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(opening.Points, "of", broken)
    assert "broke down (ZeroDivisionError: by nothing)" in refusal(folder).why


def test_memory_that_runs_out_while_a_model_is_looked_at_is_no_fault_of_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(opening.Points, "of", full)
    with pytest.raises(torch.OutOfMemoryError):
        opening.open_folder(folder, name="mine", source=Source(kind="folder", name="mine"), digest="d")


def test_an_encoder_with_a_decoder_is_refused_in_words(tmp_path: Path) -> None:
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(vocab_size=64, **sizes)).save_pretrained(tmp_path)
    tiny.tokenizer_of("llama").save_pretrained(tmp_path)
    assert "encoder with a decoder (t5)" in refusal(tmp_path).why


def test_a_reduction_that_cannot_run_here_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    from backend.measure import fused
    from backend.models import kernel

    def no_compiler(*_: object, **__: object) -> None:
        raise FileNotFoundError("cc")

    monkeypatch.setattr(fused, "fits", lambda *_: True)
    monkeypatch.setattr(fused, "reduce", no_compiler)
    monkeypatch.setattr(kernel, "choose", lambda *_: kernel.FUSED)
    loaded = tiny.loaded("llama")
    assert not loaded.reduces
    assert loaded.card.can["attention"].can
