"""What both LLaMA-shaped conversions need: rotary rows in transformers' order, one safetensors file, one config."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig


def halves_from_pairs(matrix: Tensor, heads: int) -> Tensor:
    """Reorder a query or key matrix [heads·Dh, D] whose rotary rows are adjacent pairs into first and second halves.

    Row 2i of a head becomes row i and row 2i+1 becomes row i + Dh/2; the scores of attention do not change.
    """
    rows, width = matrix.shape
    pairs = matrix.reshape(heads, rows // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width).contiguous()


def save_llama(config: LlamaConfig, state: dict[str, Tensor], target: Path, dtype: torch.dtype) -> None:
    """Write model.safetensors and config.json as `save_pretrained` would for a tied LlamaForCausalLM."""
    weights = {name: tensor.to(dtype).contiguous() for name, tensor in state.items()}
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    config.architectures = ["LlamaForCausalLM"]
    config.dtype = dtype
    config.save_pretrained(target)
