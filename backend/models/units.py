"""Feed-forward units of a block: their values, what they read, and whether two maps make one coefficient."""

from __future__ import annotations

from torch import Tensor

from backend import errors
from backend.models.anatomy import Anatomy, matrix
from backend.models.checks import check_layer


def check_units(anatomy: Anatomy, layer: int, unit: int | None = None) -> None:
    """Raise `CannotShow` when a model's units are not known, or it has no such block or unit."""
    check_layer(anatomy, layer)
    if anatomy.units is None:
        raise errors.CannotShow(
            "The values of this model cannot be shown",
            f"its feed-forward units are not known: {anatomy.write_why}",
            "The lens, its words and attention can be looked at in this model.",
        )
    if unit is not None and unit >= anatomy.units:
        raise errors.CannotShow(
            f"There is no unit L{layer}U{unit}",
            f"each block of this model has {anatomy.units} units, counted from 0 to {anatomy.units - 1}",
            f"Choose a unit from 0 to {anatomy.units - 1}.",
            needed=unit + 1, available=anatomy.units,
        )  # fmt: skip


def values_of(anatomy: Anatomy, layer: int) -> Tensor:
    """value_FD: what each unit writes, for a coefficient of 1."""
    value_FD = matrix(anatomy.write[layer])
    assert value_FD is not None, "as found"
    return value_FD


def gated(anatomy: Anatomy, layer: int) -> bool:
    """Whether a coefficient is the product act(g) · u of two linear readings of the stream."""
    read = [weight.shape[1] for part in anatomy.keys[layer] if (weight := matrix(part)) is not None]
    return sum(read) == 2 * (anatomy.units or 0)
