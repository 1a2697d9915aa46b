"""The model's own way from its last states to its logits, on any block of states.

Families scale, cap or shift their logits after the output embedding. Instead of knowing how, this runs the very
`forward` of the model's class on a stand-in whose trunk hands over given states.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from backend.errors import CannotShow


class ReadOut:
    """Final states [N, D] in, logits [N, V] out, by the code of the model's class."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._trunk = trunk_name(model)

    def __call__(self, states_ND: Tensor, *, gradient: bool = False) -> Tensor:
        """Logits [N, V] of the model's dtype; with `gradient` torch remembers how they came about."""
        whole: Any = Standing(self._model, {self._trunk: _given(getattr(self._model, self._trunk), states_ND[None])})
        ids_1N = torch.zeros((1, states_ND.shape[0]), dtype=torch.long, device=states_ND.device)
        with torch.set_grad_enabled(gradient):
            answer = type(self._model).forward(whole, input_ids=ids_1N, use_cache=False)
        logits_NV: Tensor = answer.logits[0]
        return logits_NV

    def check(self, states_ND: Tensor, logits_NV: Tensor) -> None:
        """Raise `CannotShow` unless the read-out of these states is what the model itself said."""
        found_NV = self(states_ND)
        if found_NV.shape != logits_NV.shape:
            raise _differs(f"{tuple(found_NV.shape)} logits instead of {tuple(logits_NV.shape)}")
        expected_NV = logits_NV.float().nan_to_num(0, 0, 0)
        apart = float((found_NV.float().nan_to_num(0, 0, 0) - expected_NV).abs().max())
        most = tolerance(logits_NV.dtype) * (1 + float(expected_NV.abs().max()))
        if not apart <= most:
            raise _differs(f"they differ by {apart:.3g} logits, more than {most:.3g}")


def tolerance(dtype: torch.dtype) -> float:
    """How far equal logits may lie apart, relative to the largest, when their rows went through other block sizes."""
    return 1e-4 if dtype in (torch.float32, torch.float64) else 2e-2


def trunk_name(model: nn.Module) -> str:
    """The attribute of the model that holds everything before the read-out. Raises `CannotShow` without one.

    Public door first; a family whose door leads nowhere has one model among its children.
    """
    named = getattr(model, "base_model_prefix", "")
    inside = [name for name, part in model.named_children() if isinstance(part, PreTrainedModel)]
    name = named if isinstance(getattr(model, named, None) if named else None, nn.Module) else None
    name = inside[0] if name is None and len(inside) == 1 else name
    if name is not None and getattr(model, name) is not model:
        return str(name)
    raise CannotShow(
        "This model has no read-out", "it ends with its states and predicts no tokens",
        "Choose a model with a language modelling head.",
    )  # fmt: skip


def trunk_of(model: nn.Module) -> nn.Module:
    """Everything before the read-out: the model itself, where it has none."""
    try:
        found: nn.Module = getattr(model, trunk_name(model))
    except CannotShow:
        return model
    return found


def _differs(how: str) -> CannotShow:
    return CannotShow(
        "The surprisal of this model cannot be computed", f"its logits cannot be repeated from its last states: {how}",
        "Attention and edits still work; ask without scores.",
    )  # fmt: skip


class Standing:
    """Looks like a module, with some of its children replaced; the module itself is not touched."""

    def __init__(self, module: nn.Module, instead: dict[str, Any]) -> None:
        self.__dict__.update(instead)
        self.__dict__["_standing_for"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_standing_for"], name)


class _Given:
    """Answers like a trunk (or its decoder) that has just computed these states."""

    def __init__(self, module: nn.Module, answer: "_States") -> None:
        self._module, self._answer = module, answer

    def __call__(self, *_: Any, **__: Any) -> "_States":
        return self._answer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return _Given(found, self._answer) if isinstance(found, nn.Module) else found


class _States:
    """A trunk's answer that holds only its last states."""

    def __init__(self, states_1ND: Tensor) -> None:
        self.last_hidden_state = states_1ND

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    def __getitem__(self, place: int | slice) -> Any:
        return (self.last_hidden_state,)[place]


def _given(trunk: nn.Module, states_1ND: Tensor) -> Callable[..., "_States"]:
    return _Given(trunk, _States(states_1ND))
