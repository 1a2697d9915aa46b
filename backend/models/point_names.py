"""Names of points: what a person may write, which place of this model it means, and why another name means none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from backend import errors
from backend.models.loaded import Loaded
from backend.schema.capture import EVERY, NOT_THEIRS, PLACES, THEIRS, Same, pattern

NEAREST = 3
UNLIKE = 0.4
"""Names less alike than this are not offered instead."""
WHY_NOT = {
    "plain": "this model changes its {name} after the projection (it rotates, scales or normalises it), and LMScope "
    "has it as the attention function takes it",
    "rotated": "this model does not rotate its {name} here, or does more than that after it",
    "chain": "between these blocks the model does more than hand the stream on",
    "embedding": "this model adds more to its token embeddings before block 0",
    "added": "this model does more with it before it is added to the stream (a norm, a multiplier), and LMScope has "
    "what the write matrix gives",
    "norm": "the states before the read-out are not what the model's final norm gives",
}
"""By the fact that a name of TransformerLens needs."""


@dataclass(frozen=True)
class Resolved:
    """Points of a question, found in a model."""

    places: Mapping[str, str]
    """By the name of each tensor, with its layer: the place of ours."""
    notices: tuple[str, ...]


def resolve(loaded: Loaded, points: Sequence[str]) -> Resolved:
    """Find every point. Raises `CannotShow` for the first that this model, or LMScope, does not have."""
    places: dict[str, str] = {}
    notices: list[str] = []
    for point in points:
        template, layer = pattern(point)
        same = THEIRS.get(template) or Same(template)
        if same.place not in PLACES:
            raise _unknown(point, template)
        if layer is None and same.place.endswith(".L"):
            raise _without_layer(point, template)
        if layer == EVERY:
            found = _every(loaded, point, template, same)
            places |= found
            if len(found) < loaded.anatomy.shape.layers:
                there = ", ".join(pattern(name)[1] or "" for name in found)
                notices.append(f"Only these layers have {point}: {there}.")
        else:
            name = template if layer is None else template.replace("L", str(int(layer)), 1)
            place = _place(same, None if layer is None else int(layer))
            if (refusal := _why_not(loaded, name, place, same)) is not None:
                raise refusal
            places[name] = place
    return Resolved(places, tuple(dict.fromkeys(notices)))


def _every(loaded: Loaded, point: str, template: str, same: Same) -> dict[str, str]:
    """The layers that have a point. Raises what the first layer is refused with, when none has."""
    layers = range(loaded.anatomy.shape.layers)
    named = {template.replace("L", str(layer), 1): _place(same, layer) for layer in layers}
    refusals = {name: _why_not(loaded, name, place, same) for name, place in named.items()}
    found = {name: place for name, place in named.items() if refusals[name] is None}
    if not found:
        raise next(refusal for refusal in refusals.values() if refusal is not None)
    return found


def _place(same: Same, layer: int | None) -> str:
    if layer is None:
        return same.place
    layer -= same.layers_before
    return same.place.replace("L", str(layer)) if layer >= 0 else "embedding"


def _why_not(loaded: Loaded, name: str, place: str, same: Same) -> errors.CannotShow | None:
    """Why a model does not have a point; None when it does."""
    layer, layers = pattern(name)[1], loaded.anatomy.shape.layers
    if layer is not None and int(layer) >= layers:
        return errors.CannotShow(
            f"There is no layer {layer[:12]}", f"this model has {layers} layers, counted from 0 to {layers - 1}",
            f"Choose a layer from 0 to {layers - 1}, or `{EVERY}` for all.", needed=int(layer) + 1, available=layers,
        )  # fmt: skip
    if place not in loaded.points.found:
        return errors.CannotShow(f"This model has no {name}", _absent(loaded, place), _instead(loaded, name))
    if same.needs and place not in loaded.points.facts[same.needs]:
        why = WHY_NOT[same.needs].format(name=place.partition(".")[0])
        return errors.CannotShow(
            f"{name} of this model has no equal in LMScope", why, f"The nearest is {place}; or compute it from that."
        )
    return None


def _absent(loaded: Loaded, place: str) -> str:
    """Why the probe did not find a place."""
    name, _, layer = place.partition(".")
    anatomy = loaded.anatomy
    if name == "logits":
        return loaded.points.no_logits
    if name in ("ffn", "ffn_out"):
        return anatomy.write_why or f"no single matrix writes the feed-forward units of layer {layer}"
    if name in ("query", "key", "value", "maps", "heads") and int(layer) not in anatomy.attention:
        return f"layer {layer} has no attention that can be read"
    if name == "heads":
        return f"no output projection was found after the attention of layer {layer}"
    return "it was not found when the model was opened"


def _instead(loaded: Loaded, name: str) -> str:
    offered = dict.fromkeys(pattern(place)[0] for place in loaded.points.found)
    return f"This model has {', '.join(offered)} (L: a layer, or `{EVERY}`)."


def _without_layer(point: str, template: str) -> errors.CannotShow:
    return errors.CannotShow(
        f"{point} names no layer", "L stands for the number of one, counted from 0",
        f"Write {template.replace('L', '0', 1)}, or {template.replace('L', EVERY, 1)} for every layer.",
    )  # fmt: skip


def _unknown(point: str, template: str) -> errors.CannotShow:
    known = [*PLACES, *THEIRS]
    if template in NOT_THEIRS:
        return errors.CannotShow(
            f"LMScope has no equal of {point}", NOT_THEIRS[template], f"Choose from {', '.join(PLACES)}."
        )
    near = get_close_matches(template, known, NEAREST, UNLIKE)
    near += [name for name in known if name not in near and name.rsplit(".", 1)[-1] == template.rsplit(".", 1)[-1]]
    instead = f"Near to it: {', '.join(near[:NEAREST])}" if near else f"There are {', '.join(PLACES)}"
    return errors.CannotShow(
        f"There is no point {point}", "neither LMScope nor its table of TransformerLens' names has it",
        f"{instead} (L: a layer, counted from 0, or `{EVERY}` for every layer).",
    )  # fmt: skip
