"""The weights instrument: a head's matrices as tables tokens × tokens, read in the vocabulary. No text is needed.

Axes: V vocabulary, D width, K numbers of a head, N pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

import torch

from backend import errors
from backend.measure import circuits as measure
from backend.measure.pairs import TILES, Pairs, nobody, top_pairs
from backend.measure.reading import BothEnds
from backend.models import circuits, distance
from backend.models.circuits import Table, group_of
from backend.models.loaded import Loaded
from backend.models.positions import Kind as PositionKind
from backend.models.reading import ends_of
from backend.models.taps import Cancel
from backend.models.vocabulary import Allowed, Vocabulary, allowed
from backend.models.words import spellings, words_of
from backend.schema import (
    Circuit,
    CircuitSummary,
    CurvePoint,
    Ends,
    HeadName,
    HeadWeightsAnswer,
    HeadWeightsAsk,
    Inverse,
    Limits,
    LineAnswer,
    LineAsk,
    PairsAnswer,
    PairsAsk,
    ReadAs,
    TokenPair,
    WeightLine,
)

MEANING = {
    "vo": "W_VO = W_V W_O. Row: the token that the head reads; column: the token that it then writes.",
    "qk": "W_QK = W_Q W_Kᵀ. Row: the token that looks; column: the token that it looks at.",
}
READINGS: dict[ReadAs, dict[str, str]] = {
    "folded": {
        "vo": "Folded: each token's input embedding through the gain of the norm before attention, the head's output "
        "through that of the final norm; both divisors, which depend on the text, are taken as 1. Unit: logits.",
        "qk": "Folded: each token's input embedding through the gain of the norm before attention, its divisor, which "
        "depends on the text, taken as 1, times the model's own scale. Unit: attention logits.",
    },
    "raw": {
        "vo": "Raw, as published (Dar et al. 2023): the input embedding, the matrices and the output embedding, no "
        "norm, no bias. Unit: dot product.",
        "qk": "Raw, as published (Dar et al. 2023): the input embedding on both sides and the matrices, no norm, no "
        "bias, no scale. Unit: dot product.",
    },
}
UNNORMED = (
    "Folded: no norm stands before attention in this model, so it is each token's input embedding and the matrices, "
    "times the model's own scale. Unit: attention logits."
)
CIRCUITS: tuple[Circuit, ...] = ("vo", "qk")
NORMED = "The model norms its queries and keys; that norm is applied to each token, exactly."
NO_MATRIX = (
    "This model norms its queries and keys, so no single matrix of the stream makes its scores: there are no singular "
    "values and no norm of one. Ask with the reading `raw`."
)
EXACT = "Exact over all pairs; of equal scores the lower row comes first, then the lower column."
TWIN = (
    "The random twin: a matrix with the same singular values and random singular vectors (seed {seed}), between the "
    "same embeddings: what such a table shows by chance."
)
PSEUDO = (
    "What is read is taken in coordinates of the vocabulary: each token stands for its row of the pseudo-inverse of "
    "the input embedding (E⁺, not Eᵀ), so that sums over all tokens give back the products of the stream."
)
UNREAD = "This model has no read-out: what is written is read with the input embedding, as it stands."


def pairs(loaded: Loaded, ask: PairsAsk, limits: Limits, cancel: Cancel | None = None) -> PairsAnswer:
    """The top pairs of a head. Raises `CannotShow` where a matrix is not known or the filters leave nothing."""
    made = head_table(loaded, ask, cancel)
    kept = allowed(loaded, ask.filters)
    kept.check()
    found = _search(made, ask, kept, cancel)
    shared, why = _shared(loaded, ask, found, kept, cancel) if ask.compare else (None, "")
    word_V = Vocabulary.of(loaded).word_V
    row_N, column_N = found.row_N, found.column_N
    return PairsAnswer(
        conditions=loaded.conditions, head=HeadName(layer=ask.layer, head=ask.head), group=group_of(loaded, ask.head),
        circuit=ask.circuit, sign=ask.sign, reading=ask.reading, inverse=ask.inverse,
        distance=ask.distance, twin=ask.twin,
        pairs=tuple(
            TokenPair(row=row, column=column, score=score)
            for row, column, score in zip(row_N.tolist(), column_N.tolist(), found.score_N.tolist(), strict=True)
        ),
        allowed=found.allowed, rows=len(kept.rows), columns=len(kept.columns), same=int((row_N == column_N).sum()),
        variants=int((word_V[row_N] == word_V[column_N]).sum()), shared=shared, other_reading=why,
        words=words_of(loaded.tokenizer, {*row_N.tolist(), *column_N.tolist()}),
        about=_about(loaded, made, ask, EXACT if ask.twin is None else f"{EXACT} {TWIN.format(seed=ask.twin)}"),
        notices=made.notices + kept.notices + distance.notices(loaded, ask, cancel),
    )  # fmt: skip


def head_table(loaded: Loaded, ask: PairsAsk, cancel: Cancel | None = None) -> Table:
    """The table that would be searched. Raises as `pairs`, but for what the filters leave."""
    made = distance.table(loaded, ask, ask.reading, cancel)
    return made if ask.twin is None else _twin(made, ask)


def line(loaded: Loaded, ask: LineAsk, limits: Limits, cancel: Cancel | None = None) -> LineAnswer:
    """Rows or columns of a head's table. Raises as `pairs`, and for a word that is no single token."""
    made = distance.table(loaded, ask, ask.reading, cancel)
    here, there = (made.rows, made.columns) if ask.line == "row" else (made.columns, made.rows)
    ids = _tokens(loaded, ask, len(here.embedding_VD))
    lines_NV = here.vectors()[ids] @ there.vectors().T
    deviation_N, mean_N = torch.std_mean(lines_NV.double(), 1, correction=0)
    ends = BothEnds.of(lines_NV, ask.top)
    lines = tuple(
        WeightLine(token=id, ends=ends_of(ends, place), mean=float(mean_N[place]), deviation=float(deviation_N[place]))
        for place, id in enumerate(ids)
    )
    return LineAnswer(
        conditions=loaded.conditions, head=HeadName(layer=ask.layer, head=ask.head), group=group_of(loaded, ask.head),
        circuit=ask.circuit, line=ask.line, reading=ask.reading, inverse=ask.inverse,
        distance=ask.distance, lines=lines,
        words=words_at(loaded, (one.ends for one in lines), ids), about=_about(loaded, made, ask),
        notices=made.notices + distance.notices(loaded, ask, cancel),
    )  # fmt: skip


def head(loaded: Loaded, ask: HeadWeightsAsk, limits: Limits, cancel: Cancel | None = None) -> HeadWeightsAnswer:
    """One head in numbers. Raises `CannotShow` where neither of its matrices is known."""
    found: dict[str, Table] = {}
    why: dict[str, str] = {}
    for circuit in CIRCUITS:
        try:
            found[circuit] = circuits.table(loaded, circuit, ask.layer, ask.head, ask.reading, ask.inverse)
        except errors.CannotShow as refusal:
            why[circuit] = f"{refusal.what}: {refusal.why}."
    if not found:
        circuits.table(loaded, "vo", ask.layer, ask.head, ask.reading)  # says why
    kind: PositionKind = "unknown"
    curve: tuple[CurvePoint, ...] = ()
    unknown = ""
    if "qk" in found:
        kind, curve = distance.curve(loaded, ask.layer, ask.head, found["qk"], cancel)
        unknown = distance.no_curve(loaded, ask.layer, cancel)
    return HeadWeightsAnswer(
        conditions=loaded.conditions, head=HeadName(layer=ask.layer, head=ask.head), group=group_of(loaded, ask.head),
        groups=loaded.anatomy.shape.kv_heads, reading=ask.reading, inverse=ask.inverse,
        vo=_summary(found["vo"]) if "vo" in found else None, qk=_summary(found["qk"]) if "qk" in found else None,
        why=why, positions=kind, curve=curve,
        about=" ".join(
            [
                *(f"{MEANING[name]} {READINGS[ask.reading][name]}" for name in found),
                *([PSEUDO] if ask.inverse == "pseudo" else []), distance.CURVES[kind],
                *([f"Seen instead: {unknown}."] if unknown else []),
            ]
        ),
        notices=tuple(dict.fromkeys(notice for made in found.values() for notice in made.notices)),
    )  # fmt: skip


def pairs_bytes(loaded: Loaded, ask: PairsAsk, limits: Limits) -> int:
    """Bytes for two thin factors, sorted copies of them, a block of scores and a converted block of the embedding."""
    tile = TILES[loaded.anatomy.device.type if loaded.anatomy.device.type in TILES else "cpu"]
    across = min(tile[1], loaded.anatomy.shape.vocabulary)
    return 4 * _factor(loaded) + 4 * 2 * tile[0] * across + converted(loaded) + dual(loaded, ask.inverse)


def line_bytes(loaded: Loaded, ask: LineAsk, limits: Limits) -> int:
    """Bytes for two thin factors and a few lines."""
    return 3 * _factor(loaded) + converted(loaded) + dual(loaded, ask.inverse) + 256 * loaded.anatomy.shape.vocabulary


def head_bytes(loaded: Loaded, ask: HeadWeightsAsk, limits: Limits) -> int:
    """Bytes for two thin factors in both precisions, and for texts of one token."""
    return (
        8 * _factor(loaded) + converted(loaded) + dual(loaded, ask.inverse) + 512 * 32 * 4 * loaded.anatomy.shape.width
    )


def _factor(loaded: Loaded) -> int:
    return 4 * loaded.anatomy.shape.vocabulary * loaded.anatomy.shape.head_width


def dual(loaded: Loaded, inverse: Inverse) -> int:
    """Bytes for the Gram matrix of the input embedding and its inverse, in float64."""
    return 4 * 8 * loaded.anatomy.shape.width**2 if inverse == "pseudo" else 0


def converted(loaded: Loaded) -> int:
    """Bytes for a block of an embedding that is not float32."""
    return 4 * 8192 * loaded.anatomy.shape.width


def _twin(made: Table, ask: PairsAsk) -> Table:
    """Of every head its own draw by the one seed: what is chance for one says nothing of another's."""
    if not made.bilinear:
        raise errors.CannotShow(
            "There is no random twin of this table",
            "it is turned by a distance, or its queries and keys are normed, so it is no single matrix",
            "Ask at distance 0, or with the reading `raw`.",
        )  # fmt: skip
    draw = sha256(f"{ask.twin} {ask.circuit} {ask.layer} {ask.head}".encode()).digest()
    left_KD, right_KD = measure.twin(made.rows.map_KD, made.columns.map_KD, int.from_bytes(draw[:6], "big"))
    return replace(made, rows=replace(made.rows, map_KD=left_KD), columns=replace(made.columns, map_KD=right_KD))


def _search(made: Table, ask: PairsAsk, kept: Allowed, cancel: Cancel | None) -> Pairs:
    return top_pairs(
        made.rows.vectors(), made.columns.vectors(), ask.top, rows=kept.rows, columns=kept.columns,
        group_V=kept.group_V, lowest=ask.sign == "lowest", cancel=cancel or nobody,
    )  # fmt: skip


def _shared(
    loaded: Loaded, ask: PairsAsk, found: Pairs, kept: Allowed, cancel: Cancel | None
) -> tuple[int | None, str]:  # fmt: skip
    """How many pairs the other reading lists too, or why there is none."""
    try:
        made = distance.table(loaded, ask, "raw" if ask.reading == "folded" else "folded", cancel)
        other = _search(made if ask.twin is None else _twin(made, ask), ask, kept, cancel)
    except errors.CannotShow as refusal:
        return None, f"{refusal.what}: {refusal.why}."
    one, two = (set(zip(one.row_N.tolist(), one.column_N.tolist(), strict=True)) for one in (found, other))
    return len(one & two), ""


def _about(loaded: Loaded, made: Table, ask: PairsAsk | LineAsk, more: str = "") -> str:
    normed = (
        NORMED if ask.circuit == "qk" and ask.reading == "folded" and not made.bilinear and not ask.distance else ""
    )
    pseudo = PSEUDO if ask.inverse == "pseudo" else ""
    unnormed = ask.circuit == "qk" and ask.reading == "folded" and loaded.projections.norm[ask.layer] is None
    reading = UNNORMED if unnormed else READINGS[ask.reading][ask.circuit]
    return " ".join(filter(None, [MEANING[ask.circuit], reading, pseudo, normed, more]))


def _tokens(loaded: Loaded, ask: LineAsk, vocabulary: int) -> list[int]:
    """The tokens whose lines are asked for."""
    if (ask.token is None) == (ask.word is None):
        raise errors.BadQuestion(
            "A line needs a token or a word", "both or neither were given", "Give `token`, an id, or `word`."
        )
    if ask.word is not None:
        return [one.id for one in spellings(loaded.tokenizer, [ask.word], vocabulary)]
    assert ask.token is not None, "just seen"
    if ask.token >= vocabulary:
        raise errors.CannotShow(
            f"There is no token {ask.token}", f"the vocabulary has {vocabulary:,} tokens, counted from 0",
            f"Choose one below {vocabulary}.", needed=ask.token + 1, available=vocabulary,
        )  # fmt: skip
    return [ask.token]


def _summary(made: Table) -> CircuitSummary:
    same = len(made.rows.embedding_VD) == len(made.columns.embedding_VD)
    copying = measure.copying(made.rows.vectors(), made.columns.vectors()) if same else None
    if not made.bilinear:
        return CircuitSummary(singular=(), norm=None, copying=copying, why=NO_MATRIX)
    values_K = measure.singular_values(made.rows.map_KD, made.columns.map_KD)
    return CircuitSummary(singular=tuple(values_K.tolist()), norm=float(values_K.norm()), copying=copying)


def words_at(loaded: Loaded, ends: Iterable[Ends], more: Iterable[int] = ()) -> dict[str, str]:
    """The tokens at these ends, and others by their ids, by id."""
    return words_of(loaded.tokenizer, {id for one in ends for id in (*one.highest, *one.lowest)} | set(more))
