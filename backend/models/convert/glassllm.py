"""glassllm from its NumPy archive: the same numbers under transformers' names, its tokenizer rebuilt exactly."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, PreTrainedTokenizerFast

from backend.models.convert.llama import halves_from_pairs, save_llama
from backend.models.progress import Progress

SPECIALS = ["<pad>", "<unk>", "<bos>", "<eos>"]
SPACE = "▁"
CHUNK = rf"\n|{SPACE}*[^{SPACE}\n]+|{SPACE}+"


def convert(files: Mapping[str, Path], target: Path, progress: Progress) -> None:
    """Write the folder of one `*.npz` and its `*.tokenizer.json`."""
    progress("renaming the weights", 0, None, "")
    with np.load(next(path for name, path in files.items() if name.endswith(".npz")), allow_pickle=False) as archive:
        sizes = json.loads(str(archive["__config__"]))
        arrays = {
            name: torch.from_numpy(archive[name].astype(np.float32)) for name in archive.files if name[:2] != "__"
        }
    config = _config(sizes, arrays)
    save_llama(config, _state(sizes, arrays), target, torch.float32)
    pieces = json.loads(next(p for n, p in files.items() if n.endswith(".tokenizer.json")).read_text(encoding="utf-8"))
    _tokenizer(pieces["alphabet"], pieces["merges"], sizes["max_len"]).save_pretrained(target)


def _config(sizes: dict[str, float], arrays: dict[str, Tensor]) -> LlamaConfig:
    heads = int(sizes["n_heads"])
    return LlamaConfig(
        vocab_size=int(sizes["vocab_size"]),
        hidden_size=int(sizes["d_model"]),
        intermediate_size=arrays["blocks.0.ffn.W1"].shape[1],
        num_hidden_layers=int(sizes["n_layers"]),
        num_attention_heads=heads,
        num_key_value_heads=int(sizes["n_kv_heads"]),
        head_dim=int(sizes["d_model"]) // heads,
        max_position_embeddings=int(sizes["max_len"]),
        rms_norm_eps=sizes["eps"],
        rope_parameters={"rope_type": "default", "rope_theta": sizes["rope_base"]},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=SPECIALS.index("<eos>"),
        pad_token_id=SPECIALS.index("<pad>"),
    )


def _state(sizes: dict[str, float], arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices are stored input × output; transformers wants output × input."""
    state = {"model.embed_tokens.weight": arrays["E"], "model.norm.weight": arrays["norm_f.gamma"]}
    for layer in range(int(sizes["n_layers"])):
        ours, theirs = f"model.layers.{layer}", f"blocks.{layer}"
        query, key = arrays[f"{theirs}.attn.W_Q"].T, arrays[f"{theirs}.attn.W_K"].T
        state |= {
            f"{ours}.input_layernorm.weight": arrays[f"{theirs}.norm1.gamma"],
            f"{ours}.post_attention_layernorm.weight": arrays[f"{theirs}.norm2.gamma"],
            f"{ours}.self_attn.q_proj.weight": halves_from_pairs(query, int(sizes["n_heads"])),
            f"{ours}.self_attn.k_proj.weight": halves_from_pairs(key, int(sizes["n_kv_heads"])),
            f"{ours}.self_attn.v_proj.weight": arrays[f"{theirs}.attn.W_V"].T,
            f"{ours}.self_attn.o_proj.weight": arrays[f"{theirs}.attn.W_O"].T,
            f"{ours}.mlp.gate_proj.weight": arrays[f"{theirs}.ffn.W1"].T,
            f"{ours}.mlp.up_proj.weight": arrays[f"{theirs}.ffn.W3"].T,
            f"{ours}.mlp.down_proj.weight": arrays[f"{theirs}.ffn.W2"].T,
        }
    return state


def _tokenizer(alphabet: list[str], merges: list[list[str]], context: int) -> PreTrainedTokenizerFast:
    """Character BPE over NFC text whose spaces are written ▁; chunks end before a space and at a newline."""
    pairs = [(left, right) for left, right in merges]
    pieces = SPECIALS + alphabet + [left + right for left, right in pairs]
    vocabulary = {piece: at for at, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", SPACE)])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(CHUNK), behavior="isolated")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in SPECIALS])
    fast: PreTrainedTokenizerFast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<eos>",
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    return fast
