"""Replay: one token's way through the residual stream, affine in what every part wrote into it.

A text of one token goes through the trunk again, and each part gives what it gave to that token in the run that is
explained: what enters block 0, what attention wrote, what the feed-forward part wrote. Norms keep the divisors of that
run. Then the final state is an affine function of these vectors, found without knowing how a family joins them
(multipliers, norms after a part or upon the stream, parallel parts), and gradients of it are exact.

Axes: D width, F units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.plan import Plan
from backend.models.written import Written

SOURCES = ("embedding", "attention_out", "ffn_out")


Times = Callable[[int], float]


def as_it_was(place: int) -> float:
    """Every source as it was written."""
    return 1.0


@dataclass
class Replay:
    """One token of one row of a run; its graph stays for every question about that token."""

    sources: dict[str, Tensor] = field(default_factory=dict)
    """What was written, by tap; and `edit.L` what an edit of the stream puts there, `bias.N` the bias of a norm."""
    streams: dict[int, Tensor] = field(default_factory=dict)
    """By block: what it gives, before edits of the stream."""
    units: dict[int, Tensor] = field(default_factory=dict)
    """By block: its coefficients as they follow from the stream and its attention."""
    factors: list[Tensor] = field(default_factory=list)
    """Of every norm, as they were called: one over its divisor."""
    final_D: Tensor = field(default_factory=lambda: torch.empty(0))
    """What the read-out takes."""
    times: Times = as_it_was
    """By what each source, in the order they come, is multiplied."""

    def gradients(self, direction_D: Tensor) -> dict[str, Tensor]:
        """float32 [D] by source: what one unit of it adds to (final state · direction); 0 where it reaches nothing."""
        names = list(self.sources)
        found = torch.autograd.grad(
            self.final_D, [self.sources[name] for name in names], direction_D.to(self.final_D), retain_graph=True,
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        return {name: gradient_D.float() for name, gradient_D in zip(names, found, strict=True)}

    def adds(self, tap: str, layer: int) -> Tensor:
        """float32 [D]: what a source adds to the stream that a block gives."""
        source_D, stream_D = self.sources[tap], self.streams[layer]
        along_D = torch.zeros_like(stream_D, requires_grad=True)
        (back_D,) = torch.autograd.grad(stream_D, source_D, along_D, create_graph=True)
        # Back is linear in `along`: its gradient by a source is the way forward.
        (found_D,) = torch.autograd.grad(back_D, along_D, source_D.detach())
        return found_D.float()

    def parallel(self, layer: int) -> bool:
        """Whether the feed-forward part of a block reads nothing of what its attention has written."""
        units = self.units[layer]
        (found_D,) = torch.autograd.grad(
            units, self.sources[f"attention_out.{layer}"], torch.ones_like(units), retain_graph=True, allow_unused=True
        )
        return found_D is None


def replay(
    loaded: Loaded, written: Written, id: int, row: int, token: int, plan: Plan | None, times: Times = as_it_was,
    factors: list[Tensor] | None = None,
) -> Replay:  # fmt: skip
    """Follow one token again, with every source `times` what it was and norms with given factors.

    Nothing says yet that its final state is that of the run: whoever asks must see to that.
    """
    made = Replay(times=times)
    given = [tap for tap in written.by_tap if tap.partition(".")[0] in SOURCES]
    instead: dict[str, Callable[[Tensor], Tensor]] = {
        tap: _source(made, written.at(tap, row, token), tap) for tap in given
    }
    for layer in range(loaded.anatomy.shape.layers if loaded.anatomy.stream else 0):
        instead[f"residual.{layer}"] = _stream(made, layer, row, token, plan)
    read = {f"ffn.{layer}": _reader(made, layer) for layer in loaded.anatomy.write}
    made.final_D = forward.replay(loaded, id, instead, freeze=_freezer(loaded, made, factors), read=read)
    return made


def constant(
    loaded: Loaded, written: Written, id: int, row: int, token: int, plan: Plan | None, made: Replay
) -> Tensor:  # fmt: skip
    """float32 [D]: what is in the final state that no source holds, from a second replay with all of them doubled."""
    twice = replay(loaded, written, id, row, token, plan, lambda place: 2.0, made.factors)
    return (2 * made.final_D - twice.final_D).detach().float()


def scale_at(plan: Plan | None, tap: str, row: int, token: int) -> float | None:
    """By which edits multiply the one part of a tap at a token; None: no edit acts there."""
    if plan is None or tap not in plan.tables:
        return None
    table, number = plan.tables[tap], int(plan.row_BT[row, token])
    scale, shift_W = float(table.scale_RN[number, 0]), table.shift_RNW[number, 0]
    return None if scale == 1 and not bool(shift_W.any()) else scale


def _leaf(made: Replay, name: str, value: Tensor) -> Tensor:
    """A new source. Modules may write into what they are given, so they never get the leaf itself."""
    made.sources[name] = leaf = (value.detach() * made.times(len(made.sources))).requires_grad_()
    return leaf.clone()


def _source(made: Replay, value_D: Tensor, tap: str) -> Callable[[Tensor], Tensor]:
    return lambda held: _leaf(made, tap, value_D).reshape(held.shape)


def _stream(made: Replay, layer: int, row: int, token: int, plan: Plan | None) -> Callable[[Tensor], Tensor]:
    """What a block gives, and what edits make of it: some multiple of it, and a source of their own."""
    scale = scale_at(plan, f"residual.{layer}", row, token)

    def given(held: Tensor) -> Tensor:
        made.streams[layer] = held.reshape(-1)
        if scale is None:
            return held
        assert plan is not None, "an edit acts here"
        table, number = plan.tables[f"residual.{layer}"], int(plan.row_BT[row, token])
        shift_D = table.shift_RNW[number, 0].to(held).expand(held.shape[-1])
        return scale * held + _leaf(made, f"edit.{layer}", shift_D).reshape(held.shape)

    return given


def _reader(made: Replay, layer: int) -> Callable[[Tensor], None]:
    return lambda units: made.units.__setitem__(layer, units)


def _freezer(
    loaded: Loaded, made: Replay, factors: list[Tensor] | None
) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    norms = loaded.anatomy.norms

    def freeze(module: nn.Module, taken: Tensor, gave: Tensor) -> Tensor:
        norm = norms[module]
        factor = norm.factor(taken.detach(), gave.detach()) if factors is None else factors[len(made.factors)]
        made.factors.append(factor)
        bias_D = norm.bias_D.to(taken.device)
        if bool(bias_D.any()):
            bias_D = _leaf(made, f"bias.{len(made.factors)}", bias_D)
        return norm.frozen(taken, factor, bias_D).to(gave.dtype)

    return freeze
