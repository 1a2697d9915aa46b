"""SmolLM2 from its GGUF file: 4-bit blocks written out as bfloat16, rotary rows un-permuted, tokenizer rebuilt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, PreTrainedTokenizerFast

from backend.models.convert.llama import halves_from_pairs, save_llama
from backend.models.progress import Progress

PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
SPECIAL = gguf.TokenType.CONTROL


def convert(files: Mapping[str, Path], target: Path, progress: Progress) -> None:
    """Write the folder of the one GGUF file among `files`."""
    reader = gguf.GGUFReader(next(path for name, path in files.items() if name.endswith(".gguf")))
    config = _config(reader)
    state: dict[str, Tensor] = {}
    for done, tensor in enumerate(reader.tensors):
        progress("converting 4-bit weights to bfloat16", done, len(reader.tensors), "tensors")
        weight = torch.from_numpy(np.array(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
        name = _parameter(tensor.name)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            count = "attention.head_count" if "q_proj" in name else "attention.head_count_kv"
            weight = halves_from_pairs(weight, _field(reader, f"llama.{count}"))
        state[name] = weight.to(torch.bfloat16)
    save_llama(config, state, target, torch.bfloat16)
    progress("rebuilding the tokenizer", 0, None, "")
    _tokenizer(reader, config.max_position_embeddings).save_pretrained(target)


def _parameter(name: str) -> str:
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.{kind}"


def _field(reader: gguf.GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    if field is None:
        raise KeyError(f"the GGUF file has no field {name}")
    return field.contents()


def _config(reader: gguf.GGUFReader) -> LlamaConfig:
    def llama(name: str) -> Any:
        return _field(reader, f"llama.{name}")

    return LlamaConfig(
        vocab_size=llama("vocab_size"),
        hidden_size=llama("embedding_length"),
        intermediate_size=llama("feed_forward_length"),
        num_hidden_layers=llama("block_count"),
        num_attention_heads=llama("attention.head_count"),
        num_key_value_heads=llama("attention.head_count_kv"),
        head_dim=llama("rope.dimension_count"),
        max_position_embeddings=llama("context_length"),
        # stored as float32: 9.999999747378752e-06 stands for the 1e-05 that was written
        rms_norm_eps=float(f"{llama('attention.layer_norm_rms_epsilon'):.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": llama("rope.freq_base")},
        tie_word_embeddings=True,
        bos_token_id=_field(reader, "tokenizer.ggml.bos_token_id"),
        eos_token_id=_field(reader, "tokenizer.ggml.eos_token_id"),
        pad_token_id=_field(reader, "tokenizer.ggml.padding_token_id"),
    )


def _tokenizer(reader: gguf.GGUFReader, context: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE that reads every digit alone, as the family's own tokenizer (`pre` = smollm) does."""
    pieces: list[str] = _field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in _field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={piece: at for at, piece in enumerate(pieces)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = _field(reader, "tokenizer.ggml.token_type")
    special = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == SPECIAL]
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])

    def named(name: str) -> str:
        return str(pieces[_field(reader, f"tokenizer.ggml.{name}_token_id")])

    fast: PreTrainedTokenizerFast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=named("bos"),
        eos_token=named("eos"),
        unk_token=named("unknown"),
        pad_token=named("padding"),
        chat_template=_field(reader, "tokenizer.chat_template"),
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    return fast
