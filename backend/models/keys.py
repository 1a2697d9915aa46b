"""Keys: the matrices whose rows make a feed-forward unit's coefficient, found at load by trying.

Candidates come from structure (`Anatomy.keys`). Then it is tried: units are permuted behind them and permuted back
before the write matrix, which must leave every coefficient as it was; of two maps, `up` is the one in which the
coefficient is linear. What is not certain is absent. Axes: F units, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from backend.models import forward
from backend.models.anatomy import Anatomy, matrix
from backend.models.readout import tolerance

if TYPE_CHECKING:
    from backend.models.loaded import Loaded

TOKENS = 4
Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Part:
    """The whole output of a linear map, or one of two parts of it: one number a unit."""

    module: nn.Module
    parts: int = 1
    place: int = 0
    woven: bool = False
    """The two parts take turns (g u g u …) instead of lying one after the other."""

    def rows(self) -> Tensor:
        """The part's weight as [F, D]: row i makes unit i's number."""
        weight_XD = matrix(self.module).T  # type: ignore[union-attr]
        return weight_XD[self._taken(len(weight_XD))]

    def changing(self, change: Change) -> Callable[..., Tensor]:
        """A hook that changes this part of the module's output."""

        def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            taken, output = self._taken(output.shape[-1]), output.clone()
            output[..., taken] = change(output[..., taken])
            return output

        return hook

    def _taken(self, length: int) -> slice:
        if self.woven:
            return slice(self.place, length, self.parts)
        each = length // self.parts
        return slice(self.place * each, (self.place + 1) * each)


@dataclass(frozen=True)
class Keys:
    """What was found."""

    of: Mapping[int, Mapping[str, Part]] = field(default_factory=dict)
    """By layer: `key`, or `gate` and `up`; empty when not certain."""
    why: str = "its keys were not looked for"
    """Why `of` is empty."""

    @classmethod
    def found(cls, loaded: Loaded) -> Keys:
        """Look for them in a model that is open and has its taps."""
        anatomy = loaded.anatomy
        if not anatomy.write:
            return cls(why=anatomy.write_why)
        layouts = {layer: _layouts(anatomy, layer) for layer in anatomy.write}
        unknown = [layer for layer, found in layouts.items() if not found]
        if unknown:
            return cls(why=f"block {unknown[0]} has no one map, or pair of maps, from the stream to its units")
        probe, certain = _Probe(loaded), dict[int, tuple[Part, ...]]()
        for attempt in range(max(map(len, layouts.values()))):
            left = {layer: ways for layer, ways in layouts.items() if layer not in certain and attempt < len(ways)}
            certain |= probe.certain({layer: ways[attempt] for layer, ways in left.items()})
        missing = [layer for layer in layouts if layer not in certain]
        if missing:
            return cls(why=f"what makes the coefficients of block {missing[0]} is not one number a unit of such a map")
        named = probe.named(certain)
        unclear = [layer for layer in certain if layer not in named]
        return cls(why=f"which map of block {unclear[0]} is the gate is not clear") if unclear else cls(named, "")


def _layouts(anatomy: Anatomy, layer: int) -> list[tuple[Part, ...]]:
    """Ways in which the maps of a block may make its units' numbers."""
    maps, units = anatomy.keys[layer], anatomy.units or 0
    single = [part for part in maps if _gives(part) == units]
    double = [part for part in maps if _gives(part) == 2 * units]
    if len(single) in (1, 2) and not double:
        return [tuple(map(Part, single))]
    if len(double) == 1 and not single:
        return [(Part(double[0], 2, 0, woven), Part(double[0], 2, 1, woven)) for woven in (False, True)]
    return []


def _gives(part: nn.Module) -> int | None:
    weight = matrix(part)
    return None if weight is None else weight.shape[1]


class _Probe:
    """Passes of four tokens in which parts are changed, and changed back before the units are written."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded, units = loaded, loaded.anatomy.units or 0
        self._ids = torch.arange(TOKENS) + loaded.anatomy.shape.vocabulary // 2
        self._order_F = torch.randperm(units, generator=torch.Generator().manual_seed(0)).to(loaded.anatomy.device)
        self._back_F = self._order_F.argsort()
        self._plain = self._run((), lambda output: output, lambda units: units)

    def certain(self, layouts: Mapping[int, tuple[Part, ...]]) -> dict[int, tuple[Part, ...]]:
        """The layouts of layers whose coefficients are permuted as the layout is."""
        parts = [part for way in layouts.values() for part in way]
        found = self._run(parts, lambda output: output[..., self._order_F], lambda units: units[..., self._back_F])
        return {layer: way for layer, way in layouts.items() if self._same(layer, found)}

    def named(self, certain: Mapping[int, tuple[Part, ...]]) -> dict[int, dict[str, Part]]:
        """Parts by name; of two, the coefficient is linear in `up` and not in `gate`."""
        pairs = {layer: parts for layer, parts in certain.items() if len(parts) == 2}
        linear = [self._linear(pairs, place) for place in (0, 1)] if pairs else [set[int](), set[int]()]
        named = {layer: {"key": parts[0]} for layer, parts in certain.items() if len(parts) == 1}
        for layer, (first, second) in pairs.items():
            if (layer in linear[0]) != (layer in linear[1]):
                gate, up = (second, first) if layer in linear[0] else (first, second)
                named[layer] = {"gate": gate, "up": up}
        return named

    def _linear(self, pairs: Mapping[int, tuple[Part, ...]], place: int) -> set[int]:
        """The layers whose coefficients follow this part, its sign included: a rectifier follows a positive factor."""
        parts = [both[place] for both in pairs.values()]
        found = self._run(parts, lambda output: output * -2, lambda units: units / -2)
        return {layer for layer in pairs if self._same(layer, found)}

    def _same(self, layer: int, found: Mapping[int, Tensor]) -> bool:
        plain = self._plain[layer]
        most = float(plain.abs().max())
        return most > 0 and float((found[layer] - plain).abs().max()) <= tolerance(self._loaded.model.dtype) * most

    def _run(self, parts: Sequence[Part], change: Change, back: Change) -> dict[int, Tensor]:
        """Coefficients of every layer when these parts are changed, changed back in the layers of these parts."""
        anatomy, seen = self._loaded.anatomy, dict[int, Tensor]()
        changed = {part.module for part in parts}
        layers = {layer for layer in anatomy.write if changed & set(anatomy.blocks[layer].modules())}

        def before(layer: int) -> Callable[..., Any]:
            def write(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
                seen[layer] = back(args[0]) if layer in layers else args[0].clone()
                return (seen[layer], *args[1:])

            return write

        handles = [part.module.register_forward_hook(part.changing(change)) for part in parts]
        handles += [write.register_forward_pre_hook(before(layer)) for layer, write in anatomy.write.items()]
        try:
            forward.run(self._loaded, self._ids[None])
        finally:
            for handle in handles:
                handle.remove()
        return seen
