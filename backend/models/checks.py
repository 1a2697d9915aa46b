"""Whether a model has what an edit names: checked against its anatomy before any forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from backend import errors
from backend.models.anatomy import Anatomy
from backend.models.naming import TAPS, named
from backend.models.plan import acts_on
from backend.models.vectors import NO_VECTORS, Origin, Stored
from backend.schema import Ability, Edit

if TYPE_CHECKING:
    from backend.models.loaded import Loaded


def check_edits(
    anatomy: Anatomy,
    edits: Sequence[Edit],
    tokens: int,
    stored: Stored = NO_VECTORS,
    offered: Mapping[str, Ability] | None = None,
) -> None:
    """Raise `CannotShow` for the first edit that names a part this model does not have, `UnknownVector` for one that
    names a stored vector this server does not hold. `offered`: what was found at load, by tap.
    """
    for edit in edits:
        tap = TAPS[edit.kind]
        CHECKS[tap](anatomy, edit, stored)
        if offered is not None and tap in offered and not offered[tap].can:
            raise _not_offered(edit, offered[tap].why)
        if isinstance(edit.at, tuple) and max(edit.at) >= tokens:
            raise _no_token(edit, max(edit.at), tokens)


def idle(edits: Sequence[Edit], tokens: int, prompt: int) -> tuple[str, ...]:
    """A notice for every edit that acts on no token of this text."""
    return tuple(
        f"The edit of {named(edit)} acts on no token: it is meant for {edit.at} tokens, and this text has none."
        for edit in edits
        if not bool(acts_on(edit.at, tokens, prompt).any())
    )


def check_head(anatomy: Anatomy, layer: int, head: int) -> None:
    """Raise `CannotShow` when the model has no such head."""
    check_layer(anatomy, layer)
    shape = anatomy.shape
    if layer not in anatomy.attention:
        raise errors.CannotShow(
            f"Layer {layer} has no attention",
            "this block mixes tokens in another way, which has no map",
            f"Layers with attention: {', '.join(map(str, shape.attention_layers))}.",
        )
    if head >= shape.heads:
        raise errors.CannotShow(
            f"There is no head {layer}.{head}",
            f"each layer of this model has {shape.heads} heads, counted from 0 to {shape.heads - 1}",
            f"Choose a head from 0 to {shape.heads - 1}.",
            needed=head + 1, available=shape.heads,
        )  # fmt: skip


def check_named(loaded: Loaded, ask: object) -> None:
    """Raise `CannotShow` when a question about a model names a layer or head that it has not."""
    layer, head = getattr(ask, "layer", None), getattr(ask, "head", None)
    if isinstance(layer, int) and isinstance(head, int):
        check_head(loaded.anatomy, layer, head)
    elif isinstance(layer, int):
        check_layer(loaded.anatomy, layer)


def check_layer(anatomy: Anatomy, layer: int) -> None:
    layers = anatomy.shape.layers
    if layer >= layers:
        raise errors.CannotShow(
            f"There is no layer {layer}",
            f"this model has {layers} layers, counted from 0 to {layers - 1}",
            f"Choose a layer from 0 to {layers - 1}.",
            needed=layer + 1, available=layers,
        )  # fmt: skip


def _heads(anatomy: Anatomy, edit: Any, stored: Stored) -> None:
    check_head(anatomy, edit.layer, edit.head)
    if edit.layer not in anatomy.projections:
        raise errors.CannotShow(
            f"Head {edit.layer}.{edit.head} cannot be edited",
            f"no output projection was found after the attention of layer {edit.layer}",
            "Look at its map; edits of this layer are not possible in this model.",
        )
    if edit.kind == "head.set" and isinstance(edit.to, str):
        _check_width(edit, stored, edit.to, anatomy.shape.head_width)


def _ffn(anatomy: Anatomy, edit: Any, stored: Stored) -> None:
    check_layer(anatomy, edit.layer)
    units = anatomy.units
    if units is None:
        raise errors.CannotShow(
            f"Unit L{edit.layer}U{edit.unit} cannot be edited",
            f"the feed-forward units of this model are not known: {anatomy.write_why}",
            "Edit heads or the residual stream instead.",
        )
    if edit.unit >= units:
        raise errors.CannotShow(
            f"There is no unit L{edit.layer}U{edit.unit}",
            f"each block of this model has {units} units, counted from 0 to {units - 1}",
            f"Choose a unit from 0 to {units - 1}.",
            needed=edit.unit + 1, available=units,
        )  # fmt: skip


def _ffn_out(anatomy: Anatomy, edit: Any, stored: Stored) -> None:
    check_layer(anatomy, edit.layer)
    if edit.layer not in anatomy.feeds:
        raise errors.CannotShow(
            f"What the feed-forward part of block {edit.layer} writes cannot be edited",
            anatomy.write_why or "that part of the block was not found",
            "Edit heads or the residual stream instead.",
        )
    if isinstance(edit.to, str):
        _check_width(edit, stored, edit.to, anatomy.shape.width)


def _residual(anatomy: Anatomy, edit: Any, stored: Stored) -> None:
    check_layer(anatomy, edit.layer)
    vector = edit.vector if edit.kind == "residual.add" else edit.to
    if isinstance(vector, str):
        _check_origin(anatomy, stored.direction(vector).origin)
        _check_width(edit, stored, vector, anatomy.shape.width)


def _unembed(anatomy: Anatomy, edit: Any, stored: Stored) -> None:
    if anatomy.unembedding is None:
        raise errors.CannotShow(
            "This model cannot be steered", "it ends with its states and has no output embedding to steer",
            "Choose a model with a language modelling head, or add a direction to its residual stream.",
        )  # fmt: skip
    matrix, (width,) = stored.steer(edit.steer), anatomy.unembedding.get_parameter("weight").shape[1:]
    _check_origin(anatomy, matrix.origin)
    if len(matrix.left_DK) != width:
        raise _wrong_width(edit, len(matrix.left_DK), width)


CHECKS: dict[str, Callable[[Anatomy, Any, Stored], None]] = {
    "heads": _heads, "ffn": _ffn, "ffn_out": _ffn_out, "residual": _residual, "unembed": _unembed,
}  # fmt: skip
"""What the edits of each tap need."""


def _check_origin(anatomy: Anatomy, origin: Origin | None) -> None:
    """Refuse a slider of the shelf that was made for other tokens, however well its width fits."""
    if origin is not None and origin.vocabulary and origin.vocabulary != anatomy.vocabulary:
        raise errors.CannotShow(
            f"The steer “{origin.name}” does not fit this model",
            f"it was made for {origin.model}, whose tokens are not those of this model: its numbers mean nothing here",
            "Choose a steer that fits, transfer this one, or make one for this model.",
        )


def _check_width(edit: Edit, stored: Stored, id: str, width: int) -> None:
    found = len(stored.direction(id).vector_D)
    if found != width:
        raise _wrong_width(edit, found, width)


def _wrong_width(edit: Edit, needed: int, available: int) -> errors.CannotShow:
    return errors.CannotShow(
        f"The stored vector does not fit {named(edit)}",
        f"it has {needed} numbers, and this model has {available} there",
        "Choose a vector that was made for this model.",
        needed=needed,
        available=available,
    )


def _not_offered(edit: Edit, why: str) -> errors.CannotShow:
    where = named(edit)
    return errors.CannotShow(
        f"{where[0].upper()}{where[1:]} cannot be edited in this model", why,
        "Choose another kind of edit; the model's card lists those that it takes.",
    )  # fmt: skip


def _no_token(edit: Edit, named_token: int, tokens: int) -> errors.CannotShow:
    return errors.CannotShow(
        f"There is no token {named_token}",
        f"the edit of {named(edit)} names token {named_token}, and the text has {tokens} tokens, counted from 0 to "
        f"{tokens - 1}",
        "Choose positions inside the text, or let the edit act on all tokens.",
        needed=named_token + 1,
        available=tokens,
    )
