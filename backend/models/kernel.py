"""The one attention function that every loaded model calls, registered with transformers as `lmscope`.

A model's own config says which of the two forms it runs, so models of both kinds live side by side:

- `lmscope`: the family's own `eager_attention_forward` with `eager_mask` (on a CPU, and where a family has no SDPA).
- `lmscope-fused`: SDPA with `sdpa_mask`; maps come from the eager function beside it, with the mask made additive.

The two masks are never mixed: a boolean mask added by an eager function is silently wrong.
Axes: B rows, T queries, S keys, H heads, G key/value heads, D head width.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask, sdpa_mask

from backend import errors
from backend.measure.fused import Scores
from backend.models import taps
from backend.models.watched import Product

EAGER = "lmscope"
FUSED = "lmscope-fused"
Eager = Callable[..., tuple[Tensor, Tensor]]
SHOWN = {EAGER: "eager", FUSED: "sdpa, maps by eager"}
"""How a card and the conditions name a kernel."""
ANSWERS_TO = {EAGER: "eager", FUSED: "sdpa"}
"""The kernel of transformers whose masks and numbers each of ours has."""


class Name(str):
    """One of our names, as a config carries it: it is found under its own and equal to what it answers to.

    Some families ask whether their kernel is "eager" or "sdpa" before they hide keys (sparse attention), and hide
    nothing from a kernel that they do not know: their numbers would silently be others.
    """

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or ANSWERS_TO[str(self)] == other

    def __ne__(self, other: object) -> bool:
        return not self == other


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments one layer gave to its attention function: enough to compute its maps again."""

    layer: int
    module: nn.Module
    query_BHTD: Tensor
    key_BGSD: Tensor
    value_BGSD: Tensor
    mask_BTS: Tensor | None
    """Boolean [B, 1, T, S], True where a query sees a key; None: every query sees every key."""
    options: dict[str, Any]
    """The other arguments: scaling, softcap, sinks, …"""
    made_BHTS: Tensor | None = None
    """The maps themselves, of a module that calls no attention function: its queries and keys are not known (D = 0)."""
    product: Product | None = None
    """Of such a module, what its scores can come from, where the run asks for it."""

    @classmethod
    def watched(
        cls, layer: int, module: nn.Module, maps_BHTS: Tensor, value_BGSD: Tensor, mask_BTS: Tensor,
        product: Product | None = None,
    ) -> Call:  # fmt: skip
        """The call of a module that was only watched."""
        query_BHTD = maps_BHTS.new_empty(*maps_BHTS.shape[:3], 0)
        key_BGSD = maps_BHTS.new_empty(len(maps_BHTS), value_BGSD.shape[1], maps_BHTS.shape[3], 0)
        return cls(layer, module, query_BHTD, key_BGSD, value_BGSD, mask_BTS, {}, maps_BHTS, product)

    @property
    def bytes(self) -> int:
        """Bytes that keeping this call holds."""
        tensors = [self.query_BHTD, self.key_BGSD, self.value_BGSD, self.made_BHTS]
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)

    @property
    def same_rows(self) -> bool:
        """Whether the first two rows of the batch ask the same of the same keys, so that their maps are equal."""
        tensors = (self.query_BHTD, self.key_BGSD) if self.made_BHTS is None else (self.made_BHTS,)
        return all(torch.equal(tensor[0], tensor[1]) for tensor in tensors)

    @property
    def divisible(self) -> bool:
        """Whether some queries and keys can be computed without the others: no argument depends on their place."""
        return not any(isinstance(value, Tensor) and value.ndim >= 3 for value in self.options.values())

    def maps(self, first: int = 0, last: int | None = None, end: int | None = None) -> Tensor:
        """maps_BHTS (float32) of the query rows [first, last) on the keys [0, end), by the family's eager function.

        Keys from `end` on must be hidden from these rows. No weight depends on the values: one number of each will do.
        """
        if self.made_BHTS is not None:
            return self.made_BHTS[:, :, first:last, :end]
        if not self.divisible and (first, last, end) != (0, None, None):
            return self.maps()[:, :, first:last, :end]
        query_BHTD, key_BGSD = self.query_BHTD[:, :, first:last].float(), self.key_BGSD[:, :, :end].float()
        value_BGS1 = self.value_BGSD[:, :, :end, :1].float()
        mask = None if self.mask_BTS is None else additive(self.mask_BTS[:, :, first:last, :end])
        return eager_of(self.module)(self.module, query_BHTD, key_BGSD, value_BGS1, mask, **self.options)[1]

    @property
    def scores(self) -> Scores | None:
        """What the weights of the first row of the batch are the softmax of; None where an argument may change that.

        Said from the arguments alone: nothing relies on it before it was seen to equal the maps.
        """
        tensors = [name for name, value in self.options.items() if isinstance(value, Tensor) and name != "position_ids"]
        if tensors or self.made_BHTS is not None or self.query_BHTD.shape[1] % self.key_BGSD.shape[1]:
            return None
        scale = self.options.get("scaling") or self.query_BHTD.shape[-1] ** -0.5
        return Scores(self.query_BHTD[0], self.key_BGSD[0], float(scale), float(self.options.get("softcap") or 0.0))

    def row(self, place: int) -> Call:
        """The call of one row of the batch."""
        if len(self.query_BHTD) == 1:
            return self
        one = slice(place, place + 1)
        mask = self.mask_BTS if self.mask_BTS is None or len(self.mask_BTS) == 1 else self.mask_BTS[one]
        return replace(
            self, query_BHTD=self.query_BHTD[one], key_BGSD=self.key_BGSD[one], value_BGSD=self.value_BGSD[one],
            mask_BTS=mask, made_BHTS=None if self.made_BHTS is None else self.made_BHTS[one],
        )  # fmt: skip


def choose(model_class: type, device: torch.device) -> str:
    """The kernel for a model: fused where the family supports SDPA and the device gains by it."""
    return FUSED if device.type == "cuda" and getattr(model_class, "_supports_sdpa", False) else EAGER


def put(model: PreTrainedModel, chosen: str = "") -> str:
    """Give a model the kernel it is to run; one that takes none of ours runs its own eager form, and is watched."""
    chosen = chosen or choose(type(model), model.device)
    model.set_attn_implementation(chosen)
    if model.config._attn_implementation != chosen:
        model.config._attn_implementation = "eager"
        return EAGER
    _rename(model, Name)
    return chosen


@contextmanager
def without(model: PreTrainedModel) -> Iterator[None]:
    """The model as it runs without us, with transformers' own eager kernel. Only while nobody else uses it."""
    _rename(model, str)
    ours = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(ours)
        _rename(model, Name)


def _rename(model: PreTrainedModel, kind: type[str]) -> None:
    """Every config of a model that carries a name of ours carries it as this kind of string."""
    configs = {id(config): config for part in model.modules() if (config := getattr(part, "config", None)) is not None}
    for config in configs.values():
        name = getattr(config, "_attn_implementation", None)
        if isinstance(name, str) and str(name) in ANSWERS_TO:
            config._attn_implementation_internal = kind(str(name))


def eager_of(module: nn.Module) -> Eager:
    """The family's own eager function: the one in the source file of the module's class."""
    for kind in type(module).__mro__:
        found: Eager | None = getattr(sys.modules[kind.__module__], "eager_attention_forward", None)
        if found is not None:
            return found
    raise LookupError(f"{type(module).__module__} has no eager_attention_forward")


def additive(mask: Tensor) -> Tensor:
    """A boolean mask as float32: 0 where a key is seen, the smallest float where it is not."""
    return torch.where(mask, 0.0, torch.finfo(torch.float32).min)


def _eager(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> Any:
    run = taps.current()
    if run is not None and run.cancel is not None:
        run.cancel()
    wide = [tensor.float() for tensor in (query, key, value)]  # the same tensors when they are float32 already
    wide_mask = None if attention_mask is None else attention_mask.float()
    merged, maps_BHTS = eager_of(module)(module, *wide, wide_mask, **options)
    if run is not None and module in run.layer_of and (run.see or run.hold):
        seen = None if attention_mask is None else _seen(run, attention_mask)
        call = Call(run.layer_of[module], module, query, key, value, seen, options)
        tell(run, call, lambda: maps_BHTS)
    return merged.to(query.dtype), maps_BHTS


def _fused(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> Any:
    run = taps.current()
    if run is not None and run.cancel is not None:
        run.cancel()
    merged, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    if run is not None and module in run.layer_of and (run.see or run.hold):
        seen = _seen_by_sdpa(run, module, query, key, attention_mask, options)
        call = Call(run.layer_of[module], module, query, key, value, seen, options)
        tell(run, call, call.maps)
    return merged, None


def tell(run: taps.Run, call: Call, maps: Callable[[], Tensor]) -> None:
    """Let a run see a call and its maps. Raises `CannotShow` when they are not of tokens on tokens."""
    keys = call.key_BGSD.shape[2]
    if run.tokens not in (None, keys):
        raise errors.CannotShow(
            "The attention of this text cannot be shown",
            f"layer {call.layer} looks at {keys} keys where the text has {run.tokens} tokens: they stand for others",
            "Choose a model whose keys are tokens.",
        )
    if run.hold is not None:
        run.hold(call)
    if run.see is not None:
        run.see(call, maps())


def _seen(run: taps.Run, mask: Tensor) -> Tensor:
    """The boolean form of a mask, made once for all layers that share it."""
    if mask.dtype == torch.bool:
        return mask
    if id(mask) not in run.masks:
        run.masks[id(mask)] = (mask, mask > torch.finfo(mask.dtype).min / 2)
    return run.masks[id(mask)][1]


def _seen_by_sdpa(
    run: taps.Run, module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> Tensor | None:
    """What SDPA lets each query see: its mask, or the triangle it draws itself when it is given none."""
    if mask is not None:
        return _seen(run, mask)
    asked = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if asked is None else asked
    if not causal or query.shape[2] == 1:
        return None
    if -1 not in run.masks:
        square = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
        run.masks[-1] = (square, square)
    return run.masks[-1][1]


AttentionInterface.register(EAGER, _eager)
AttentionMaskInterface.register(EAGER, eager_mask)
AttentionInterface.register(FUSED, _fused)
AttentionMaskInterface.register(FUSED, sdpa_mask)
