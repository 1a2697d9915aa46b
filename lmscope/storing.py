"""Numbers of a notebook as the vectors that a server stores."""

from typing import Any

from backend.schema import Array, VectorAsk
from lmscope.asking import asked


def direction(name: str, vector: Any, recipe: str = "") -> VectorAsk:
    """A direction [width] of anything that numpy understands."""
    return asked(VectorAsk, kind="direction", name=name, recipe=recipe, vector=packed(vector))


def steer(name: str, left: Any, right: Any = None, recipe: str = "") -> VectorAsk:
    """LM-Steer's W = left right, or a full W alone: then `right` is the identity."""
    import numpy as np

    right = np.eye(np.shape(left)[-1], dtype="f4") if right is None else right
    return asked(VectorAsk, kind="steer", name=name, recipe=recipe, left=packed(left), right=packed(right))


def packed(numbers: Any) -> Array:
    """float32 on the wire."""
    import numpy as np

    found = np.ascontiguousarray(numbers, dtype="<f4")
    return Array.pack("f4", found.shape, found.tobytes())
