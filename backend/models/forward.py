"""The only place that calls a model: taps on, inference mode, one pass, taps off.

Axes: B rows, T tokens, D width, V vocabulary, H heads, S keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import Cache

from backend import errors
from backend.models import kernel, taps
from backend.models.anatomy import Anatomy
from backend.models.kernel import Call
from backend.models.plan import Plan
from backend.models.readout import ReadOut
from backend.models.watched import Product, Watch

if TYPE_CHECKING:
    from backend.models.loaded import Loaded


def run(
    loaded: Loaded,
    ids_BT: Sequence[Sequence[int]] | Tensor,
    plan: Plan | None = None,
    *,
    types_BT: Sequence[Sequence[int]] | Tensor | None = None,
    mask_BT: Tensor | None = None,
    positions_BT: Tensor | None = None,
    cache: Cache | None = None,
    see: Callable[[Call, Tensor], None] | None = None,
    hold: Callable[[Call], None] | None = None,
    products: bool = False,
    read: Mapping[str, Callable[[Tensor], None]] | None = None,
    instead: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    acted: dict[str, Tensor] | None = None,
    cancel: taps.Cancel | None = None,
    logits: bool = False,
    checked: bool = True,
) -> Tensor:
    """The final states_BTD of the trunk (what the read-out receives), or with `logits` the model's own logits_BTV.

    `see` is given every layer's call and maps_BHTS while the layer is computed, `hold` the call alone, and `read` what
    a tap holds after its edits: `embedding` [B, T, D], `heads.L` [B, T, H, Dh], `ffn.L` [B, T, F], `attention_out.L`
    and `ffn_out.L` (what the matrix after them gives, before any later norm), `residual.L` [B, T, D] and, with
    `logits`, `unembed` [B, T, D].

    `acted` is given, by tap that changed something, the plan's row that it took for every token.

    `types_BT` are segment numbers where the model has segments. `mask_BT` is 1 for tokens and 0 for padding, counted
    over the cached tokens too; `positions_BT` places the tokens, which padded and packed rows need. With `cache`, the
    ids are those that follow what it holds. Raises `CannotShow` when the model's own numbers overflow: what follows
    from them would be no measurement; not with `checked=False`, for whoever looks at each row by itself.
    """
    device = loaded.anatomy.device
    given = {"token_type_ids": types_BT, "attention_mask": mask_BT, "position_ids": positions_BT}
    arguments: dict[str, Any] = {name: torch.as_tensor(v, device=device) for name, v in given.items() if v is not None}
    if cache is not None:
        arguments["cache"] = cache
    model = loaded.model if logits else loaded.anatomy.trunk
    order = taps.Run(
        layer_of=loaded.anatomy.layer_of, plan=plan, see=see, hold=hold, read=read or {}, instead=instead or {},
        acted=acted, cancel=cancel, products=products, tokens=len(ids_BT[0]) if cache is None else None,
    )  # fmt: skip
    with torch.inference_mode(), taps.running(order), watching(loaded.anatomy, order, len(ids_BT)):
        answer = model(input_ids=torch.as_tensor(ids_BT, device=device), use_cache=cache is not None, **arguments)
    found: Tensor = answer.logits if logits else answer.last_hidden_state
    if checked:
        check_finite(found if mask_BT is None else _unpadded(found, mask_BT), edited=plan is not None)
    return found


def replay(
    loaded: Loaded,
    id: int,
    instead: Mapping[str, Callable[[Tensor], Tensor]],
    *,
    freeze: Callable[[nn.Module, Tensor, Tensor], Tensor] | None = None,
    read: Mapping[str, Callable[[Tensor], None]] | None = None,
) -> Tensor:
    """The final state_D of a text of one token, with gradients, where parts give what `instead` says.

    `instead` by tap: `embedding`, `attention_out.L`, `pre.L` (what goes into the activation of a block that is not
    gated), `ffn_out.L`, `residual.L`; `freeze` for every norm of the stream.
    """
    order = taps.Run(layer_of=loaded.anatomy.layer_of, instead=instead, freeze=freeze, read=read or {}, tokens=1)
    with torch.inference_mode(False), torch.enable_grad(), taps.running(order):
        ids_11 = torch.tensor([[id]], device=loaded.anatomy.device)
        answer = loaded.anatomy.trunk(input_ids=ids_11, use_cache=False)
    final_11D: Tensor = answer.last_hidden_state
    return final_11D[0, 0]


@contextmanager
def watching(anatomy: Anatomy, run: taps.Run, rows: int) -> Iterator[None]:
    """Makes `see` and `hold` hear of attention that calls no shared function; does nothing where it does.

    Raises `CannotShow` when a layer does not make one map of this text, as some do of longer ones.
    """
    if not anatomy.watched or not (run.see or run.hold):
        yield
        return
    heard: Counter[int] = Counter()

    def told(
        module: nn.Module, maps_BHTS: Tensor, value_BGSD: Tensor, visible_BTS: Tensor, product: Product | None
    ) -> None:  # fmt: skip
        heard[layer := run.layer_of[module]] += 1
        call = Call.watched(layer, module, maps_BHTS, value_BGSD, visible_BTS, product)
        kernel.tell(run, call, lambda: maps_BHTS)

    with Watch(lambda: run.attention[-1] if run.attention else None, rows, told, run.products):
        yield
    for layer in sorted(anatomy.attention):
        if heard[layer] != 1:
            raise errors.CannotShow(
                "The attention of this text cannot be shown",
                f"layer {layer} makes {heard[layer]} maps of it: its attention is not one map of tokens on tokens here",
                "Ask for a shorter text.",
            )


def read_out(
    loaded: Loaded,
    states_ND: Tensor,
    plan: Plan | None = None,
    *,
    read: Mapping[str, Callable[[Tensor], None]] | None = None,
    acted: dict[str, Tensor] | None = None,
    checked: bool = True,
) -> Tensor:
    """Logits [N, V] of final states, by the model's own code and under the plan's steers; `plan` has one row of N.

    `read` may name the tap `unembed`: it is given what the output embedding takes, steered. `acted` as of `run`.
    Raises `CannotShow` when a steer makes the numbers overflow; `checked` as of `run`.
    """
    with torch.inference_mode(), taps.running(taps.Run(layer_of={}, plan=plan, read=read or {}, acted=acted)):
        logits_NV = ReadOut(loaded.model)(states_ND)
    steered = plan is not None and plan.steering is not None
    if checked and steered and not bool(logits_NV.amax(-1).isfinite().all()):
        raise breaks_down(logits_NV.dtype, edited=True)
    return logits_NV


def read_out_traced(loaded: Loaded, states_ND: Tensor, plan: Plan) -> Tensor:
    """The same with gradients, for the numbers of the plan's steers: no weight of the model has any."""
    with torch.inference_mode(False), taps.running(taps.Run(layer_of={}, plan=plan)):
        return ReadOut(loaded.model)(states_ND, gradient=True)


def _unpadded(found_BTX: Tensor, mask_BT: Tensor) -> Tensor:
    """What stands at real tokens; what a model computes for padding is never looked at."""
    return found_BTX[mask_BT[:, -found_BTX.shape[1] :].to(found_BTX.device).bool()]


def check_finite(found: Tensor, *, edited: bool) -> None:
    """Raises `CannotShow` where a model's own numbers overflowed. Waits for a graphics card to have computed them."""
    if not bool(found.isfinite().all()):
        raise breaks_down(found.dtype, edited=edited)


def breaks_down(dtype: torch.dtype, *, edited: bool) -> errors.CannotShow:
    """The refusal of a text on which the model's numbers overflow."""
    word = str(dtype).removeprefix("torch.")
    return errors.CannotShow(
        "With these edits the model breaks down" if edited else "The model breaks down on this text",
        f"its states are no longer numbers in {word}, which holds at most {torch.finfo(dtype).max:.3g}",
        "Choose smaller strengths, or fewer edits." if edited else "Open it in another dtype: LMSCOPE_DTYPE=float32.",
    )
