"""Two models side by side: what each says of itself, the tokens that both have, and the space that these span.

Each model is asked on its own lane; what one hands to the other is a block of rows, never a model.
Axes: N tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure.embedding_space import Moments
from backend.measure.reading import Reader
from backend.models import vector_groups
from backend.models.loaded import Loaded
from backend.models.shared_words import spelled, strings
from backend.models.vector_groups import GROUPS, NO_READ_OUT, Way
from backend.schema import Conditions, ReadAs, SharedTokens, VectorGroup
from backend.schema.two_models import OfTwo
from backend.studies.asking import OnModel
from backend.studies.library import Library

TOKENS_AT_ONCE = 4_096
"""Rows of the embeddings that are handed from one model to the other."""
FEW = 0.02
"""Share of the smaller vocabulary that both must have at least, beside as many tokens as their streams have numbers."""
FOLDED_NOT = "Read raw, for not all can be read folded: {}."


@dataclass(frozen=True)
class Side:
    """What one of the two models says of itself."""

    name: str
    conditions: Conditions
    vocabulary: str
    """Digest of its tokens."""
    layers: int
    width: int
    sizes: Mapping[str, int | None]
    """What has to be equal for parameters to be subtracted, in words."""
    groups: Mapping[VectorGroup, tuple[int, ...]]
    """Layers that have vectors of each group."""
    why: Mapping[VectorGroup, str]
    """Why a group has none."""
    unfoldable: Mapping[VectorGroup, str]
    """Why a group cannot be read folded."""
    tied: bool
    """Whether what is written is read with the input embedding."""
    notice: str
    rules: tuple[object, ...] = ()
    names: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[bytes, int] = field(default_factory=dict)


def side_of(loaded: Loaded, cancel: Cancel) -> Side:
    """On the model's thread."""
    anatomy, shape = loaded.anatomy, loaded.anatomy.shape
    known = {group: vector_groups.layers_of(loaded, group) for group in GROUPS}
    groups = {group: layers for group, (layers, _) in known.items() if layers}
    rules, names = strings(loaded)
    read_out = anatomy.unembedding
    return Side(
        name=loaded.name, conditions=loaded.conditions, vocabulary=anatomy.vocabulary,
        layers=shape.layers, width=shape.width,
        sizes={
            "layers": shape.layers, "numbers of the stream": shape.width, "heads": shape.heads,
            "key/value heads": shape.kv_heads, "numbers of a head": shape.head_width,
            "feed-forward units": anatomy.units,
        },
        groups=groups, why={group: why for group, (layers, why) in known.items() if not layers},
        unfoldable=vector_groups.unfoldable(loaded, tuple(groups)),
        tied=read_out is None or read_out.get_parameter("weight") is anatomy.embedding.get_parameter("weight"),
        notice=NO_READ_OUT.format(loaded.name) if read_out is None else "", rules=rules, names=names,
        words=spelled(loaded),
    )  # fmt: skip


@dataclass(frozen=True)
class Shared:
    """The tokens that both models have: of each its ids, in one order."""

    ids_N: Tensor
    other_ids_N: Tensor
    told: SharedTokens


def shared_tokens(one: Side, other: Side, by_string: bool) -> Shared:
    """Raises `CannotShow` with the share that maps: where vocabularies differ and `by_string` is not asked for, and
    where both have too few tokens in common for a comparison."""
    if one.vocabulary == other.vocabulary:
        every = torch.tensor(sorted({*one.names.values()} & {*other.names.values()}))
        return Shared(every, every, _told(len(every), one, other, by_string=False))
    pairs = _mapped(one, other)
    told = _told(len(pairs), one, other, by_string=True)
    parts = (f"{told.tokens / max(of, 1):.1%} of the {of:,} of {name}" for of, name in (
        (told.of, one.name), (told.other_of, other.name),
    ))  # fmt: skip
    share = f"{told.tokens:,} tokens stand for the same text in both: {' and '.join(parts)}"
    least = max(one.width, other.width, int(FEW * min(told.of, told.other_of)))
    if not by_string:
        few = f"; to map tokens by what they stand for more than {least:,} would be needed" * (len(pairs) <= least)
        raise _apart(one, other, share + few, mappable=not few)
    if len(pairs) <= least:
        raise errors.CannotShow(
            f"{one.name} and {other.name} share too few tokens", f"{share}; more than {least:,} are needed",
            "Choose two models whose vocabularies are closer.", needed=least + 1, available=len(pairs),
        )  # fmt: skip
    ids_N, other_ids_N = torch.tensor(pairs).T
    return Shared(ids_N, other_ids_N, told)


def _apart(one: Side, other: Side, why: str, *, mappable: bool) -> errors.CannotShow:
    """The refusal of two vocabularies; mapping is advised where it would do."""
    what, by_string = f"{one.name} and {other.name} have different vocabularies", "map tokens by what they stand for"
    mapped = f", or ask to {by_string} (by_string)" if mappable else ""
    return errors.CannotShow(what, why, f"Choose two models with one vocabulary{mapped}.")


def _mapped(one: Side, other: Side) -> list[tuple[int, int]]:
    """By name where both tokenizers spell alike, else by the bytes that tokens stand for; by rising id."""
    if one.rules == other.rules:
        return sorted((id, other.names[name]) for name, id in one.names.items() if name in other.names)
    return sorted((id, other.words[word]) for word, id in one.words.items() if word in other.words)


def _told(tokens: int, one: Side, other: Side, *, by_string: bool) -> SharedTokens:
    return SharedTokens(tokens=tokens, of=len(one.names), other_of=len(other.names), by_string=by_string)


def reading_of(
    ask: OfTwo, one: Side, other: Side, groups: set[VectorGroup]
) -> tuple[ReadAs, dict[VectorGroup, str], str]:  # fmt: skip
    """The reading, why groups cannot be read so, and what is said of it."""
    unfoldable = {
        group: f"{side.name}: {side.unfoldable[group]}"
        for side in (one, other) for group in sorted(groups) if group in side.unfoldable
    }  # fmt: skip
    if ask.reading is not None:
        return ask.reading, unfoldable if ask.reading == "folded" else {}, ""
    if unfoldable:
        return "raw", {}, FOLDED_NOT.format(next(iter(unfoldable.values())))
    return "folded", {}, ""


async def sides_at_once(model: OnModel, other: OnModel) -> tuple[Side, Side]:
    """What both say, for somebody who waits. Raises as `Desk.ask`."""
    return await model.ask(side_of, _strings_bytes), await other.ask(side_of, _strings_bytes)


async def both_sides(
    model: OnModel, ask: OfTwo, library: Library, kind: str, waiting: Callable[[], None]
) -> tuple[OnModel, Side, Side]:  # fmt: skip
    """The way to the other model, and what both say."""
    other = library.open(ask.other, ask.other_revision, kind)
    one_side, other_side = [await each.patiently(side_of, _strings_bytes, waiting) for each in (model, other)]
    return other, one_side, other_side


async def moments_of(
    models: tuple[OnModel, OnModel], shared: Shared, way: Way, report: Report, waiting: Callable[[], None],
    readers: tuple[Callable[[Loaded], Reader], Callable[[Loaded], Reader]] | None = None,
) -> Moments:  # fmt: skip
    """Moments of both embeddings over the shared tokens; `readers`: of their directions instead of their rows."""
    found, what = Moments(), f"comparing the {'input' if way == 'reads' else 'output'} embeddings"
    of_one, of_other = readers or (None, None)
    for first in range(0, len(shared.ids_N), TOKENS_AT_ONCE):
        report(what, first, len(shared.ids_N), "tokens")
        some = slice(first, first + TOKENS_AT_ONCE)
        rows_ND = await models[0].patiently(
            partial(_rows, ids_N=shared.ids_N[some], way=way, reader=of_one), _rows_bytes, waiting
        )

        def add(loaded: Loaded, cancel: Cancel, rows_ND: Tensor = rows_ND, some: slice = some) -> None:
            other_NE = _rows(loaded, cancel, ids_N=shared.other_ids_N[some], way=way, reader=of_other)
            found.add(rows_ND.to(other_NE.device), other_NE)

        await models[1].patiently(add, partial(_add_bytes, width=rows_ND.shape[1]), waiting)
    return found


def _rows(
    loaded: Loaded, cancel: Cancel, *, ids_N: Tensor, way: Way, reader: Callable[[Loaded], Reader] | None
) -> Tensor:  # fmt: skip
    used = vector_groups.embedding_reader(loaded, way) if reader is None else reader(loaded)
    rows_ND = used.embedding_VD[ids_N.to(used.embedding_VD.device)]
    return used.directions(rows_ND)


def _rows_bytes(loaded: Loaded) -> int:
    return 8 * TOKENS_AT_ONCE * loaded.anatomy.shape.width


def _add_bytes(loaded: Loaded, *, width: int) -> int:
    """Float64 blocks of both, and three Gram matrices twice."""
    both = width + loaded.anatomy.shape.width
    return 8 * (3 * TOKENS_AT_ONCE * both + 2 * both * both)


def _strings_bytes(loaded: Loaded) -> int:
    """Two tables of the tokens' names."""
    return 400 * loaded.anatomy.shape.vocabulary


def nothing(loaded: Loaded, ask: OfTwo, library: Library, cancel: Cancel) -> None:
    """Of one model alone nothing can be refused."""
