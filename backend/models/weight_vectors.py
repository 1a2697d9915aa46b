"""Single vectors of weights, read in the vocabulary: coordinates of a head, and units by their keys and values.

Axes: V vocabulary, D width, K numbers of a head, N vectors, F units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend import errors
from backend.measure import circuits as measure
from backend.measure.array import to_array
from backend.measure.reading import Reader, moved_most, read_ends
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models import circuits
from backend.models.circuits import group_of
from backend.models.key_reading import key_reader
from backend.models.loaded import Loaded
from backend.models.projections import Kind
from backend.models.reading import about as about_words
from backend.models.reading import ends_of
from backend.models.taps import Cancel
from backend.models.units import check_units, values_of
from backend.models.weights import PSEUDO, UNREAD, converted, dual, words_at
from backend.schema import (
    HeadName,
    Limits,
    Overlap,
    OverlapsAnswer,
    OverlapsAsk,
    ReadAs,
    Subhead,
    SubheadsAnswer,
    SubheadsAsk,
    UnitName,
)

SHOWN = 8
"""Words at each end of a key or value in a list, and words that both share."""
KIND_OF: dict[str, Kind] = {"v": "value", "q": "query", "k": "key"}
PSEUDO_WORDS = "Words: each token's row of the pseudo-inverse of the input embedding, "
OVERLAP = (
    "Overlap: |both| / |either| of the {k} tokens {end} by the unit's {key} and of those by its value (Jaccard; Dar et "
    "al. 2023, §4.2). Keys are read with the input embedding, values with the output embedding."
)
ENDS = {"promoted": "moved up most", "suppressed": "moved down most", "absolute": "moved most, either way,"}


def subheads(loaded: Loaded, ask: SubheadsAsk, limits: Limits, cancel: Cancel | None = None) -> SubheadsAnswer:
    """Coordinates of a head: columns of W_V, W_Q or W_K, rows of W_O.

    Raises `CannotShow` where a matrix is not known or has fewer coordinates.
    """
    circuits.check_head(loaded.anatomy, ask.layer, ask.head)
    if ask.part == "o":
        used, rows_KD = circuits.writer(loaded, ask.reading), circuits.output_rows(loaded, ask.layer, ask.head)
        about, norms_K = _written(loaded, ask.reading), rows_KD.norm(dim=1)
    else:
        circuits.check_input(loaded)
        kind = KIND_OF[ask.part]
        side = circuits.read_side(loaded, kind, ask.layer, ask.head, ask.reading, ask.inverse)
        used, rows_KD, norms_K = Reader(side.embedding_VD), side.rows_KD, side.map_KD.norm(dim=1)
        about = (
            ("Words: the input embedding of each token, " if ask.inverse == "transpose" else PSEUDO_WORDS)
            + ("through the gain of the norm before attention, " if ask.reading == "folded" else "")
            + "times one column of the matrix: which tokens this coordinate of the head reads. No bias."
        )
    index = range(ask.first, min(ask.first + ask.count, len(rows_KD)))
    if not index:
        raise errors.CannotShow(
            f"Head {ask.layer}.{ask.head} has no coordinate {ask.first}", f"it has {len(rows_KD)}, counted from 0",
            f"Choose one from 0 to {len(rows_KD) - 1}.", needed=ask.first + 1, available=len(rows_KD),
        )  # fmt: skip
    ends = read_ends(used, rows_KD[index.start : index.stop], ask.top, cancel=cancel)
    found = tuple(
        Subhead(index=at, norm=float(norms_K[at]), ends=ends_of(ends, place)) for place, at in enumerate(index)
    )
    return SubheadsAnswer(
        conditions=loaded.conditions, head=HeadName(layer=ask.layer, head=ask.head), group=group_of(loaded, ask.head),
        part=ask.part, reading=ask.reading, inverse=ask.inverse, subheads=found, of=len(rows_KD),
        words=words_at(loaded, (one.ends for one in found)), about=about,
        notices=(UNREAD,) if ask.part == "o" and loaded.anatomy.unembedding is None else (),
    )  # fmt: skip


def overlaps(loaded: Loaded, ask: OverlapsAsk, limits: Limits, cancel: Cancel | None = None) -> OverlapsAnswer:
    """Units whose key and value have words in common. Raises `CannotShow` where units or keys are not known."""
    check_units(loaded.anatomy, ask.layer)
    if loaded.keys.why:
        raise errors.CannotShow("The keys of this model are not known", loaded.keys.why, "Look at the values alone.")
    circuits.check_input(loaded)
    size = loaded.anatomy.shape.vocabulary
    if ask.k > size:
        raise errors.CannotShow(
            f"No unit has {ask.k:,} tokens to compare", f"the vocabulary has {size:,}",
            f"Choose a k of {size:,} at most.", needed=ask.k, available=size,
        )  # fmt: skip
    name = "key" if "key" in loaded.keys.of[ask.layer] else "gate"
    keys_FD, values_FD = loaded.keys.of[ask.layer][name].rows(), values_of(loaded.anatomy, ask.layer)
    of_keys, of_values = key_reader(loaded, ask.layer, ask.reading, ask.inverse), circuits.writer(loaded, ask.reading)
    jaccard_F = _overlap(of_keys, keys_FD, of_values, values_FD, ask, cancel)
    order = jaccard_F.argsort(descending=True, stable=True)
    listed = [unit for unit in order[: ask.limit].tolist() if float(jaccard_F[unit]) >= ask.least]
    key_ends = read_ends(of_keys, keys_FD[listed], SHOWN, cancel=cancel)
    value_ends = read_ends(of_values, values_FD[listed], SHOWN, cancel=cancel)
    shared = [_both(of_keys, keys_FD[unit], of_values, values_FD[unit], ask) for unit in listed]
    found = tuple(
        Overlap(
            unit=UnitName(layer=ask.layer, unit=unit), jaccard=float(jaccard_F[unit]), shared=shared[place],
            key=ends_of(key_ends, place), value=ends_of(value_ends, place),
        )
        for place, unit in enumerate(listed)
    )  # fmt: skip
    ends = [end for one in found for end in (one.key, one.value)]
    return OverlapsAnswer(
        conditions=loaded.conditions, layer=ask.layer, reading=ask.reading, inverse=ask.inverse, key=name,
        units=len(jaccard_F),
        reached=int((jaccard_F >= ask.least).sum()), chance=ask.k / (2 * size - ask.k), jaccard=to_array(jaccard_F),
        overlaps=found,
        words=words_at(loaded, ends, {id for ids in shared for id in ids}),
        about=OVERLAP.format(key="gate" if name == "gate" else "key", k=ask.k, end=ENDS[ask.end])
        + (f" {PSEUDO}" if ask.inverse == "pseudo" else ""),
        notices=(UNREAD,) if loaded.anatomy.unembedding is None else (),
    )  # fmt: skip


def subheads_bytes(loaded: Loaded, ask: SubheadsAsk, limits: Limits) -> int:
    """Bytes for a block of logits."""
    return 3 * BLOCK_BYTES + converted(loaded) + dual(loaded, ask.inverse)


def overlaps_bytes(loaded: Loaded, ask: OverlapsAsk, limits: Limits) -> int:
    """Bytes for a block of logits twice, and a layer's keys and values."""
    units = loaded.anatomy.units or 0
    return (
        6 * BLOCK_BYTES
        + converted(loaded)
        + dual(loaded, ask.inverse)
        + 4 * units * (2 * ask.k + 4 * loaded.anatomy.shape.width)
    )


def _written(loaded: Loaded, reading: ReadAs) -> str:
    return UNREAD if loaded.anatomy.unembedding is None else about_words(loaded, reading)


def _chosen(reader: Reader, vectors_ND: Tensor, ask: OverlapsAsk) -> Tensor:
    """The k words of each vector that are compared [N, k]."""
    return moved_most(reader.logits(vectors_ND), ask.end, ask.k)


def _overlap(
    of_keys: Reader, keys_FD: Tensor, of_values: Reader, values_FD: Tensor, ask: OverlapsAsk, cancel: Cancel | None
) -> Tensor:
    """float32 [F] on the CPU: the overlap of every unit."""
    rows, found = rows_in(BLOCK_BYTES, len(of_values.embedding_VD)), []
    for first in range(0, len(keys_FD), rows):
        if cancel is not None:
            cancel()
        some = slice(first, first + rows)
        one, other = (_chosen(r, v[some], ask) for r, v in ((of_keys, keys_FD), (of_values, values_FD)))
        found.append(measure.jaccard(one, other).float().cpu())
    return torch.cat(found)


def _both(of_keys: Reader, key_D: Tensor, of_values: Reader, value_D: Tensor, ask: OverlapsAsk) -> tuple[int, ...]:
    """The first few words that a key and a value share, in the value's order."""
    of_key = set(_chosen(of_keys, key_D[None], ask)[0].tolist())
    return tuple(id for id in _chosen(of_values, value_D[None], ask)[0].tolist() if id in of_key)[:SHOWN]
