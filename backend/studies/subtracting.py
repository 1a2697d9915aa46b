"""What is done on the lane of one of two models: numbers of the other are taken there, subtracted and read here.

Axes: P vectors, N tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.measure.embedding_space import Moments, Space
from backend.measure.reading import Reader
from backend.measure.tokens import BLOCK_BYTES
from backend.models import circuits, vector_groups
from backend.models.changes import Size, embedding_table, others, read_all, stream_biases
from backend.models.loaded import Loaded
from backend.models.vector_groups import Way
from backend.models.words import words_of
from backend.schema import ChangedGroup, ChangedVector, Conditions, VectorGroup
from backend.studies.changed import Candidate, Found
from backend.studies.labels import APART, Labels, matched, taken_labels
from backend.studies.two_models import TOKENS_AT_ONCE

DRAWN = "The files of {} hold no pooler, so it is left out."
UNUSED = "The files of {} hold parameters of heads that are not open here, so they are not compared: {}."
ONE_ALONE = "Only one of both has these parameters, so they are left out: {}."
OTHER_SIZE = "In the two models these parameters have other sizes, so they are left out: {}."
PLACES = ("W_O bias", "feed-forward bias")


@dataclass(frozen=True)
class Files:
    """What the files of a model lack, and what they hold beside what is open."""

    conditions: Conditions
    drawn: bool
    unused: tuple[str, ...]

    @classmethod
    def of(cls, loaded: Loaded) -> Files:
        """Those of an open model."""
        return cls(loaded.conditions, bool(loaded.drawn), tuple(sorted(loaded.unused)))


def taken_rows(loaded: Loaded, cancel: Cancel, *, group: VectorGroup, layer: int) -> Tensor:
    """The vectors of a group of a layer [P, D], as copies."""
    return vector_groups.rows(loaded, group, layer).clone()


def taken_biases(loaded: Loaded, cancel: Cancel) -> dict[tuple[int, int], Tensor]:
    """The biases [D] that are added to the stream, by layer and part, as copies."""
    return {at: bias_D.clone() for at, bias_D in stream_biases(loaded).items()}


def taken_others(loaded: Loaded, cancel: Cancel) -> tuple[dict[str, Tensor], Files]:
    """Every other parameter by name, as copies, and what is said of the files."""
    return {each.name: each.weight.detach().clone() for each in others(loaded)}, Files.of(loaded)


def taken_embedding(loaded: Loaded, cancel: Cancel, *, group: ChangedGroup, ids_N: Tensor) -> Tensor:
    """Rows of an embedding [N, D] in float32."""
    table = embedding_table(loaded, group)
    assert table is not None, "it has rows"
    return table[ids_N.to(table.device)].float()


def table_rows(loaded: Loaded, cancel: Cancel, *, group: ChangedGroup) -> int:
    """0 where there is no such table."""
    table = embedding_table(loaded, group)
    return 0 if table is None else len(table)


def add_rows(loaded: Loaded, cancel: Cancel, *, way: Way, moments: Moments, first: int) -> int:
    """Some rows of the embedding; how many it has."""
    embedding_VD = vector_groups.embedding_reader(loaded, way).embedding_VD
    rows_ND = embedding_VD[first : first + TOKENS_AT_ONCE]
    moments.add(rows_ND, rows_ND[:, :1])
    return len(embedding_VD)


def subtract_labels(loaded: Loaded, cancel: Cancel, *, found: Found, after: Labels, space: Space | None) -> None:
    """What became of the vectors of the labels that both classifiers have; their sizes are counted among the others."""
    before = taken_labels(loaded, cancel)
    if before is None:
        return
    pairs, notice = matched(before.names, after.names)
    if before.vectors_CD is None or after.vectors_CD is None or not pairs:
        found.why["classifier"] = before.why or after.why or APART
        return
    found.notices += [notice] if notice else []
    reader = _reader(found, "classifier", partial(vector_groups.embedding_reader, loaded, "writes"))
    if reader is None:
        return
    places, theirs = [[pair[side] for pair in pairs] for side in (0, 1)]
    pair = (before.vectors_CD[places], after.vectors_CD.to(before.vectors_CD.device)[theirs])

    def named(at: int) -> dict[str, Any]:
        name, other = before.names[places[at]], after.names[theirs[at]]
        return {"index": places[at], "name": name if name == other else f"{name} / {other}"}

    _keep(loaded, found, "classifier", None, pair, reader, named, cancel, space)


def subtract_rows(
    loaded: Loaded, cancel: Cancel, *, found: Found, group: VectorGroup, layer: int, after_PD: Tensor,
    space: Space | None,
) -> None:  # fmt: skip
    """Size of a group of a layer, and its vectors that belong among those that changed most."""
    before_PD = vector_groups.rows(loaded, group, layer)
    heads = vector_groups.heads_of(loaded, group)
    each = len(before_PD) // heads if heads else 1
    places = vector_groups.distinct(loaded, group, layer, len(before_PD))
    before_PD, after_PD = before_PD[places], after_PD.to(before_PD.device)[places]
    found.size(layer, group, Size.of(after_PD, before_PD))
    if group in found.why or found.ask.layer not in (None, layer):
        return
    reader = _reader(found, group, partial(vector_groups.reader_of, loaded, group, layer, found.reading))
    if reader is None:
        return

    def named(place: int) -> dict[str, Any]:
        if not heads:
            return {"index": place, "name": f"L{layer}U{place}"}
        head, index = divmod(places[place], each)
        return {"head": head, "index": index, "name": f"{layer}.{head} {group} {index}"}

    _keep(loaded, found, group, layer, (before_PD, after_PD), reader, named, cancel, space)


def subtract_biases(
    loaded: Loaded, cancel: Cancel, *, found: Found, after: dict[tuple[int, int], Tensor], space: Space | None
) -> None:  # fmt: skip
    """The vectors alone: their sizes are counted among all biases."""
    reader = _reader(found, "bias", partial(circuits.writer, loaded, found.reading))
    if reader is None:
        return
    for (layer, part), before_D in stream_biases(loaded).items():
        if (layer, part) in after and found.ask.layer in (None, layer):
            pair = (before_D[None], after[layer, part][None].to(before_D.device))
            name: dict[str, Any] = {"index": part, "name": f"L{layer} {PLACES[part]}"}
            _keep(loaded, found, "bias", layer, pair, reader, [name].__getitem__, cancel, space)


def subtract_others(
    loaded: Loaded, cancel: Cancel, *, found: Found, after: dict[str, Tensor], other: Files
) -> None:  # fmt: skip
    """Sizes by name."""
    alone, other_size = [], []
    for each in others(loaded):
        theirs = after.pop(each.name, None)
        if theirs is None:
            alone.append(each.name)
        elif theirs.shape != each.weight.shape:
            other_size.append(each.name)
        else:
            found.size(each.layer, each.group, Size.of(theirs.to(each.weight.device), each.weight))
    alone += after
    for names, notice in ((alone, ONE_ALONE), (other_size, OTHER_SIZE)):
        if names:
            found.leave_out(notice, names)
    for files in (Files.of(loaded), other):
        found.notices += [DRAWN.format(files.conditions.model)] if files.drawn else []
        if files.unused and loaded.conditions != other.conditions:  # one model's are what they are
            found.leave_out(UNUSED.format(files.conditions.model, "{}"), files.unused)


def subtract_embedding(
    loaded: Loaded, cancel: Cancel, *, found: Found, group: ChangedGroup, ids_N: Tensor, after_ND: Tensor,
    space: Space | None, listed: bool = True,
) -> None:  # fmt: skip
    """A block of tokens."""
    table = embedding_table(loaded, group)
    assert table is not None, "it has rows"
    before_ND = table[ids_N.to(table.device)].float()
    after_ND = after_ND.to(before_ND.device)
    found.size(None, group, Size.of(after_ND, before_ND))
    if found.ask.layer is not None or not listed:
        return
    way: Way = "reads" if group == "embedding" else "writes"
    reader = _reader(found, group, partial(vector_groups.embedding_reader, loaded, way))
    if reader is None:
        return
    names = words_of(loaded.tokenizer, ids_N.tolist())

    def named(place: int) -> dict[str, Any]:
        id = int(ids_N[place])
        return {"index": id, "name": names[str(id)]}

    _keep(loaded, found, group, None, (before_ND, after_ND), reader, named, cancel, space)


def _reader(found: Found, group: ChangedGroup, of: Callable[[], Reader]) -> Reader | None:
    """How vectors are read; None where they cannot be, which is said: then their sizes are told alone."""
    try:
        return of()
    except errors.CannotShow as refusal:
        found.why[group] = f"{refusal.what}: {refusal.why}"
        return None


def _keep(
    loaded: Loaded, found: Found, group: ChangedGroup, layer: int | None, pair: tuple[Tensor, Tensor], reader: Reader,
    named: Callable[[int], dict[str, Any]], cancel: Cancel, space: Space | None,
) -> None:  # fmt: skip
    """Read those of some vectors that changed more than the last that is listed."""
    before_PD, after_PD = pair
    apart_PD = after_PD - before_PD
    norm_P, before_P = apart_PD.double().norm(dim=1), before_PD.double().norm(dim=1)
    rank_P = norm_P
    if found.ask.by == "relative":
        rank_P = torch.where(before_P > 0, norm_P / before_P, torch.where(norm_P > 0, torch.inf, 0.0))
    if space is not None:
        rank_P = space.cast(reader.fold(apart_PD)).apart_PR.norm(dim=1)
    order_P = rank_P.argsort(descending=True, stable=True)[: found.ask.limit].cpu()
    chosen = [place for place in order_P.tolist() if float(rank_P[place]) > found.least(group)]
    if not chosen:
        return
    read = read_all(reader, apart_PD[chosen], found.ask.top, cancel)
    found.add(group, [
        Candidate(float(rank_P[place]), ChangedVector(
            layer=layer, group=group, norm=float(norm_P[place]), moved=float(read.moved_P[at]), ends=read.ends[at],
            relative=float(norm_P[place] / before_P[place]) if float(before_P[place]) else None, **named(place),
        ))
        for at, place in enumerate(chosen)
    ])  # fmt: skip
    found.words |= words_of(loaded.tokenizer, {id for end in read.ends for id in (*end.highest, *end.lowest)})


def rows_bytes(loaded: Loaded) -> int:
    """Bytes for a group of a layer a few times, and for what is not told as vectors."""
    shape = loaded.anatomy.shape
    vectors = max(loaded.anatomy.units or 0, shape.heads * shape.head_width, shape.context or 0)
    return 8 * 6 * vectors * shape.width + 3 * BLOCK_BYTES


def block_bytes(loaded: Loaded) -> int:
    """Bytes for a block of an embedding a few times."""
    return 8 * 6 * TOKENS_AT_ONCE * loaded.anatomy.shape.width + 3 * BLOCK_BYTES


def read_bytes(loaded: Loaded) -> int:
    """Bytes for the words of some vectors."""
    return 3 * BLOCK_BYTES
