"""The norms of a model: found by asking every small module, so that a stream can be followed with them frozen."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from backend.measure.reading import Norm


def norms_of(trunk: nn.Module, width: int, device: torch.device) -> dict[nn.Module, Norm]:
    """Every module as wide as the stream that is a layer norm or an RMS norm, whatever its class is called.

    Their numbers lie where their gains do; `device` is for those that have none.
    """
    asked = {module: _asked(module, width, device) for module in trunk.modules() if _may_be(module, width)}
    return {module: norm for module, norm in asked.items() if norm is not None}


def _may_be(module: nn.Module, width: int) -> bool:
    """A norm holds nothing but, perhaps, a gain and a bias."""
    sizes = [parameter.shape for parameter in module.parameters()]
    return not list(module.children()) and len(sizes) <= 2 and all(size == (width,) for size in sizes)


def _asked(module: nn.Module, width: int, device: torch.device) -> Norm | None:
    """The numbers of a norm, asked in float32 whatever the model runs in; None when it is no norm of a known kind."""
    try:
        copy = deepcopy(module).float()
        device = next((parameter.device for parameter in copy.parameters()), device)
        with torch.no_grad():
            return Norm.of(copy, width, device)
    except Exception:  # any small module may take anything: what does not take a state is no norm
        return None
