"""How far equal numbers may lie apart in the dtype of a model."""

from __future__ import annotations

import torch

from backend.models.loaded import Loaded

ROUNDED = "states are rounded to half precision in every layer, so this is noise of the model"


def exact(loaded: Loaded) -> bool:
    """Whether the model runs in float32 or more, so that ways of equal meaning give equal numbers."""
    return loaded.model.dtype in (torch.float32, torch.float64)


def tolerance(loaded: Loaded) -> float:
    """How far two computations of one map may lie apart, in the dtype of the model."""
    return 1e-5 if exact(loaded) else 3e-2
