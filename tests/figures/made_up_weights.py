"""Tables, lines and numbers of heads made from random numbers, valid in every field."""

import numpy as np

from backend.schema import (
    CircuitSummary,
    CurvePoint,
    HeadName,
    HeadWeightsAnswer,
    HeadWeightsAsk,
    LineAnswer,
    LineAsk,
    Overlap,
    OverlapsAnswer,
    OverlapsAsk,
    PairsAnswer,
    PairsAsk,
    Subhead,
    SubheadsAnswer,
    SubheadsAsk,
    TokenPair,
    UnitName,
    WeightLine,
)
from tests.figures.answers import CONDITIONS, VOCABULARY, packed
from tests.figures.made_up_values import WORDS, ends, logits

ABOUT = "W_VO = W_V W_O. Row: the token that the head reads; column: the token that it then writes."


def scores(ask: PairsAsk | LineAsk) -> np.ndarray:
    """The whole table of a head, another for each twin and reading."""
    twin = getattr(ask, "twin", None)
    salt = [ask.layer, ask.head, len(ask.circuit + ask.reading), 0 if twin is None else 7 + twin]
    return np.random.default_rng(salt).normal(0, 2, (len(VOCABULARY), len(VOCABULARY)))


def pairs(ask: PairsAsk) -> PairsAnswer:
    """The top of the made-up table; of the filters only `apart` acts."""
    table = scores(ask) * (-1 if ask.sign == "lowest" else 1)
    if ask.filters.apart != "any":
        np.fill_diagonal(table, -np.inf)
    places = np.argsort(-table, axis=None, kind="stable")[: ask.top].tolist()
    size = len(VOCABULARY)
    found = tuple(
        TokenPair(row=at // size, column=at % size, score=float(scores(ask)[at // size, at % size])) for at in places
    )
    same = sum(pair.row == pair.column for pair in found)
    return PairsAnswer(
        conditions=CONDITIONS, head=HeadName(layer=ask.layer, head=ask.head), group=0, circuit=ask.circuit,
        sign=ask.sign, reading=ask.reading, distance=ask.distance, twin=ask.twin, pairs=found, allowed=size**2,
        rows=size, columns=size, same=same, variants=same, shared=None, words=WORDS, about=ABOUT,
    )  # fmt: skip


def line(ask: LineAsk) -> LineAnswer:
    """One row of the made-up table."""
    token = 3 if ask.token is None else ask.token
    logits = scores(ask)[token] if ask.line == "row" else scores(ask)[:, token]
    found = WeightLine(token=token, ends=ends(logits, ask.top), mean=float(logits.mean()), deviation=2.0)
    return LineAnswer(
        conditions=CONDITIONS, head=HeadName(layer=ask.layer, head=ask.head), group=0, circuit=ask.circuit,
        line=ask.line, reading=ask.reading, distance=ask.distance, lines=(found,), words=WORDS, about=ABOUT,
    )  # fmt: skip


def head(ask: HeadWeightsAsk) -> HeadWeightsAnswer:
    """One made-up head."""
    one = CircuitSummary(singular=(3.0, 2.0, 0.5), norm=3.64, copying=0.25)
    curve = tuple(CurvePoint(distance=at, score=1.0 / (1 + at)) for at in (0, 1, 2, 5, 30, 120))
    return HeadWeightsAnswer(
        conditions=CONDITIONS, head=HeadName(layer=ask.layer, head=ask.head), group=ask.head // 3, groups=4,
        reading=ask.reading, vo=one, qk=one, why={}, positions="rotary", curve=curve, about=ABOUT,
    )  # fmt: skip


def subheads(ask: SubheadsAsk) -> SubheadsAnswer:
    """Three coordinates of a head of three."""
    found = tuple(
        Subhead(index=index, norm=1.5 - index / 4, ends=ends(rolled(ask, index), ask.top)) for index in range(3)
    )
    return SubheadsAnswer(
        conditions=CONDITIONS, head=HeadName(layer=ask.layer, head=ask.head), group=0, part=ask.part,
        reading=ask.reading, subheads=found, of=3, words=WORDS, about="Each coordinate by itself.",
    )  # fmt: skip


def rolled(ask: SubheadsAsk, index: int) -> np.ndarray:
    """A coordinate's numbers over the vocabulary."""
    return np.random.default_rng([ask.layer, ask.head, index, ord(ask.part)]).normal(0, 1, len(VOCABULARY))


def overlaps(ask: OverlapsAsk) -> OverlapsAnswer:
    """Four units whose overlap falls with their number, and with their layer."""
    units = tuple(UnitName(layer=ask.layer, unit=unit) for unit in range(4))
    jaccard = [0.8 - 0.2 * unit.unit - 0.01 * ask.layer for unit in units]
    listed = tuple(
        Overlap(unit=unit, jaccard=overlap, shared=(1, 2), key=ends(logits(unit, 1), 8), value=ends(logits(unit), 8))
        for unit, overlap in zip(units, jaccard, strict=True)
        if overlap >= ask.least
    )
    return OverlapsAnswer(
        conditions=CONDITIONS, layer=ask.layer, reading=ask.reading, key="gate", units=48, reached=len(listed),
        chance=0.25, jaccard=packed(np.array(jaccard, "f4")), overlaps=listed, words=WORDS,
        about="Overlap: |both| / |either|.",
    )  # fmt: skip
