"""Removing parts one at a time: which parts a question names, and the edits that take each away.

By `zero`, a part's output is 0; by `mean`, it is its mean over a prompt set. Both act at every token, after the view's
own edits.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

from backend import errors
from backend.models.checks import check_edits
from backend.models.direct import Direct
from backend.models.explain import check_predicts
from backend.models.loaded import Loaded
from backend.models.means import Means
from backend.models.taps import Cancel
from backend.models.variants import Base, Variant
from backend.models.written import written
from backend.schema import Ability, Edit, EffectsAsk, FfnOutSet, FfnScale, FfnSet, HeadScale, HeadSet

UNITS_OF_PARTS = {"heads": "heads", "attention": "layers", "feed_forward": "layers", "units": "units"}
ABOUT = {
    "heads": "each query head's output, before the heads are merged",
    "attention": "the output of all heads of a layer, before they are merged; the bias of the projection stays",
    "feed_forward": "what a layer's feed-forward part writes, its bias included",
    "units": "a feed-forward unit's coefficient",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What is removed."""

    layer: int
    index: int | None
    """Head or unit; None: the whole layer."""


def ability(loaded: Loaded) -> Ability:
    """Whether there is a prediction, and any part to remove from it."""
    try:
        check_predicts(loaded)
    except errors.CannotShow as refusal:
        return Ability(can=False, why=refusal.why)
    taps = [loaded.card.edits[tap] for tap in ("heads", "ffn_out") if tap in loaded.card.edits]
    can = any(tap.can for tap in taps)
    return Ability(can=can, why="" if can else "; ".join(dict.fromkeys(tap.why for tap in taps)))


def parts_of(loaded: Loaded, ask: EffectsAsk) -> tuple[Part, ...]:
    """The parts that a question names, each once. Raises `BadQuestion` for names that `parts` does not use."""
    if (ask.heads and ask.parts != "heads") or (ask.units and ask.parts != "units"):
        named = "heads" if ask.heads and ask.parts != "heads" else "units"
        raise errors.BadQuestion(
            f"The {named} named would be ignored", f"the question is about `{ask.parts}`",
            f"Ask with parts={named!r}, or name no {named}.",
        )  # fmt: skip
    if ask.set is not None and ask.removal == "zero":
        raise errors.BadQuestion(
            "The prompt set named would be ignored", "a part that is removed by zero is set to 0, not to a mean",
            "Ask with removal='mean', or name no set.",
        )  # fmt: skip
    if ask.parts == "units":
        if not ask.units:
            raise errors.BadQuestion("No unit is named", "a model has too many to remove each", "Name some units.")
        return tuple(dict.fromkeys(Part(unit.layer, unit.unit) for unit in ask.units))
    if ask.parts == "feed_forward":
        return tuple(Part(layer, None) for layer in sorted(loaded.anatomy.feeds) or (0,))
    layers = sorted(loaded.anatomy.projections) or loaded.anatomy.shape.attention_layers
    if ask.parts == "attention":
        return tuple(Part(layer, None) for layer in layers)
    if ask.heads:
        return tuple(dict.fromkeys(Part(head.layer, head.head) for head in ask.heads))
    return tuple(Part(layer, head) for layer in layers for head in range(loaded.anatomy.shape.heads))


def check_parts(loaded: Loaded, ask: EffectsAsk, parts: tuple[Part, ...], tokens: int) -> None:
    """Raise `CannotShow` for the first part that this model does not have, or lets nobody edit."""
    for part in parts:
        check_edits(loaded.anatomy, by_zero(loaded, ask, part), tokens, loaded.vectors, loaded.card.edits)


def by_zero(loaded: Loaded, ask: EffectsAsk, part: Part) -> Variant:
    """The edits that set a part to 0."""
    if ask.parts == "units":
        return (FfnScale(layer=part.layer, unit=_index(part), by=0),)
    if ask.parts == "feed_forward":
        return (FfnOutSet(layer=part.layer, to=0),)
    return tuple(HeadScale(layer=part.layer, head=head, by=0) for head in _heads(loaded, part))


def by_mean(loaded: Loaded, ask: EffectsAsk, part: Part, means: Means) -> tuple[Variant, dict[str, Tensor]]:
    """The edits that set a part to its mean, and the vectors that they name."""
    if ask.parts == "units":
        mean = float(means.by_tap[f"ffn.{part.layer}"][_index(part)])
        return (FfnSet(layer=part.layer, unit=_index(part), to=mean),), {}
    if ask.parts == "feed_forward":
        id = made_up(f"mean ffn_out.{part.layer}")
        return (FfnOutSet(layer=part.layer, to=id),), {id: means.by_tap[f"ffn_out.{part.layer}"]}
    edits: list[Edit] = []
    own: dict[str, Tensor] = {}
    for head in _heads(loaded, part):
        id = made_up(f"mean heads.{part.layer} {head}")
        own[id] = means.by_tap[f"heads.{part.layer}"][head]
        edits.append(HeadSet(layer=part.layer, head=head, to=id))
    return tuple(edits), own


def variants_of(
    loaded: Loaded, ask: EffectsAsk, parts: tuple[Part, ...], means: Means | None
) -> tuple[list[Variant], dict[str, Tensor]]:
    """One variant a part, and the vectors that they name."""
    if means is None:
        return [by_zero(loaded, ask, part) for part in parts], {}
    found = [by_mean(loaded, ask, part, means) for part in parts]
    return [variant for variant, _ in found], {id: vector for _, own in found for id, vector in own.items()}


def direct_of(
    loaded: Loaded, ask: EffectsAsk, base: Base, parts: tuple[Part, ...], cancel: Cancel | None = None
) -> list[float | None]:
    """Each part's direct contribution in logits, None where it is not defined; `attention` is the sum of its heads."""
    offered = loaded.card.can.get("contributions")
    if offered is not None and not offered.can:
        return [None] * len(parts)
    held = written(loaded, base.asked, base.pair.explained.token, cancel=cancel)
    try:
        direct = Direct.of(loaded, base.asked, held, base.pair, 0)
    except errors.CannotShow:  # this read-out cannot be taken apart; its parts can still be removed
        return [None] * len(parts)
    of_layer = {layer: _of_layer(ask, direct, layer) for layer in dict.fromkeys(part.layer for part in parts)}
    return [None if (found := of_layer[part.layer]) is None else float(found[part.index or 0]) for part in parts]


def _of_layer(ask: EffectsAsk, direct: Direct, layer: int) -> Tensor | None:
    """Of every head or unit of a layer, or of the layer alone."""
    if ask.parts == "units":
        return direct.of_units(layer)
    if ask.parts == "feed_forward":
        return torch.tensor([direct.of_source(f"ffn_out.{layer}")])
    heads_H = direct.of_heads(layer)
    return heads_H if heads_H is None or ask.parts == "heads" else heads_H.sum()[None]


def made_up(name: str) -> str:
    """An id for a vector that only a study knows."""
    return sha256(f"of a study: {name}".encode()).hexdigest()


def noise_floor(loaded: Loaded, base: Base) -> float:
    """Logits below which a difference is rounding: one step of the model's dtype at the size of the pair's."""
    return float(torch.finfo(loaded.model.dtype).eps) * max(1.0, abs(base.pair.explained.logits))


def _heads(loaded: Loaded, part: Part) -> tuple[int, ...]:
    return tuple(range(loaded.anatomy.shape.heads)) if part.index is None else (part.index,)


def _index(part: Part) -> int:
    assert part.index is not None, "a unit has a number"
    return part.index
