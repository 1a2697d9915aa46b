"""Arrays on the wire, in Plotly's own typed form, so that a figure can take them unopened."""

from math import prod
from typing import Annotated, Literal, Self

from pybase64 import b64decode, b64encode_as_string
from pydantic import Field, model_validator

from backend.schema.frozen import Frozen

Dtype = Literal["u1", "i1", "i4", "f4"]
ITEM_BYTES: dict[str, int] = {"u1": 1, "i1": 1, "i4": 4, "f4": 4}


class Array(Frozen):
    """Little-endian numbers in C order. `shape` is a string ("3, 4"): plotly.js reads no list."""

    dtype: Dtype
    bdata: str
    shape: Annotated[str, Field(max_length=64, pattern=r"^[0-9]+(, ?[0-9]+)*$")]

    @model_validator(mode="after")
    def _size_fits(self) -> Self:
        expected = prod(self.dims) * ITEM_BYTES[self.dtype]
        if len(self.bdata) % 4 or not self.bdata.isascii():
            raise ValueError("bdata is not base64")
        found = len(self.bdata) * 3 // 4 - self.bdata[-2:].count("=")
        if found != expected:
            raise ValueError(f"shape {self.shape!r} of {self.dtype} needs {expected} bytes, bdata holds {found}")
        return self

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape as integers."""
        return tuple(int(part) for part in self.shape.split(","))

    @property
    def data(self) -> bytes:
        """The raw little-endian bytes."""
        return b64decode(self.bdata, validate=True)

    @classmethod
    def pack(cls, dtype: Dtype, dims: tuple[int, ...], data: bytes | memoryview) -> Self:
        """Wrap raw little-endian bytes."""
        return cls(dtype=dtype, shape=", ".join(map(str, dims)), bdata=b64encode_as_string(data))
