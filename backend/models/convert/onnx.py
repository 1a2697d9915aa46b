"""ONNX files, read without their library: arrays by name, and which array each product multiplies with.

The message is declared here as onnx.proto (ONNX 1.17) numbers its fields; protobuf itself skips those left out.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Fields = Mapping[str, tuple[int, str]]
MESSAGES: dict[str, Fields] = {
    "Model": {"graph": (7, "Graph")},
    "Graph": {"node": (1, "Node*"), "initializer": (5, "Tensor*")},
    "Node": {"input": (1, "string*"), "name": (3, "string"), "op_type": (4, "string")},
    "Tensor": {
        "dims": (1, "int64*"), "data_type": (2, "int32"), "float_data": (4, "float*"), "int32_data": (5, "int32*"),
        "name": (8, "string"), "raw_data": (9, "bytes"),
    },
}  # fmt: skip
"""Number and type of each field; `*`: it is repeated."""
DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("u1")}
FIELD = descriptor_pb2.FieldDescriptorProto


class Onnx:
    """What one file holds."""

    def __init__(self, path: Path) -> None:
        graph = _message("Model").FromString(path.read_bytes()).graph
        self.arrays: dict[str, np.ndarray] = {tensor.name: _array(tensor) for tensor in graph.initializer}
        self.products: dict[str, tuple[str, ...]] = {
            node.name: tuple(name for name in node.input if name in self.arrays)
            for node in graph.node if node.op_type in ("MatMul", "MatMulNBits")
        }  # fmt: skip
        """By the path of the product: the arrays that it takes; none where it multiplies two activations."""


def _array(tensor: Any) -> np.ndarray:
    dtype = DTYPES[tensor.data_type]
    if tensor.raw_data:
        return np.frombuffer(tensor.raw_data, dtype).reshape(tuple(tensor.dims))
    numbers = tensor.float_data if dtype.kind == "f" else tensor.int32_data
    return np.array(numbers, dtype).reshape(tuple(tensor.dims))


def _message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="onnx.proto", package="onnx", syntax="proto2")
    for message, fields in MESSAGES.items():
        declared = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            declared.field.add(name=field, number=number, **_kind(kind))
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"onnx.{name}"))


def _kind(kind: str) -> dict[str, Any]:
    label = FIELD.LABEL_REPEATED if kind.endswith("*") else FIELD.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    if kind in MESSAGES:
        return {"label": label, "type": FIELD.TYPE_MESSAGE, "type_name": f".onnx.{kind}"}
    return {"label": label, "type": getattr(FIELD, f"TYPE_{kind.upper()}")}
