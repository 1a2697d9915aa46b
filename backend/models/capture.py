"""Capture: named tensors of one forward pass, sent as a safetensors file while the model makes them.

Every shape is known before the run, so the file's header goes first and the tensors follow in the order in which the
model makes them: nothing is kept longer than a layer. Axes: B rows (edited, then unedited), T tokens, D width, heads,
W head width, S keys, V vocabulary.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.models import forward
from backend.models.asking import Asked, ask_model
from backend.models.cost import capture_bytes
from backend.models.kernel import Call
from backend.models.loaded import Loaded
from backend.models.point_names import resolve
from backend.models.points import AT_TAPS, OF_CALL, of_call
from backend.models.taps import Cancel
from backend.schema import CaptureAsk, Limits
from backend.schema.capture import ABOUT, PLACES, UNEDITED, CaptureAbout, CapturedTensor, pattern

PIECE = 1024 * 1024
"""Bytes that go into the stream at a time."""
LOGITS_BYTES = 64 * 1024 * 1024
"""The read-out makes logits in blocks of tokens that take about this much."""
WORDS = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
"""How safetensors names a dtype."""

Send = Callable[[bytes], None]


@dataclass(frozen=True)
class Part:
    """One tensor of the file."""

    name: str
    place: str
    row: int
    """0: the view's own model; 1: the unedited one."""
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """Bytes of its values."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """The whole file before it exists."""

    asked: Asked
    parts: tuple[Part, ...]
    """In the order in which the model makes them."""
    positions: tuple[int, ...]
    notices: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all values."""
        return sum(part.bytes for part in self.parts)

    @property
    def places(self) -> set[str]:
        """What has to be read."""
        return {part.place for part in self.parts}


def cost(loaded: Loaded, ask: CaptureAsk, limits: Limits) -> int:
    """Bytes that a capture needs while it runs. Raises whatever can be known before any forward pass."""
    layout = plan(loaded, ask, limits)
    largest = max(part.bytes for part in layout.parts)
    return capture_bytes(loaded, ask.view, limits) + 2 * largest + len(layout.asked.rows) * LOGITS_BYTES


def plan(loaded: Loaded, ask: CaptureAsk, limits: Limits) -> Layout:
    """What the file will hold. Raises `BadQuestion`, `CannotShow`, or `TooLarge` with both numbers."""
    asked = ask_model(loaded, ask.view, limits)
    positions = _positions(ask, asked.tokens)
    resolved = resolve(loaded, ask.points)
    order = {place: number for number, place in enumerate(loaded.points.found)}
    rows = range(len(asked.rows))
    chosen = sorted(resolved.places.items(), key=lambda item: order[item[1]])  # stable: equal places as asked
    parts = tuple(
        _part(loaded, ask, asked, name, place, row, len(positions))
        for place in dict.fromkeys(place for _, place in chosen)
        for row in rows
        for name, same in chosen
        if same == place
    )
    layout = Layout(asked, parts, positions, asked.notices + resolved.notices)
    _check_size(loaded, layout, limits)
    return layout


def pour(loaded: Loaded, ask: CaptureAsk, limits: Limits, send: Send, cancel: Cancel | None = None) -> None:
    """Run the model once and send the file, header first. Raises as `plan`, and whatever `send` and `cancel` raise."""
    layout = plan(loaded, ask, limits)
    send(header(loaded, layout))
    pouring = _Pouring(layout, send)
    read = {place: partial(pouring.take, place) for place in layout.places if place.partition(".")[0] in AT_TAPS}
    asked = layout.asked
    final_BTD = forward.run(
        loaded, asked.ids_BT, asked.plan, types_BT=asked.types_BT, read=read, hold=_holder(layout, pouring),
        cancel=cancel,
    )  # fmt: skip
    pouring.take("final", final_BTD)
    for row, part in enumerate(pouring.last("logits")):
        for block_NV in _logits(loaded, layout, final_BTD[row], row, cancel):
            pouring.send(part, block_NV)
    pouring.close()


def header(loaded: Loaded, layout: Layout) -> bytes:
    """The beginning of a safetensors file: the length of a JSON, and the JSON, padded to eight bytes."""
    about = CaptureAbout(
        conditions=loaded.conditions, ids=layout.asked.read.ids, positions=layout.positions,
        view=layout.asked.view.digest(), tensors={part.name: _told(part) for part in layout.parts},
        notices=layout.notices,
    )  # fmt: skip
    told: dict[str, Any] = {"__metadata__": {ABOUT: about.model_dump_json()}}
    end = 0
    for part in layout.parts:
        start, end = end, end + part.bytes
        told[part.name] = {"dtype": WORDS[part.dtype], "shape": part.shape, "data_offsets": (start, end)}
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=True).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


class _Pouring:
    """Sends tensors in the order of the file, whatever order the model gives them in."""

    def __init__(self, layout: Layout, send: Send) -> None:
        self._layout, self._send = layout, send
        self._parts: dict[str, list[Part]] = defaultdict(list)
        for part in layout.parts:
            self._parts[part.place].append(part)
        self._turns = list(self._parts)
        self._early: dict[str, Tensor] = {}

    def take(self, place: str, value: Tensor) -> None:
        """A place's tensor, with rows and all tokens; forgotten at once when nobody asked for it."""
        if place not in self._parts:
            return
        if not place.startswith("maps."):
            value = _cut(self._layout, place, value)
        if self._turns[0] != place:
            self._early[place] = value.clone()  # the model may go on to change it
            return
        self._pour(place, value)
        while self._turns and self._turns[0] in self._early:
            self._pour(self._turns[0], self._early.pop(self._turns[0]))

    def last(self, place: str) -> list[Part]:
        """The parts of the last place, one a row, to be sent block by block; empty when nobody asked for it."""
        if self._turns == [place]:
            return self._parts[self._turns.pop()]
        return []

    def send(self, part: Part, value: Tensor) -> None:
        """Values of a part, in its dtype."""
        for piece in _pieces(value.to("cpu", part.dtype)):
            self._send(piece)

    def close(self) -> None:
        """Raise `RuntimeError` when something that was announced never came."""
        if self._turns:
            raise RuntimeError(f"places were announced and never computed: {', '.join(self._turns)}")

    def _pour(self, place: str, value_BX: Tensor) -> None:
        self._turns.remove(place)
        for part in self._parts[place]:
            self.send(part, value_BX[part.row])


def _holder(layout: Layout, pouring: _Pouring) -> Callable[[Call], None] | None:
    """Takes what the attention function is given or makes; None when nobody asked for any of it."""
    wanted = {place for place in layout.places if place.partition(".")[0] in OF_CALL}

    def hold(call: Call) -> None:
        for name in OF_CALL:
            if (place := f"{name}.{call.layer}") in wanted:
                pouring.take(place, _rows(call, layout) if name == "maps" else of_call(call, name))

    return hold if wanted else None


def _rows(call: Call, layout: Layout) -> Tensor:
    """maps_BHTS of the asked positions; those of other queries are not computed where that can be helped."""
    if not call.divisible:
        return _cut(layout, f"maps.{call.layer}", call.maps())
    return torch.cat([call.maps(first, last) for first, last in _runs(layout.positions, layout.asked.tokens)], dim=2)


def _cut(layout: Layout, place: str, value: Tensor) -> Tensor:
    """The asked positions; some families flatten rows and tokens into one axis."""
    axes = PLACES[pattern(place)[0]].axes
    if axes[0] == "T":
        value = value.reshape(len(layout.asked.rows), layout.asked.tokens, *value.shape[1 - len(axes) :])
    if layout.positions == tuple(range(layout.asked.tokens)):
        return value
    return value.index_select(1 + axes.index("T"), torch.tensor(layout.positions, device=value.device))


def _pieces(value: Tensor) -> Iterator[bytes]:
    """The bytes of a tensor, little-endian and in C order."""
    flat = value.contiguous().reshape(-1).view(torch.uint8).numpy().data
    for start in range(0, len(flat), PIECE):
        yield bytes(flat[start : start + PIECE])


def _logits(loaded: Loaded, layout: Layout, states_TD: Tensor, row: int, cancel: Cancel | None) -> Iterator[Tensor]:
    """Blocks of logits_NV of the asked positions, by the model's own read-out, under the steers of a row."""
    steers = None if layout.asked.plan is None else layout.asked.plan.row(row)
    for first, last in _runs(layout.positions, max(1, LOGITS_BYTES // (4 * loaded.anatomy.shape.vocabulary))):
        if cancel is not None:
            cancel()
        yield forward.read_out(loaded, states_TD[first:last], steers and steers.part(first, last))


def _runs(positions: tuple[int, ...], most: int) -> Iterator[tuple[int, int]]:
    """Positions as ranges of neighbours, none longer than `most`."""
    first = last = positions[0]
    for position in positions[1:]:
        if position != last + 1 or last + 1 - first >= most:
            yield first, last + 1
            first = position
        last = position
    yield first, last + 1


def _positions(ask: CaptureAsk, tokens: int) -> tuple[int, ...]:
    if ask.positions is None:
        return tuple(range(tokens))
    if max(ask.positions) >= tokens:
        raise errors.CannotShow(
            f"There is no token {max(ask.positions)}",
            f"the text has {tokens} tokens, counted from 0 to {tokens - 1}",
            "Choose positions inside the text.", needed=max(ask.positions) + 1, available=tokens,
        )  # fmt: skip
    return ask.positions


def _part(loaded: Loaded, ask: CaptureAsk, asked: Asked, name: str, place: str, row: int, tokens: int) -> Part:
    found = loaded.points.found[place]
    free, lengths = iter(found.sizes), {"T": tokens, "S": asked.tokens}
    shape = tuple(lengths[axis] if axis in lengths else next(free) for axis in PLACES[pattern(place)[0]].axes)
    return Part(UNEDITED * row + name, place, row, shape, torch.float32 if ask.dtype == "float32" else found.dtype)


def _told(part: Part) -> CapturedTensor:
    place = PLACES[pattern(part.place)[0]]
    return CapturedTensor(place=part.place, axes=tuple(place.axes), unit=place.unit, about=place.about)


def _check_size(loaded: Loaded, layout: Layout, limits: Limits) -> None:
    if layout.bytes <= limits.capture_bytes:
        return
    largest = max(layout.parts, key=lambda part: part.bytes)
    smaller = loaded.model.dtype.itemsize < largest.dtype.itemsize
    raise errors.TooLarge(
        "This capture is too large",
        f"its {len(layout.parts)} tensors have {layout.bytes:,} bytes ({largest.name} alone {largest.bytes:,}), and "
        f"this server sends at most {limits.capture_bytes:,} (LMSCOPE_CAPTURE_BYTES)",
        "Name fewer points or layers, or only some `positions`" + (', or take dtype="model".' if smaller else "."),
        needed=layout.bytes,
        available=limits.capture_bytes,
    )
