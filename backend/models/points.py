"""Points: which places of the forward pass a model lets out, in which shape, and which names of TransformerLens fit.

One pass of four tokens at load, through the taps that every run uses: nothing is told from the name of a family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from backend import errors
from backend.models import forward
from backend.models.anatomy import matrix
from backend.models.kernel import Call

if TYPE_CHECKING:
    from backend.models.loaded import Loaded

TOKENS = 4
AT_TAPS = ("embedding", "heads", "ffn", "ffn_out", "residual")
"""Places that taps read."""
OF_CALL = ("query", "key", "value", "maps")
"""Places that the attention function is given or makes."""
TURNED = 1e-3
"""A rotation keeps the length of a vector to this share of it."""
ADDED = 1e-2
"""What is left of the stream after everything that was added is taken away again may be this share of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """One place as the probe found it."""

    sizes: tuple[int, ...]
    """Of the axes that do not depend on the text."""
    dtype: torch.dtype


@dataclass(frozen=True)
class Points:
    """What the probe found."""

    found: Mapping[str, Found] = field(default_factory=dict)
    """By place, in the order in which the model makes them."""
    facts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """`plain`, `rotated`, `chain`, `embedding`, `norm`, `added`: the places of which it is true."""
    no_logits: str = ""
    """Why the model gives no logits."""

    @classmethod
    def of(cls, loaded: Loaded) -> Points:
        """Ask a model that is open and has its taps."""
        probe = _Probe(loaded)
        return cls(
            {place: Found(_sizes(place, seen), seen.dtype) for place, seen in probe.seen.items()},
            {fact: frozenset(filter(holds, probe.seen)) for fact, holds in probe.facts.items()},
            probe.no_logits,
        )


def of_call(call: Call, name: str) -> Tensor:
    """What the attention function is given or makes: `query`, `key`, `value` [B, T, heads, W], `maps` [B, H, T, S]."""
    if name == "maps":
        return call.maps()
    tensors = {"query": call.query_BHTD, "key": call.key_BGSD, "value": call.value_BGSD}
    return tensors[name].transpose(1, 2)


def _sizes(place: str, seen: Tensor) -> tuple[int, ...]:
    return (seen.shape[1],) if place.startswith("maps.") else tuple(seen.shape[2:])


class _Probe:
    """Every place of one pass, and under watch what the modules around them take and give."""

    def __init__(self, loaded: Loaded) -> None:
        self.seen: dict[str, Tensor] = {}
        self.facts: dict[str, Callable[[str], bool]] = {
            "plain": self._plain, "rotated": self._rotated, "chain": self._chain, "embedding": self._embedding,
            "norm": self._norm, "added": self._added,
        }  # fmt: skip
        self._anatomy = loaded.anatomy
        self._given: dict[nn.Module, Tensor] = {}
        self._taken: dict[int, Tensor] = {}
        ids = torch.arange(TOKENS) + loaded.anatomy.shape.vocabulary // 2
        taps = [
            f"{tap}.{layer}"
            for tap in ("heads", "ffn", "ffn_out", "residual")
            for layer in range(loaded.anatomy.shape.layers)
        ]
        with self._watching():
            places = ("embedding", *taps) if loaded.anatomy.stream else taps  # else what enters is no one stream either
            read = {place: self._keeper(place) for place in places}
            self.seen["final"] = forward.run(loaded, ids[None], read=read, hold=self._hold)
        self._given[loaded.anatomy.embedding] = loaded.anatomy.embedding(ids[None].to(loaded.anatomy.device))
        self.no_logits = self._read_out(loaded)

    def _read_out(self, loaded: Loaded) -> str:
        try:
            self.seen["logits"] = forward.read_out(loaded, self.seen["final"][0])[None]
        except errors.CannotShow as refusal:
            return refusal.why
        return ""

    def _keeper(self, place: str) -> Callable[[Tensor], None]:
        def keep(value: Tensor) -> None:
            self.seen[place] = value.reshape(1, TOKENS, *value.shape[-1 - place.startswith("heads") :]).clone()

        return keep

    def _hold(self, call: Call) -> None:
        for name in OF_CALL if call.made_BHTS is None else ("value", "maps"):
            self.seen[f"{name}.{call.layer}"] = of_call(call, name)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        inside = {part for attention in self._anatomy.attention.values() for part in attention.modules()}
        watched = (
            inside
            | set(self._anatomy.projections.values())
            | ({self._anatomy.final_norm} if self._anatomy.final_norm is not None else set())
        )
        handles = [part.register_forward_hook(self._leave) for part in watched]
        for layer, block in enumerate(self._anatomy.blocks):
            handles.append(block.register_forward_pre_hook(self._enter(layer), with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            self._given[module] = output.clone()

    def _enter(self, layer: int) -> Callable[..., None]:
        def enter(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            taken = args[0] if args else named.get("hidden_states")
            if isinstance(taken, Tensor):
                self._taken[layer] = taken.clone()

        return enter

    def _inside(self, place: str) -> list[tuple[nn.Module, Tensor]]:
        """What the modules inside the place's attention gave."""
        attention = self._anatomy.attention.get(int(place.partition(".")[2]))
        parts = () if attention is None else attention.modules()
        return [(part, self._given[part]) for part in parts if part in self._given]

    def _plain(self, place: str) -> bool:
        """Whether a query, key or value is what a linear map gave, or one of the three parts of what it gave."""
        if place.partition(".")[0] not in ("query", "key", "value"):
            return False
        seen = self.seen[place]
        given = [output for part, output in self._inside(place) if matrix(part) is not None]
        return any(torch.equal(seen, part) for output in given for part in _parts(output, seen))

    def _rotated(self, place: str) -> bool:
        """Whether a query or key has the lengths of what a module gave, and at later tokens other directions."""
        if place.partition(".")[0] not in ("query", "key") or self._plain(place):
            return False
        seen = self.seen[place].float()
        candidates = [part.float() for _, output in self._inside(place) for part in _parts(output, self.seen[place])]
        return any(
            torch.allclose(seen.norm(dim=-1), one.norm(dim=-1), rtol=TURNED) and not torch.equal(seen, one)
            for one in candidates
        )

    def _chain(self, place: str) -> bool:
        """Whether the next block takes exactly what this place holds."""
        name, _, layer = place.partition(".")
        if name not in ("embedding", "residual"):
            return False
        following = self._taken.get(0 if name == "embedding" else int(layer) + 1)
        return following is not None and torch.equal(following, self.seen[place])

    def _embedding(self, place: str) -> bool:
        """Whether what enters block 0 is the token embedding and nothing else."""
        return place == "embedding" and torch.equal(self.seen[place], self._given[self._anatomy.embedding])

    def _norm(self, place: str) -> bool:
        """Whether the final states are what the final norm gave."""
        given = self._given.get(self._anatomy.final_norm) if self._anatomy.final_norm is not None else None
        return (
            place == "final" and given is not None and torch.equal(given.reshape_as(self.seen[place]), self.seen[place])
        )

    def _added(self, place: str) -> bool:
        """Whether the block adds to the stream what its write matrix gives, and what W_O gives, and nothing else."""
        name, _, number = place.partition(".")
        if name != "ffn_out" or (layer := int(number)) not in self._taken or f"residual.{layer}" not in self.seen:
            return False
        projection = self._anatomy.projections.get(layer)
        if projection is None or projection not in self._given:
            return False
        after = self.seen[f"residual.{layer}"].float()
        left = after.clone()
        for part in (self._taken[layer], self._given[projection], self.seen[place]):
            left -= part.float().reshape_as(after)
        return bool(left.norm() <= ADDED * after.norm())


def _parts(output: Tensor, like: Tensor) -> Iterator[Tensor]:
    """An output seen as heads [B, T, heads, W]: as it is, or in the parts that a fused projection may have."""
    heads, width = like.shape[2:]
    if output.numel() == like.numel():
        yield output.transpose(1, 2) if output.ndim == 4 and output.shape[1] == heads else output.reshape(like.shape)
        return
    fused = output.reshape(1, TOKENS, -1)
    for start in range(0, fused.shape[-1] - heads * width + 1, width):
        yield fused[..., start : start + heads * width].reshape(like.shape)
    if fused.shape[-1] % heads == 0 and fused.shape[-1] > heads * width:
        yield from fused.reshape(1, TOKENS, heads, -1).unfold(-1, width, width).unbind(-2)
