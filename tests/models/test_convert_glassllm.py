"""A glassllm archive becomes a LLaMA that gives the same logits as the mathematics of the archive, done in NumPy."""

import json
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from backend.models.convert import conversion
from backend.models.progress import silent

SIZES = {
    "vocab_size": 40, "d_model": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "max_len": 48, "rope_base": 10000.0,
    "eps": 1e-6, "init_std": 0.02,
}  # fmt: skip
HIDDEN = 85
ALPHABET = ["\n", "!", ".", "a", "b", "c", "d", "e", "h", "l", "n", "o", "r", "t", "é", "▁"]
MERGES = [["▁", "t"], ["h", "e"], ["▁t", "he"], ["l", "l"], ["a", "n"], ["an", "d"], ["▁", "and"], ["▁", "a"]]


def archive() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    width, head = SIZES["d_model"], SIZES["d_model"] // SIZES["n_heads"]

    def matrix(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) * 0.3).astype(np.float16)

    arrays = {"E": matrix(SIZES["vocab_size"], width), "norm_f.gamma": matrix(width)}
    for layer in range(SIZES["n_layers"]):
        arrays |= {
            f"blocks.{layer}.norm1.gamma": matrix(width),
            f"blocks.{layer}.norm2.gamma": matrix(width),
            f"blocks.{layer}.attn.W_Q": matrix(width, SIZES["n_heads"] * head),
            f"blocks.{layer}.attn.W_K": matrix(width, SIZES["n_kv_heads"] * head),
            f"blocks.{layer}.attn.W_V": matrix(width, SIZES["n_kv_heads"] * head),
            f"blocks.{layer}.attn.W_O": matrix(SIZES["n_heads"] * head, width),
            f"blocks.{layer}.ffn.W1": matrix(width, HIDDEN),
            f"blocks.{layer}.ffn.W3": matrix(width, HIDDEN),
            f"blocks.{layer}.ffn.W2": matrix(HIDDEN, width),
        }
    return arrays


def numpy_logits(arrays: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """Rotary angles on adjacent pairs, grouped queries, causal softmax, SwiGLU, tied read-out: token by token."""
    weights = {name: array.astype(np.float64) for name, array in arrays.items()}
    heads, shared = SIZES["n_heads"], SIZES["n_heads"] // SIZES["n_kv_heads"]
    width = SIZES["d_model"] // heads

    def normed(x: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + SIZES["eps"]) * gamma

    def turned(vector: np.ndarray, position: int) -> np.ndarray:
        pairs = vector.reshape(-1, 2)[:, 0] + 1j * vector.reshape(-1, 2)[:, 1]
        angles = position * SIZES["rope_base"] ** (-2 * np.arange(width // 2) / width)
        pairs = pairs * np.exp(1j * angles)
        return np.stack([pairs.real, pairs.imag], -1).reshape(-1)

    x = weights["E"][ids]
    for layer in range(SIZES["n_layers"]):
        at = f"blocks.{layer}"
        h = normed(x, weights[f"{at}.norm1.gamma"])
        q, k, v = (h @ weights[f"{at}.attn.W_{name}"] for name in "QKV")
        mixed = np.zeros_like(q)
        for head in range(heads):
            own, kv = (
                slice(head * width, (head + 1) * width),
                slice(head // shared * width, (head // shared + 1) * width),
            )
            keys = np.stack([turned(k[s, kv], s) for s in range(len(ids))])
            for t in range(len(ids)):
                scores = keys[: t + 1] @ turned(q[t, own], t) / np.sqrt(width)
                probs = np.exp(scores - scores.max())
                mixed[t, own] = probs / probs.sum() @ v[: t + 1, kv]
        x = x + mixed @ weights[f"{at}.attn.W_O"]
        h = normed(x, weights[f"{at}.norm2.gamma"])
        gate = h @ weights[f"{at}.ffn.W1"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ weights[f"{at}.ffn.W3"])) @ weights[f"{at}.ffn.W2"]
    return normed(x, weights["norm_f.gamma"]) @ weights["E"].T


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("glass")
    np.savez_compressed(place / "xx.npz", __config__=np.array(json.dumps(SIZES)), **archive())
    pieces = {"version": 1, "alphabet": ALPHABET, "merges": MERGES}
    (place / "xx.tokenizer.json").write_text(json.dumps(pieces), encoding="utf-8")
    (place / "model").mkdir()
    files = {name: place / name for name in ("xx.npz", "xx.tokenizer.json")}
    conversion("glassllm")(files, place / "model", silent)
    return place / "model"


def test_logits_equal_the_archive_computed_by_hand(converted: Path) -> None:
    ids = [7, 3, 39, 12, 12, 0, 25, 31, 4]
    model, report = AutoModelForCausalLM.from_pretrained(converted, output_loading_info=True)
    assert not any(report.values())
    with torch.inference_mode():
        found = model(torch.tensor([ids])).logits[0].numpy()
    assert np.abs(found - numpy_logits(archive(), ids)).max() < 2e-5


def merged(chunk: str) -> list[str]:
    """Merges by rank, one pair at a time, as the archive's tokenizer defines them."""
    symbols, ranks = list(chunk), {tuple(pair): rank for rank, pair in enumerate(MERGES)}
    while found := [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]:
        at = min(found)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return symbols


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("the hello and then", ["the", "▁hello", "▁and", "▁then"]),
        ("a  b\n\nc ", ["a", "▁▁b", "\n", "\n", "c", "▁"]),
        ("e\u0301!", ["é!"]),
        ("hey 東!", ["hey", "▁東!"]),
    ],
)
def test_the_tokenizer_cuts_and_merges_as_the_archive_says(converted: Path, text: str, chunks: list[str]) -> None:
    vocabulary = ["<pad>", "<unk>", "<bos>", "<eos>", *ALPHABET, *(left + right for left, right in MERGES)]
    expected = [vocabulary.index(piece) if piece in vocabulary else 1 for chunk in chunks for piece in merged(chunk)]
    tokenizer = AutoTokenizer.from_pretrained(converted)
    assert tokenizer(text).input_ids == expected
    if 1 not in expected:
        assert tokenizer.decode(expected) == unicodedata.normalize("NFC", text)
    assert tokenizer.model_max_length == SIZES["max_len"]


def test_no_token_is_added(converted: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(converted)
    assert tokenizer("").input_ids == []


def test_a_pickle_inside_the_archive_is_never_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", __config__=np.array({"a": 1}, dtype=object))
    (tmp_path / "bad.tokenizer.json").write_text("{}")
    files = {name: tmp_path / name for name in ("bad.npz", "bad.tokenizer.json")}
    with pytest.raises(ValueError, match="allow_pickle=False"):
        conversion("glassllm")(files, tmp_path, silent)
