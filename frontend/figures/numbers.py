"""Opening arrays, and printing no more digits than the numbers carry."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pybase64 import b64decode

NUMPY = {"u1": "<u1", "i1": "<i1", "i4": "<i4", "f4": "<f4"}
DIGITS = {"float64": 4, "float32": 4, "float16": 3, "bfloat16": 3}
"""Significant digits worth printing for a model that ran in this dtype."""
SHIFT = {"nats": -1, "tokens": -2, "share": 0, "ratio": 0, "probability": 0, "norm": -1}
"""Decimals of a unit relative to the digits: an entropy has one digit before the point, a share none."""


def opened(array: Mapping[str, str]) -> np.ndarray:
    """A schema Array as numpy (read-only)."""
    flat = np.frombuffer(b64decode(array["bdata"]), NUMPY[array["dtype"]])
    return flat.reshape([int(part) for part in array["shape"].split(",")])


def digits(conditions: Mapping[str, Any]) -> int:
    """Significant digits that an answer's dtype carries."""
    return DIGITS.get(str(conditions.get("dtype", "")), 3)


def decimals(unit: str, conditions: Mapping[str, Any]) -> int:
    """Decimals that a value of this unit is printed with, so that a column aligns."""
    return max(digits(conditions) + SHIFT.get(unit, -1), 1)


def printed(value: float, unit: str, conditions: Mapping[str, Any]) -> str:
    """A value as the panel prints it; what is undefined is n/a, never 0."""
    return "n/a" if not np.isfinite(value) else f"{value:.{decimals(unit, conditions)}f}"
