"""The vectors of a layer by group: those of its heads, and its units' keys and values, with how each is read.

What reads the stream (`q`, `k`, `v`, `key`, `gate`, `up`) is read with the input embedding, what writes into it (`o`,
`value`) with the output embedding, or with the input embedding where a model has no read-out.
Axes: P vectors, D width, H heads, K numbers of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from backend import errors
from backend.measure.reading import Reader
from backend.models import circuits
from backend.models.key_reading import attention_reader, key_reader
from backend.models.loaded import Loaded
from backend.models.projections import Kind
from backend.models.units import values_of
from backend.schema import ReadAs, VectorGroup

Way = Literal["reads", "writes"]
GROUPS: tuple[VectorGroup, ...] = get_args(VectorGroup)
KIND_OF: dict[str, Kind] = {"q": "query", "k": "key", "v": "value"}
KEYS = ("key", "gate", "up")
NO_READ_OUT = "{} has no read-out: what its layers write is read with its input embedding."


def way_of(group: VectorGroup) -> Way:
    """Whether these vectors read the stream or write into it."""
    return "writes" if group in ("o", "value") else "reads"


def layers_of(loaded: Loaded, group: VectorGroup) -> tuple[tuple[int, ...], str]:
    """The layers that have such vectors, and why others (or all) have none that are known."""
    anatomy = loaded.anatomy
    if group in KIND_OF:
        kind = KIND_OF[group]
        found = [layer for layer in anatomy.shape.attention_layers if (layer, kind) in loaded.projections.of]
        return tuple(found), next((why for (_, of), why in loaded.projections.why.items() if of == kind), "")
    if group == "o":
        plain = [layer for layer in anatomy.shape.attention_layers if _plain(anatomy.output_matrix(layer))]
        return tuple(plain), "" if plain else "no plain output matrix was found after its attention"
    if group == "value":
        return tuple(sorted(anatomy.write)), anatomy.write_why
    named = tuple(sorted(layer for layer, parts in loaded.keys.of.items() if group in parts))
    return named, loaded.keys.why or ("" if named else _other_keys(group))


def rows(loaded: Loaded, group: VectorGroup, layer: int) -> Tensor:
    """float32 [P, D]: as the model holds them, head by head. Raises `CannotShow` where they are not known."""
    anatomy = loaded.anatomy
    if group in KIND_OF:
        found = circuits.projection(loaded, KIND_OF[group], layer)
        return torch.cat([found.weight(head).T for head in range(len(found.index_HK))])
    known, why = layers_of(loaded, group)
    if layer not in known:
        raise errors.CannotShow(f"Layer {layer} of {loaded.name} has no {NAMES[group]}", why, "Choose another group.")
    if group == "o":
        weight_PD = anatomy.output_matrix(layer)
        assert weight_PD is not None, "just seen"
        return weight_PD.float()
    if group == "value":
        return values_of(anatomy, layer).float()
    return loaded.keys.of[layer][group].rows().float()


def distinct(loaded: Loaded, group: VectorGroup, layer: int, count: int) -> list[int]:
    """Which of `count` rows to take so that none is there twice: some families hand a shared head's vectors to each of
    its query heads."""
    if group not in KIND_OF:
        return list(range(count))
    index_P = circuits.projection(loaded, KIND_OF[group], layer).index_HK.flatten().tolist()
    first: dict[int, int] = {}
    for place, index in enumerate(index_P):
        first.setdefault(index, place)
    return list(first.values())


def reader_of(loaded: Loaded, group: VectorGroup, layer: int, reading: ReadAs) -> Reader:
    """How vectors of a group are read. Raises `CannotShow` where they cannot be read so."""
    if way_of(group) == "writes":
        return circuits.writer(loaded, reading)
    circuits.check_input(loaded)
    if group in KEYS:
        return key_reader(loaded, layer, reading)
    if group == "v" and reading == "folded" and circuits.projection(loaded, "value", layer).norm:
        raise errors.CannotShow(
            f"W_V of layer {layer} is not linear in what it reads", "the model norms its values", circuits.RAW
        )
    return attention_reader(loaded, layer, reading)


def embedding_reader(loaded: Loaded, way: Way) -> Reader:
    """The bare embedding that is met by what reads the stream, or by what writes into it."""
    if way == "writes":
        return circuits.writer(loaded, "raw")
    circuits.check_input(loaded)
    return Reader(loaded.anatomy.embedding.get_parameter("weight"))


def heads_of(loaded: Loaded, group: VectorGroup) -> int | None:
    """How many heads the vectors of a layer belong to; None of units."""
    if group in KIND_OF:
        return next(
            (len(found.index_HK) for (_, kind), found in loaded.projections.of.items() if kind == KIND_OF[group]), None
        )
    return loaded.anatomy.shape.heads if group == "o" else None


def unfoldable(loaded: Loaded, groups: Sequence[VectorGroup]) -> dict[VectorGroup, str]:
    """Groups that cannot be read folded, and why."""
    found: dict[VectorGroup, str] = {}
    for group in groups:
        layers, _ = layers_of(loaded, group)
        for layer in layers[:1] if way_of(group) == "writes" else layers:
            try:
                reader_of(loaded, group, layer, "folded")
            except errors.CannotShow as refusal:
                found[group] = f"{refusal.what}: {refusal.why}"
                break
    return found


NAMES: dict[VectorGroup, str] = {
    "q": "columns of W_Q", "k": "columns of W_K", "v": "columns of W_V", "o": "rows of W_O", "key": "keys",
    "gate": "gates", "up": "up vectors", "value": "values",
}  # fmt: skip


def _plain(weight: Tensor | None) -> bool:
    return weight is not None and weight.is_floating_point()


def _other_keys(group: VectorGroup) -> str:
    if group == "key":
        return "its feed-forward parts are gated: a unit has a gate and an up vector instead of one key"
    return "its feed-forward parts are not gated: a unit has one key"
