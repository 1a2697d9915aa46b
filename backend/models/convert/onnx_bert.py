"""BERT from an ONNX export: the same numbers under transformers' names, 4-bit and 8-bit ones written out as float32.

Arrays keep their parameter's name, but for the matrices of products, which the export renames: those are named by the
path of the product that takes them.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig

from backend.models.convert import plain
from backend.models.convert.onnx import Onnx
from backend.models.progress import Progress

WRAPPED = re.compile(r"^.*auto_model\.")
"""What sentence-transformers puts before a parameter's name."""
HEAD_WIDTH = 32
"""Numbers of a head in every MiniLM; no array tells it."""
QUANTISED = ("_scale", "_zero_point", "_quantized")


def convert(files: Mapping[str, Path], target: Path, progress: Progress) -> None:
    """Write the folder of the one `*.onnx` among `files`; a configuration that is there is kept, else made."""
    progress("renaming the weights", 0, None, "")
    state = _state(Onnx(next(path for name, path in files.items() if name.endswith(".onnx"))))
    save_file(state, target / "model.safetensors", metadata={"format": "pt"})
    plain.convert({name: path for name, path in files.items() if not name.endswith(".onnx")}, target, progress)
    if not (target / "config.json").exists():
        (target / "config.json").write_text(json.dumps(_config(state), indent=1), encoding="utf-8")


def _state(onnx: Onnx) -> dict[str, Tensor]:
    """Every parameter as transformers names it, float32."""
    arrays = {name: array for name, array in onnx.arrays.items() if not name.startswith("onnx::")}
    plain_ones = {name: array for name, array in arrays.items() if not name.endswith(QUANTISED)}
    rounded = {name.removesuffix("_quantized") for name in arrays if name.endswith("_quantized")}
    plain_ones |= {name: _from_bytes(arrays, name) for name in rounded}
    matrices = {
        f"{path.strip('/').replace('/', '.').rpartition('.')[0]}.weight": _matrix(*(onnx.arrays[one] for one in taken))
        for path, taken in onnx.products.items() if taken
    }  # fmt: skip
    return {
        WRAPPED.sub("", name): torch.from_numpy(np.array(array, np.float32, order="C"))
        for name, array in sorted((plain_ones | matrices).items())
    }


def _from_bytes(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """DequantizeLinear: (number − zero point) · scale, one of each for the whole array."""
    whole = arrays[f"{name}_quantized"].astype(np.int32) - arrays[f"{name}_zero_point"].astype(np.int32)
    return whole.astype(np.float32) * arrays[f"{name}_scale"]


def _matrix(array: np.ndarray, scales: np.ndarray | None = None) -> np.ndarray:
    """Output × input. MatMul holds input × output; MatMulNBits output × blocks × bytes of two numbers, the low first.

    Each of its numbers stands for (number − 8) · scale of its block of the row.
    """
    if scales is None:
        return array.T
    numbers = np.stack([array & 15, array >> 4], -1).reshape(*array.shape[:2], -1).astype(np.float32) - 8
    return (numbers * scales[..., None]).reshape(len(array), -1)


def _config(state: Mapping[str, Tensor]) -> dict[str, object]:
    """That of a BertModel without a pooler, from its shapes."""
    words, places = (state[f"embeddings.{kind}_embeddings.weight"].shape for kind in ("word", "position"))
    layers = {name.split(".")[2] for name in state if name.startswith("encoder.layer.")}
    config = BertConfig(
        vocab_size=words[0], hidden_size=words[1], num_hidden_layers=len(layers),
        num_attention_heads=words[1] // HEAD_WIDTH, max_position_embeddings=places[0],
        intermediate_size=len(state["encoder.layer.0.intermediate.dense.bias"]), architectures=["BertModel"],
    )  # fmt: skip
    made: dict[str, object] = config.to_diff_dict()
    return made
