"""LM-Debugger's on and off for one value, resolved once to the number that the old tool's hook would have produced.

Source: Geva et al. 2022, LM-Debugger, as published (mega002/lm-debugger): the unit's pre-activation is overwritten at
all positions; off with 0, on with the largest |coefficient| · ‖value‖ of the layer at the last token of the
un-intervened prompt, plus 0.01. Then comes the block's own activation function.
"""

from __future__ import annotations

from torch import Tensor

from backend import errors
from backend.measure.cell import SubUpdates
from backend.models import forward
from backend.models.asking import ask_model
from backend.models.contributions import direct_bytes
from backend.models.loaded import Loaded
from backend.models.plan import STRONGEST
from backend.models.taps import Cancel
from backend.models.units import check_units, gated, values_of
from backend.models.written import written
from backend.schema import FfnSet, Limits, SwitchAnswer, SwitchAsk

MORE = 0.01
OFF = (
    "Off, as LM-Debugger does it: the unit's pre-activation is set to 0 at every position, and what its activation "
    "makes of it, {to:.6g}, is the coefficient."
)
ON = (
    "On, as LM-Debugger does it: the unit's pre-activation is set, at every position, to the largest score "
    "|coefficient| · ‖value‖ of the layer at the last token of the prompt without edits, plus 0.01: {pre:.6g}. Its "
    "activation makes {to:.6g} of it, and that is the coefficient. The score carries the norm of a value, so it is no "
    "coefficient of any unit: the old tool's strength is kept as published."
)
GATED_OFF = (
    "Off: the coefficient is set to 0 at every position. LM-Debugger knows no gated blocks; with a gate of 0 the "
    "product act(g) · u is 0, which is what its switch would have made."
)


def switch(loaded: Loaded, ask: SwitchAsk, limits: Limits, cancel: Cancel | None = None) -> SwitchAnswer:
    """The edit that does what the switch did. Raises `CannotShow` where the old tool has no meaning."""
    check_units(loaded.anatomy, ask.layer, ask.unit)
    if gated(loaded.anatomy, ask.layer):
        if ask.on:
            raise _no_switch_on(ask)
        return _answer(loaded, ask, 0.0, 0.0, GATED_OFF)
    pre = _score(loaded, ask, limits, cancel) + MORE if ask.on else 0.0
    to = _activated(loaded, ask, pre)
    if abs(to) > STRONGEST:
        raise errors.CannotShow(
            f"L{ask.layer}U{ask.unit} cannot be switched on as LM-Debugger does",
            f"its coefficient would be {to:.3g}, and an edit may ask for {STRONGEST:.0e} at most",
            "Set the coefficient to a smaller number.", needed=abs(to), available=STRONGEST,
        )  # fmt: skip
    return _answer(loaded, ask, to, pre, (ON if ask.on else OFF).format(pre=pre, to=to))


def switch_bytes(loaded: Loaded, ask: SwitchAsk, limits: Limits) -> int:
    """Bytes for the run of the prompt. Raises as `tokenise`."""
    return direct_bytes(loaded, ask.view, limits)


def _answer(loaded: Loaded, ask: SwitchAsk, to: float, pre: float, about: str) -> SwitchAnswer:
    edit = FfnSet(layer=ask.layer, unit=ask.unit, to=to)
    return SwitchAnswer(conditions=loaded.conditions, edit=edit, pre_activation=pre, about=about)


def _score(loaded: Loaded, ask: SwitchAsk, limits: Limits, cancel: Cancel | None) -> float:
    """The largest |coefficient| · ‖value‖ of the layer at the last token of the prompt, without edits."""
    asked = ask_model(loaded, ask.view.model_copy(update={"edits": (), "compare": False}), limits)
    token = asked.read.prompt - 1
    held = written(loaded, asked, token, cancel=cancel)
    coefficient_F = held.at(f"ffn.{ask.layer}", 0, token)
    return float(SubUpdates(coefficient_F, values_of(loaded.anatomy, ask.layer), None).magnitude().max())


def _activated(loaded: Loaded, ask: SwitchAsk, pre: float) -> float:
    """The coefficient that the block makes of a pre-activation: the block is asked, as the old tool's hook did."""
    found: list[float] = []

    def overwrite(held: Tensor) -> Tensor:
        changed = held.clone()
        changed[..., ask.unit] = pre
        return changed

    def keep(units: Tensor) -> None:
        found.append(float(units.detach().flatten(0, -2)[-1, ask.unit]))

    forward.replay(loaded, 0, {f"pre.{ask.layer}": overwrite}, read={f"ffn.{ask.layer}": keep})
    if not found:
        raise errors.CannotShow(
            f"L{ask.layer}U{ask.unit} cannot be switched as LM-Debugger does",
            "the map that makes its pre-activation was not found",
            "Set its coefficient instead: 0 is off.",
        )
    return found[0]


def _no_switch_on(ask: SwitchAsk) -> errors.CannotShow:
    return errors.CannotShow(
        f"L{ask.layer}U{ask.unit} cannot be switched on as LM-Debugger does",
        "this block is gated, its coefficient is the product act(g) · u, and LM-Debugger overwrites the one "
        "pre-activation that a block without a gate has: it gives no number here",
        "Set the coefficient itself to the strength that you want (ffn.set), such as the largest of this layer; off "
        "works as everywhere.",
    )
