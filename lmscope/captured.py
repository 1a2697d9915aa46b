"""A captured file: how it arrives, and its tensors as numpy arrays.

The numpy face of the safetensors package knows no bfloat16 and drops the metadata of what it reads from memory. The
format is one JSON before the numbers, so it is read here.
"""

import io
import json
from collections.abc import Iterator, Mapping
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Self
from uuid import uuid4

import numpy as np
from pydantic import ValidationError

from backend.schema import CaptureAbout, Conditions, Problem
from backend.schema.capture import ABOUT, CUT
from lmscope.refused import Refused, cut_short, other_version

Numbers = np.ndarray[Any, np.dtype[Any]]
NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""How numpy reads a dtype of safetensors; bfloat16 is the upper half of a float32."""
LENGTH = 8
"""Bytes that say how long the header is."""
LAST_WORDS = 16 * 1024
"""A Problem at the end of a stream is not longer."""


class Captured(Mapping[str, Numbers]):
    """Tensors by name, as numpy arrays without a batch axis, opened when they are looked at (read-only).

    bfloat16 opens as float32, which holds it exactly. `axes` names the axes of each: T tokens, S keys, H query heads,
    G key/value heads, W head width, D width, F feed-forward units, V vocabulary.
    """

    def __init__(self, data: memoryview, path: Path | None = None) -> None:
        """Read a whole file's bytes. Raises `Refused` when they are no capture, or not all of one."""
        self.path = path
        self._tensors, about, start, end = _header(data)
        if len(data) != end:
            raise cut_short(f"It has {len(data):,} bytes, and its header announces {end:,}")
        self._data = data[start:]
        self.about = about

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """A captured file; its numbers stay on the disk until they are looked at. Raises as the class does."""
        place = Path(path)
        return cls(np.memmap(place, np.uint8, "r").data if place.stat().st_size else memoryview(b""), place)

    @property
    def conditions(self) -> Conditions:
        """What the numbers were made under."""
        return self.about.conditions

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids that were really used."""
        return self.about.ids

    @property
    def positions(self) -> tuple[int, ...]:
        """The tokens that stand along T."""
        return self.about.positions

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        return self.about.notices

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of each tensor."""
        return {name: told.axes for name, told in self.about.tensors.items()}

    def __getitem__(self, name: str) -> Numbers:
        told = self._tensors[name]
        first, last = told["data_offsets"]
        numbers = np.frombuffer(self._data[first:last], NUMPY[told["dtype"]]).reshape(told["shape"])
        if told["dtype"] == "BF16":
            numbers = (numbers.astype("<u4") << 16).view("<f4")
        numbers.flags.writeable = False
        return numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        size = sum(prod(told["shape"]) for told in self._tensors.values())
        return f"<Captured of {self.conditions.model}: {len(self)} tensors, {size:,} numbers, {len(self.ids)} tokens>"


class Arriving:
    """A capture on its way, into memory or into a file that appears when it is whole."""

    def __init__(self, into: str | PathLike[str] | None) -> None:
        self._into = None if into is None else Path(into)
        self._part = None if self._into is None else self._into.with_name(f"{self._into.name}.{uuid4().hex[:8]}.part")
        self._sink: BinaryIO = io.BytesIO() if self._part is None else self._part.open("wb")
        self._tail = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._part is not None:
            self._sink.close()
            self._part.unlink(missing_ok=True)

    def add(self, chunk: bytes) -> None:
        """The next bytes."""
        self._sink.write(chunk)
        self._tail = (self._tail + chunk[-LAST_WORDS:])[-LAST_WORDS:]

    def last_words(self) -> Refused | None:
        """What the server said when it ended the stream early."""
        _, found, said = self._tail.rpartition(CUT)
        try:
            return Refused(Problem.model_validate_json(said)) if found else None
        except ValidationError:
            return None

    def whole(self) -> Captured:
        """The capture. Raises `Refused` when it is not whole, with the server's reason where it gave one."""
        try:
            return self._whole()
        except Refused as refused:
            raise self.last_words() or refused from None

    def _whole(self) -> Captured:
        if isinstance(self._sink, io.BytesIO):
            return Captured(self._sink.getbuffer().toreadonly())
        assert self._part is not None
        assert self._into is not None
        self._sink.close()
        Captured.open(self._part)
        self._part.replace(self._into)
        return Captured.open(self._into)


def _header(data: memoryview) -> tuple[dict[str, Any], CaptureAbout, int, int]:
    """The tensors by name, what the file says about itself, where the numbers begin, and where they should end."""
    start = LENGTH + int.from_bytes(data[:LENGTH], "little")
    if len(data) < max(start, LENGTH):
        raise cut_short(f"It has {len(data):,} bytes, which is less than its header")
    try:
        tensors = json.loads(bytes(data[LENGTH:start]))
        about = CaptureAbout.model_validate_json(tensors.pop("__metadata__")[ABOUT])
        return tensors, about, start, start + max(told["data_offsets"][1] for told in tensors.values())
    except ValidationError as error:
        raise other_version("CaptureAbout", error) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise cut_short("Its header is not that of a capture") from error
