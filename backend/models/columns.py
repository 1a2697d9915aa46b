"""The caches of a decode loop: each token's keys and values, with room for tokens to come, cut and put side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache
from transformers.cache_utils import DynamicLayer

AHEAD = 64
"""Columns that a cache grows by when it is full."""


class Columns(DynamicLayer):
    """Keys and values of one layer with room for tokens to come: a step copies none of those before it."""

    def __init__(self) -> None:
        super().__init__()
        self._rooms: dict[str, Tensor] = {}

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Put new tokens behind those held; all keys and all values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.keys = self._longer("keys", self.keys, key_states)
        self.values = self._longer("values", self.values, value_states)
        return self.keys, self.values

    def _longer(self, name: str, held: Tensor | None, more: Tensor) -> Tensor:
        first = held.shape[-2] if held is not None and held.numel() else 0
        last = first + more.shape[-2]
        if name not in self._rooms or self._rooms[name].shape[-2] < last:
            room = more.new_empty(*more.shape[:2], last + AHEAD, more.shape[-1])
            if held is not None and first:
                room[:, :, :first] = held
            self._rooms[name] = room
        self._rooms[name][:, :, first:last] = more
        return self._rooms[name][:, :, :last]


def columns() -> Cache:
    """An empty cache whose lines can be put beside others."""
    return Cache(layer_class_to_replicate=Columns)


def layers_of(cache: Cache | None) -> list[Any]:
    """The layers of a cache whose lines can be put beside others. Raises `TypeError` when it holds anything else."""
    layers: list[Any] = [] if cache is None else cache.layers
    if not layers or any(type(layer) is not Columns for layer in layers):
        raise TypeError("this cache holds more than keys and values of every token")
    return layers


def beside(caches: Sequence[Cache | None], gaps: Sequence[int]) -> Cache:
    """One cache of all lines, those of each cache behind so many columns of padding. Raises as `layers_of`."""
    whole = columns()
    with torch.inference_mode():
        for layer, parts in enumerate(zip(*map(layers_of, caches), strict=True)):
            if parts[0].is_initialized:
                keys, values = (
                    torch.cat([pad(part, (0, 0, gap, 0)) for part, gap in zip(each, gaps, strict=True)])
                    for each in ([part.keys for part in parts], [part.values for part in parts])
                )
                whole.update(keys, values, layer)
    return whole


def part_of(cache: Cache, places: Sequence[int], first: int) -> Cache:
    """The columns from `first` on of these lines. Raises as `layers_of`."""
    part = columns()
    with torch.inference_mode():
        for layer, whole in enumerate(layers_of(cache)):
            if whole.is_initialized:
                part.update(whole.keys[places, :, first:], whole.values[places, :, first:], layer)
    return part
