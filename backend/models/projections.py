"""Projections: which rows of which linear maps make a head's queries, keys and values, found at load by trying.

In one pass of a token, every linear map of an attention module that takes the stream gives numbers that say which
output they are, in digits of base 256 over rows of a batch (exact in half precision too). What reaches the attention
function says from where it came: fused maps, woven ones and separate ones are told apart without a family's name. Two
constant rows tell a constant factor from a norm in between. What is not certain is absent, with the reason.
Axes: D width of the stream, H query heads, G key/value heads, K numbers of a head, B rows of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from backend.models import forward
from backend.models.added import BY_WORDS, added_HTS, by_distance, factor
from backend.models.anatomy import matrix
from backend.models.kernel import Call
from backend.models.points import of_call

if TYPE_CHECKING:
    from backend.measure.reading import Norm
    from backend.models.loaded import Loaded

Kind = Literal["query", "key", "value"]
KINDS: tuple[Kind, ...] = ("query", "key", "value")
BASE, DIGITS = 256, 3
HIGH, LOW, MIXED, THROWN, LARGE = range(DIGITS, DIGITS + 5)
"""Rows of the batch behind the digits: all outputs 0.5; all 0.25; 0.5, but 0.25 for the first head's share; thrown;
all so large that a clip shows."""
ROWS = DIGITS + 5
FAR = 1e4
"""What the last row holds."""
EXACT = 1e-2
"""How far a digit that was read may be from a whole number; in half precision a factor blurs it."""
WATCHED = "its attention calls no shared function, and its scores come from no one product of queries and keys"


@dataclass(frozen=True)
class Projection:
    """How one kind of vector of a layer's heads is made from what its attention takes."""

    module: nn.Module
    index_HK: Tensor
    """Outputs of the module that make each head; G of them for keys and values."""
    scale_K: Tensor
    """float32: a constant factor behind the map, such as that of stretched rotary positions."""
    norm: Literal["", "head", "all"] = ""
    """A root-mean-square norm behind the map: none, of each head by itself, or of all outputs together."""
    gain_HK: Tensor | None = None
    """float32: the gain of that norm."""
    clip: float | None = None
    """What the model keeps the map's outputs below, and above its negative; None: nothing."""

    def weight(self, head: int) -> Tensor:
        """float32 [D, K]: W_Q, W_K or W_V of one head (or key/value head); without what follows."""
        weight_DX = matrix(self.module)
        assert weight_DX is not None, "as found"
        return weight_DX[:, self.index_HK[head].to(weight_DX.device)].float()

    @property
    def biased(self) -> bool:
        """Whether the map adds a bias."""
        bias = getattr(self.module, "bias", None)
        return bias is not None and bool(bias[self.index_HK.flatten().to(bias.device)].any())


@dataclass(frozen=True)
class Projections:
    """What was found."""

    of: Mapping[tuple[int, Kind], Projection] = field(default_factory=dict)
    """By layer and kind."""
    why: Mapping[tuple[int, Kind], str] = field(default_factory=dict)
    """Why one is absent."""
    norm: Mapping[int, Norm | None] = field(default_factory=dict)
    """By layer: the norm between the stream and the attention; None: it takes the stream as it is."""
    norm_why: Mapping[int, str] = field(default_factory=dict)
    """Why that is not known."""
    feed_norm: Mapping[int, Norm | None] = field(default_factory=dict)
    """By layer: the block's norm of what its feed-forward keys take; None: no norm gives it. Absent: not known."""
    scaling: Mapping[int, float] = field(default_factory=dict)
    """By layer: what the model multiplies the product of a query and a key with."""
    capped: Mapping[int, float] = field(default_factory=dict)
    """By layer: the soft-cap of its scores; 0: none."""

    @classmethod
    def found(cls, loaded: Loaded) -> Projections:
        """Look for them in a model that is open and has its taps."""
        probe = _Probe(loaded)
        of: dict[tuple[int, Kind], Projection] = {}
        why: dict[tuple[int, Kind], str] = {}
        for layer in loaded.anatomy.attention:
            for kind in KINDS:
                found = probe.projection(layer, kind)
                if isinstance(found, str):
                    why[layer, kind] = found
                else:
                    of[layer, kind] = found
        norms = {layer: probe.norm(layer) for layer in loaded.anatomy.attention}
        return cls(
            of, why, {layer: norm for layer, norm in norms.items() if not isinstance(norm, str)},
            {layer: norm for layer, norm in norms.items() if isinstance(norm, str)}, probe.feed_norms(), probe.scaling,
            probe.capped,
        )  # fmt: skip


def candidates(loaded: Loaded, layer: int) -> tuple[nn.Module, ...]:
    """The linear maps of a layer's attention that take the stream, but for the one that writes into it."""
    anatomy = loaded.anatomy
    return tuple(
        part for part in anatomy.attention[layer].modules()
        if part is not anatomy.projections.get(layer)
        and (weight := matrix(part)) is not None and weight.shape[0] == anatomy.shape.width
        and weight.is_floating_point()
    )  # fmt: skip


@contextmanager
def giving(changes: Mapping[nn.Module, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """While this is open, modules give what `changes` makes of what they gave. Only while a model is opened."""

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return changes[module](output)

    handles = [module.register_forward_hook(hook) for module in changes]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Probe:
    """One pass in which every map says where its outputs are, and one as the model is."""

    def __init__(self, loaded: Loaded) -> None:
        self._anatomy = loaded.anatomy
        self._maps = {layer: candidates(loaded, layer) for layer in loaded.anatomy.attention}
        self._first: dict[nn.Module, int] = {}
        for maps in self._maps.values():
            first = 0
            for part in maps:
                self._first[part] = first
                first += _outputs(part)
        self._seen: dict[tuple[int, str], Tensor] = {}
        self._added: dict[int, str] = {}
        self.scaling: dict[int, float] = {}
        self.capped: dict[int, float] = {}
        ids_B1 = torch.full((ROWS, 1), loaded.anatomy.shape.vocabulary // 2)
        marks = {part: _marking(first, loaded.anatomy.shape.heads) for part, first in self._first.items()}
        with giving(marks):
            forward.run(loaded, ids_B1, hold=self._hold, products=True, checked=False)
        self._taken: dict[Any, Tensor] = {}
        self._gave: list[tuple[nn.Module, Tensor, Tensor]] = []
        self._plain_run(loaded)

    def projection(self, layer: int, kind: Kind) -> Projection | str:
        """Where a kind of vector comes from, or why that is not known."""
        seen_BGK = self._seen.get((layer, kind))
        if seen_BGK is None:
            return WATCHED
        if kind != "value" and layer in self._added:
            return self._added[layer]
        if not self._maps[layer]:
            return "none of its maps takes the stream"
        high, low = seen_BGK[HIGH], seen_BGK[LOW]
        if bool((high == 0).any()) or not bool(seen_BGK[:LARGE].isfinite().all()):
            return "they are not a linear map of what the attention takes"
        if torch.allclose(low, high / 2, rtol=1e-3):
            return self._plain(layer, seen_BGK)
        if torch.allclose(low, high, rtol=1e-2):
            return self._normed(layer, seen_BGK)
        return "they are not a linear map of what the attention takes, nor one with a norm behind it"

    def _plain(self, layer: int, seen_BGK: Tensor) -> Projection | str:
        """A map, perhaps times a constant."""
        scale_GK = seen_BGK[HIGH] / 0.5
        digits_BGK = seen_BGK[:DIGITS] / scale_GK * BASE
        whole_BGK = digits_BGK.round()
        if float((digits_BGK - whole_BGK).abs().max()) > EXACT * (1 + float(whole_BGK.abs().max())):
            return "they are made in more than one step"
        number_GK = sum(whole_BGK[place].long() * BASE**place for place in range(DIGITS))
        for part in self._maps[layer]:
            index_GK = number_GK - self._first[part]
            if bool(((index_GK >= 0) & (index_GK < _outputs(part))).all()):
                if not torch.allclose(scale_GK, scale_GK[:1].expand_as(scale_GK), rtol=1e-3):
                    return "their heads are scaled apart"
                return Projection(part, index_GK.cpu(), scale_GK[0].cpu(), clip=_clip(seen_BGK[LARGE] / scale_GK))
        return "they come from more than one map, or from none that takes the stream"

    def _normed(self, layer: int, seen_BGK: Tensor) -> Projection | str:
        """A map with a root-mean-square norm behind it, its outputs in their own order."""
        heads, width = seen_BGK.shape[1:]
        gain_GK = seen_BGK[HIGH]
        alone: Literal["head", "all"] = "all"
        if torch.allclose(
            seen_BGK[MIXED, -1], seen_BGK[HIGH, -1], rtol=1e-2
        ):  # the first head is not the last's affair
            alone = "head"
        axes = (-1,) if alone == "head" else (-2, -1)
        for part in self._maps[layer]:
            for start in range(0, _outputs(part) - heads * width + 1, heads * width):
                index_GK = torch.arange(start, start + heads * width).view(heads, width)
                thrown_GK = _thrown(self._first[part] + heads * width + start)[self._first[part] + index_GK].to(gain_GK)
                if torch.allclose(_unit(seen_BGK[THROWN] / gain_GK, axes), _unit(thrown_GK, axes), atol=1e-2):
                    return Projection(part, index_GK, torch.ones(width), alone, gain_GK.cpu())
        return "a norm or a clip stands behind a map, and it is no root-mean-square norm of each head or of all of them"

    def norm(self, layer: int) -> Norm | str | None:
        """The norm between what a block takes and its attention."""
        taken, entered = self._taken.get(layer), self._taken.get(("block", layer))
        if taken is None or entered is None:
            return "what its attention takes was not seen"
        if _equal(taken, entered):
            return None
        for module, args, gave in self._gave:
            if _equal(gave, taken) and _equal(args, entered):
                return self._anatomy.norms[module]
        return "what its attention takes is neither the stream nor a norm of it"

    def feed_norms(self) -> dict[int, Norm | None]:
        """The norm whose output the feed-forward keys of each block take."""
        found: dict[int, Norm | None] = {}
        for layer, block in enumerate(self._anatomy.blocks):
            taken, inside = self._taken.get(("feed", layer)), set(block.modules())
            if taken is not None:
                given = [module for module, _, gave in self._gave if module in inside and _equal(gave, taken)]
                found[layer] = self._anatomy.norms[given[0]] if given else None
        return found

    def _hold(self, call: Call) -> None:
        if call.made_BHTS is not None:
            self._seen[call.layer, "value"] = of_call(call, "value")[:, 0].float()
            self._hold_product(call)
            return
        for kind in KINDS:
            seen_BGK = of_call(call, kind)[:, 0].float()
            if kind == "key" and call.key_BGSD.shape[1] != call.value_BGSD.shape[1]:
                continue
            self._seen[call.layer, kind] = seen_BGK
        self.scaling[call.layer] = float(call.options.get("scaling") or (call.query_BHTD.shape[-1] or 1) ** -0.5)
        self.capped[call.layer] = float(call.options.get("softcap") or 0.0)

    def _hold_product(self, call: Call) -> None:
        """Of watched attention."""
        if (found := call.product) is None:
            return
        if (scale := factor(found, slice(LARGE))) is None:
            self._added[call.layer] = BY_WORDS
            return
        self._seen[call.layer, "query"] = found.query_BHTK[:, :, 0].float()
        self._seen[call.layer, "key"] = found.key_BGSK[:, :, 0].float()
        self.scaling[call.layer], self.capped[call.layer] = scale, 0.0

    def _check_product(self, call: Call) -> None:
        """Whether distance alone decides what an ordinary text adds to its scores."""
        if call.product is None or call.layer not in self.scaling or call.mask_BTS is None:
            return
        added = added_HTS(call.product, self.scaling[call.layer])
        if by_distance(added, call.mask_BTS[0, 0]) is None:
            self._added[call.layer] = BY_WORDS

    def _plain_run(self, loaded: Loaded) -> None:
        """As the model is: what its attention takes, what its blocks take, and what its norms made of that."""
        handles = [maps[0].register_forward_pre_hook(self._take(layer)) for layer, maps in self._maps.items() if maps]
        handles += [
            loaded.anatomy.blocks[layer].register_forward_pre_hook(self._enter(layer), with_kwargs=True)
            for layer in self._maps
        ]
        handles += [
            keys[0].register_forward_pre_hook(self._take(("feed", layer)))
            for layer, keys in loaded.anatomy.keys.items() if keys
        ]  # fmt: skip
        handles += [norm.register_forward_hook(self._left) for norm in loaded.anatomy.norms]
        try:
            ids_1T = torch.arange(4)[None] + loaded.anatomy.shape.vocabulary // 2
            forward.run(loaded, ids_1T, hold=self._check_product if loaded.anatomy.watched else None, products=True)
        finally:
            for handle in handles:
                handle.remove()

    def _take(self, layer: int | tuple[str, int]) -> Callable[..., None]:
        def take(module: nn.Module, args: tuple[Any, ...]) -> None:
            if args and isinstance(args[0], Tensor):
                self._taken[layer] = args[0].clone()

        return take

    def _enter(self, layer: int) -> Callable[..., None]:
        def enter(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            taken = args[0] if args else named.get("hidden_states")
            if isinstance(taken, Tensor):
                self._taken["block", layer] = taken.clone()

        return enter

    def _left(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and args and isinstance(args[0], Tensor):
            self._gave.append((module, args[0].clone(), output.clone()))


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, in whatever shape."""
    return one.numel() == other.numel() and torch.equal(one.flatten(), other.flatten())


def _clip(large_GK: Tensor) -> float | None:
    """The largest number that is left of large ones, where it is smaller."""
    largest = float(large_GK.max())
    return largest if largest < 0.9 * FAR else None


def _outputs(part: nn.Module) -> int:
    weight = matrix(part)
    assert weight is not None, "a candidate"
    return weight.shape[1]


def _digits(number: Tensor) -> Tensor:
    """Digits [DIGITS, …] of numbers, each over the base: below 1, and exact in half precision."""
    return torch.stack([number // BASE**place % BASE for place in range(DIGITS)]) / BASE


def _thrown(count: int) -> Tensor:
    """The first so many of a list of thrown numbers, exact in half precision."""
    return torch.randint(1, BASE, (count,), generator=torch.Generator().manual_seed(0)) / BASE


def _marking(first: int, heads: int) -> Callable[[Tensor], Tensor]:
    """What a map gives instead: rows of the batch that say which output each is."""

    def mark(output: Tensor) -> Tensor:
        count = output.shape[-1]
        if output.shape[0] != ROWS:  # of something that is no text
            return output
        number_X = torch.arange(first, first + count)
        mixed_X = torch.full((count,), 0.5)
        mixed_X[: max(1, count // heads)] = 0.25
        constant_2X = torch.tensor([[0.5], [0.25]]).expand(2, count)
        thrown_X = _thrown(first + count)[first:]
        large_X = torch.full((count,), FAR)
        rows_BX = torch.cat([_digits(number_X), constant_2X, mixed_X[None], thrown_X[None], large_X[None]])
        return rows_BX.to(output).reshape(len(rows_BX), *[1] * (output.ndim - 2), count).expand_as(output).clone()

    return mark


def _unit(numbers_GK: Tensor, axes: tuple[int, ...]) -> Tensor:
    return numbers_GK / numbers_GK.norm(dim=axes, keepdim=True)
