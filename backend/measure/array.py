"""Tensors to the wire form `Array`, and back."""

import torch
from torch import Tensor

from backend.schema.array import Array, Dtype

_FORMS: dict[torch.dtype, tuple[torch.dtype, Dtype]] = {
    torch.uint8: (torch.uint8, "u1"),
    torch.int8: (torch.int8, "i1"),
    torch.bool: (torch.uint8, "u1"),
    torch.int32: (torch.int32, "i4"),
    torch.int64: (torch.int32, "i4"),
    torch.float16: (torch.float32, "f4"),
    torch.bfloat16: (torch.float32, "f4"),
    torch.float32: (torch.float32, "f4"),
    torch.float64: (torch.float32, "f4"),
}


def to_array(tensor: Tensor) -> Array:
    """A tensor as an `Array`: floats become f4, integers i4, bytes stay. Raises `KeyError` for other dtypes."""
    kind, name = _FORMS[tensor.dtype]
    data = tensor.detach().to(kind).contiguous().cpu()
    return Array.pack(name, tuple(data.shape), data.numpy().data)


def from_array(array: Array) -> Tensor:
    """The numbers of an `Array` as float32 on the CPU."""
    kinds = {"u1": torch.uint8, "i1": torch.int8, "i4": torch.int32, "f4": torch.float32}
    flat = torch.frombuffer(bytearray(array.data), dtype=kinds[array.dtype]) if array.bdata else torch.empty(0)
    return flat.to(torch.float32).reshape(array.dims)


def sqrt_bytes(probability: Tensor) -> Tensor:
    """Probabilities as uint8, round(255 * sqrt(p)): small ones keep more digits than in a linear scale.

    A p a hair above 1 counts as 1.
    """
    return probability.sqrt().mul_(255).round_().clamp_(max=255).to(torch.uint8)


def to_i1(difference: Tensor, floor: float = 0.0) -> tuple[Array, float]:
    """(i1, scale) with i1 * scale nearest to the difference; 127 * scale is never below `floor` (its noise)."""
    most = max(float(difference.abs().max()) if difference.numel() else 0.0, floor)
    scale = most / 127 if most > 0 else 1.0
    return to_array((difference / scale).round_().to(torch.int8)), scale
