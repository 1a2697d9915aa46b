"""What direct contributions and values rest on, checked at load: that a final state, and a block's output, are sums.

Axes: D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.measure.cell import SubUpdates
from backend.models.effects import ends
from backend.models.loaded import Loaded
from backend.models.noise import ROUNDED, exact, tolerance
from backend.models.replay import constant, replay
from backend.models.units import values_of
from backend.models.written import Written, record
from backend.schema import Promise

CONSTANT_STEPS = 4
"""Steps of its dtype by which what is left of a state, doubled and taken away, may differ from nothing."""
FOLLOWED = "the final state is a sum of what was written, with norms held still"
"""The promise that direct contributions rest on."""
ADD_UP = "units add up to what the feed-forward part gives"
"""The promise that values rest on."""


def promised(loaded: Loaded, ids: list[int]) -> tuple[Promise, Promise]:
    """Both promises, from one pass of a few tokens and replays of the last one."""
    anatomy = loaded.anatomy
    why = "this model predicts no next token" * (anatomy.unembedding is None or not anatomy.shape.causal)
    why = why or next((why for layer in range(anatomy.shape.layers) if (why := _unknown(loaded, layer))), "")
    if why:
        followed = Promise(name=FOLLOWED, kept=None, detail=why, needed_by=("contributions", "cell"))
        if not anatomy.write:
            return followed, Promise(name=ADD_UP, kept=None, detail=anatomy.write_why, needed_by=("cell",))
    held = record(loaded, [ids], len(ids) - 1, ())
    units = _units_add_up(loaded, held)
    return (followed if why else _or_broken(loaded, ids, held)), units


def _or_broken(loaded: Loaded, ids: list[int], held: Written) -> Promise:
    """`_followed`; code that runs no text of one token may raise anything, and everything else works nevertheless."""
    try:
        return _followed(loaded, ids, held)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        said = (str(error).strip().splitlines() or ["no words"])[0]
        told = f"one token alone cannot be followed ({type(error).__name__}: {said})"
        return Promise(name=FOLLOWED, kept=False, detail=told, needed_by=("contributions", "cell"))


def _unknown(loaded: Loaded, layer: int) -> str:
    """Why what a block writes is not known."""
    if layer not in loaded.anatomy.attention:
        return f"block {layer} mixes tokens in another way than attention, and what it writes is not known"
    return "" if layer in loaded.anatomy.feeds else f"the feed-forward part of block {layer} was not found"


def _followed(loaded: Loaded, ids: list[int], held: Written) -> Promise:
    """Whether one token, replayed alone with what was written, ends as it did, and ends as a sum of that.

    Two sums are made: of what was written, and of unequal multiples of it. A function that is no sum may pass as one
    where all is multiplied alike.
    """
    place = (len(ids) - 1, None)
    made = replay(loaded, held, ids[-1], 0, *place)
    unequal = replay(loaded, held, ids[-1], 0, *place, lambda number: 1.0 + number % 3, made.factors)
    run_D = held.final_BTD[0, -1].float()
    along_D = 1.0 - 2.0 * (torch.arange(len(run_D), device=run_D.device) % 3 == 0).float()
    constant_D = constant(loaded, held, ids[-1], 0, *place, made)
    loaded.constants = _has_constants(loaded, held, ids, constant_D)
    gradients = made.gradients(along_D)
    sums, size = [], 1 + float((run_D * along_D).abs().sum())
    for each in (made, unequal):
        parts = [_dot(gradients[name], source) for name, source in each.sources.items()]
        size += sum(map(abs, parts))
        sums.append(sum(parts) - _dot(along_D, each.final_D))
    held_still = _dot(constant_D, along_D) * loaded.constants
    apart = float((made.final_D.detach().float() - run_D).abs().max()) / (1 + float(run_D.abs().max()))
    off = max(abs(each + held_still) for each in sums) / size
    kept = max(apart, off) <= 10 * tolerance(loaded)
    return Promise(
        name=FOLLOWED, kept=kept if exact(loaded) else kept or None, needed_by=("contributions", "cell"),
        detail=f"one token replayed ends {apart:.1e} of its size away; what was written is {off:.1e} off its sum"
        + ", with constants of its own" * loaded.constants + f" ({ROUNDED})" * (not exact(loaded)),
    )  # fmt: skip


def _has_constants(loaded: Loaded, held: Written, ids: list[int], constant_D: Tensor) -> bool:
    """Whether the final state depends on a parameter that no part and no norm holds, and what is left shows it."""
    noise = CONSTANT_STEPS * torch.finfo(loaded.model.dtype).eps * float(held.final_BTD[0, -1].float().norm())
    if float(constant_D.norm()) <= noise:
        return False
    parameters = [each for each in loaded.anatomy.trunk.parameters() if each.ndim <= 1 and each.is_floating_point()]
    for parameter in parameters:
        parameter.requires_grad_(True)
    try:
        final_D = replay(loaded, held, ids[-1], 0, len(ids) - 1, None).final_D
        found = torch.autograd.grad(final_D, parameters, torch.ones_like(final_D), allow_unused=True)
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)
    return any(gradient is not None for gradient in found)


def _dot(one_D: Tensor, other_D: Tensor) -> float:
    return float(one_D.detach().float() @ other_D.detach().float().to(one_D.device))


def _units_add_up(loaded: Loaded, held: Written) -> Promise:
    apart = []
    for layer in ends(loaded.anatomy.write):
        module, value_FD = loaded.anatomy.write[layer], values_of(loaded.anatomy, layer)
        tensors = (held.at(f"ffn.{layer}", 0, held.tokens - 1), value_FD, getattr(module, "bias", None))
        apart.append(SubUpdates(*tensors).sum_error(held.at(f"ffn_out.{layer}", 0, held.tokens - 1)))
    if not apart:
        return Promise(name=ADD_UP, kept=None, detail=loaded.anatomy.write_why, needed_by=("cell",))
    kept = max(apart) <= 10 * tolerance(loaded)
    return Promise(
        name=ADD_UP, kept=kept, needed_by=("cell",),
        detail=f"Σ coefficient · value + bias differs by {max(apart):.1e} of its norm at most",
    )  # fmt: skip
