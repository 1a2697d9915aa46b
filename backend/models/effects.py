"""Whether every kind of edit is seen to act when a model is loaded, and which taps it can therefore offer.

Axes: B rows, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from backend.models import forward
from backend.models.anatomy import Anatomy
from backend.models.loaded import Loaded
from backend.models.naming import TAPS, first_layer
from backend.models.plan import FOLDS, Row, fold
from backend.models.vectors import Direction, SteerMatrix
from backend.schema import (
    Ability,
    Edit,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadScale,
    HeadSet,
    Promise,
    ResidualAdd,
    ResidualSet,
    Steer,
)

PROBE = "0" * 64
"""The id of the vectors made up for the checks."""


def every_edit(anatomy: Anatomy, active: Mapping[int, int]) -> list[Edit]:
    """Every kind of edit of the trunk, at the first and the last layer that it can act in."""
    edits: list[Edit] = []
    for layer in ends(anatomy.projections):
        edits += [HeadScale(layer=layer, head=0, by=0), HeadSet(layer=layer, head=0, to=1)]
    for layer in ends(anatomy.write):
        unit = active[layer]
        edits += [FfnScale(layer=layer, unit=unit, by=-8), FfnSet(layer=layer, unit=unit, to=8)]
    edits += [FfnOutSet(layer=layer, to=PROBE) for layer in ends(anatomy.feeds)]
    for layer in ends(range(anatomy.shape.layers) if anatomy.stream else ()):
        edits += [ResidualAdd(layer=layer, vector=PROBE, by=4), ResidualSet(layer=layer, to=PROBE)]
    return edits


def ends(layers: Iterable[int]) -> list[int]:
    """The first and the last layer, once where they are the same."""
    ordered = sorted(layers)
    return list(dict.fromkeys(ordered[:1] + ordered[-1:]))


class Probes:
    """A direction and a steer made up for the checks."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._anatomy = anatomy

    def direction(self, id: str) -> Direction:
        """Ones of both signs: a norm that takes the mean away leaves them."""
        return Direction(_signs(self._anatomy.shape.width))

    def steer(self, id: str) -> SteerMatrix:
        assert self._anatomy.unembedding is not None, "asked only where there is one"
        signs_D = _signs(self._anatomy.unembedding.get_parameter("weight").shape[1])
        return SteerMatrix(torch.ones_like(signs_D)[:, None], signs_D[None])


def _signs(width: int) -> Tensor:
    return 1.0 - 2.0 * (torch.arange(width) % 3 == 0).float()


def effects_of(loaded: Loaded, rows: list[Row], answer_BTD: Tensor) -> dict[str, Promise]:
    """By kind of edit: whether the final states change where it acts."""
    absent = {
        "heads": "no output projection was found to act on",
        "ffn": loaded.anatomy.write_why,
        "ffn_out": loaded.anatomy.write_why,
        "residual": "its blocks do not give one residual stream",
    }
    found = {}
    for kind in FOLDS:
        changes = {
            first_layer(row.edits, 0): float((answer_BTD[place] - answer_BTD[0]).abs().max())
            for place, row in enumerate(rows) if row.edits and row.edits[0].kind == kind
        }  # fmt: skip
        told = ", ".join(f"{size:.1e} at layer {layer}" for layer, size in changes.items())
        found[kind] = Promise(
            name=f"{kind} has an effect", kept=all(size > 0 for size in changes.values()) if changes else None,
            detail=f"final states change by {told}" if changes else absent[TAPS[kind]],
        )  # fmt: skip
    return found


def steer_effect(loaded: Loaded, ids: list[int]) -> Promise:
    """Whether the logits change under a steer."""
    name = "steer has an effect"
    if loaded.anatomy.unembedding is None:
        return Promise(name=name, kept=None, detail="this model has no output embedding to steer")
    rows = [Row((), len(ids)), Row((Steer(steer=PROBE, by=1),), len(ids))]
    plan = fold(loaded.anatomy, rows, len(ids), Probes(loaded.anatomy))
    logits = forward.run(loaded, [ids] * 2, plan, logits=True)
    most = float((logits[0] - logits[1]).abs().max())
    return Promise(name=name, kept=most > 0, detail=f"logits change by {most:.1e}")


def offered(effects: dict[str, Promise]) -> dict[str, Ability]:
    """A tap is offered when every kind of edit there was seen to act; else the sentence says why not."""
    abilities = {}
    for tap in dict.fromkeys(TAPS.values()):
        promises = [effects[kind] for kind in effects if TAPS[kind] == tap]
        why = next((f"{each.name}: {each.detail}" if each.kept is False else each.detail
                    for each in promises if not each.kept), "")  # fmt: skip
        abilities[tap] = Ability(can=not why, why=why)
    return abilities
