"""A GGUF file becomes the model it was made from: same numbers, same tokens."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from backend.models.convert import conversion
from backend.models.progress import silent
from tests.tiny import CORPUS, byte_level

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{% endfor %}"
HEADS, KV_HEADS, HEAD_WIDTH = 4, 2, 16
FOUR_BITS = gguf.GGMLQuantizationType.Q4_1


def original(vocabulary: int) -> LlamaForCausalLM:
    torch.manual_seed(3)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=64, intermediate_size=96, num_hidden_layers=2, head_dim=HEAD_WIDTH,
            num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=64, rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=True,
            initializer_range=0.2, bos_token_id=1, eos_token_id=2, pad_token_id=2,
        )
    ).eval()  # fmt: skip


def pairs_from_halves(matrix: np.ndarray, heads: int) -> np.ndarray:
    """The reordering that makers of GGUF files apply, written row by row."""
    rows = matrix.reshape(heads, -1, matrix.shape[1])
    half = rows.shape[1] // 2
    return np.stack([row for head in rows for i in range(half) for row in (head[i], head[i + half])])


def gguf_names(name: str) -> str:
    parts = {
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "q_proj": "attn_q", "k_proj": "attn_k",
        "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
        "down_proj": "ffn_down",
    }  # fmt: skip
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    pieces = name.split(".")
    return f"blk.{pieces[2]}.{parts[pieces[-2]]}.weight"


def write_gguf(path: Path, model: LlamaForCausalLM, tokenizer: Any) -> dict[str, torch.Tensor]:
    """Write the model as a 4-bit GGUF file; returns what its weights are after those 4 bits, in bfloat16."""
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = tokenizer.get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(pieces)
    writer.add_token_types([gguf.TokenType.CONTROL if piece in SPECIAL else gguf.TokenType.NORMAL for piece in pieces])
    writer.add_token_merges([" ".join(merge) for merge in _merges(tokenizer)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    expected = {}
    for name, tensor in model.model.state_dict(prefix="model.").items():
        numbers = tensor.numpy()
        heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else None
        stored = pairs_from_halves(numbers, heads) if heads else numbers
        if stored.ndim == 1:
            writer.add_tensor(gguf_names(name), stored)
            expected[name] = tensor.bfloat16()
            continue
        writer.add_tensor(gguf_names(name), gguf.quantize(stored, FOUR_BITS), raw_dtype=FOUR_BITS)
        # blocks run along a row, so that reordering rows does not change what 4 bits do to them
        expected[name] = torch.from_numpy(gguf.dequantize(gguf.quantize(numbers, FOUR_BITS), FOUR_BITS)).bfloat16()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def _merges(tokenizer: Any) -> list[list[str]]:
    return [list(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor], Any]:
    place = tmp_path_factory.mktemp("gguf")
    tokenizer = byte_level(SPECIAL)
    expected = write_gguf(place / "tiny.gguf", original(tokenizer.get_vocab_size()), tokenizer)
    (place / "model").mkdir()
    conversion("smollm2")({"tiny.gguf": place / "tiny.gguf"}, place / "model", silent)
    return place / "model", expected, tokenizer


def test_every_weight_is_the_dequantised_one_bit_for_bit(converted: Any) -> None:
    folder, expected, _ = converted
    found = load_file(folder / "model.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_transformers_opens_it_and_computes_what_the_dequantised_original_computes(converted: Any) -> None:
    folder, expected, tokenizer = converted
    reference = original(tokenizer.get_vocab_size())
    reference.load_state_dict({name: tensor.float() for name, tensor in expected.items()}, strict=False)
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(report.values())
    ids = torch.tensor([[5, 17, 80, 33, 2, 9]])
    with torch.inference_mode():
        assert torch.equal(model(ids).logits, reference(ids).logits)


def test_the_tokenizer_gives_the_original_ids_and_reads_each_digit_alone(converted: Any) -> None:
    folder, _, original_tokenizer = converted
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in [*CORPUS, "  two  spaces\n\nand é 東 🙂"]:
        assert tokenizer(text).input_ids == original_tokenizer.encode(text).ids
        assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.tokenize("a  1984")[-6:] == ["Ġ", "Ġ", "1", "9", "8", "4"]
    assert tokenizer("<|im_start|>").input_ids == [1]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)


def test_the_chat_template_and_the_context_come_along(converted: Any) -> None:
    folder, _, _ = converted
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert said == "<|im_start|>Hi<|im_end|>"
    assert tokenizer.model_max_length == 64
