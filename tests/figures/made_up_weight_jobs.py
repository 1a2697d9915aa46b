"""What the weights page's jobs find, made from random numbers, valid in every field; `done` is their share so far."""

from typing import Any

import numpy as np

from backend.schema import (
    ActiveAsk,
    ActivePoint,
    ActiveStudy,
    AlignedLayers,
    AlignmentAnswer,
    AlignmentAsk,
    Assignment,
    ChangedVector,
    ChangesAnswer,
    ChangesAsk,
    ChangeSize,
    ClassifierVector,
    HeadSummaries,
    HeadTables,
    Interval,
    KeepAsk,
    KeepCurve,
    KeepPoint,
    KeepStudy,
    LayerPair,
    SharedTokens,
    SimilarityAsk,
    SimilarityPoint,
    SimilarityStudy,
    StitchingAnswer,
    StitchingAsk,
    StitchPoint,
    SummariesAsk,
    TablesAsk,
    UnitName,
)
from tests.figures.answers import CONDITIONS, VOCABULARY, packed
from tests.figures.made_up_values import WORDS, ends, logits

LAYERS, HEADS, KV = 30, 9, 3
"""Of the made-up shelf's first model."""
TWO: dict[str, Any] = {
    "conditions": CONDITIONS, "other_conditions": CONDITIONS, "reading": "folded",
    "shared": SharedTokens(tokens=12, of=len(VOCABULARY), other_of=20, by_string=False),
}  # fmt: skip


def about(mean: float) -> Interval:
    """An interval around a mean."""
    return Interval(mean=mean, low=mean - 0.05, high=mean + 0.05, n=40)


def heads(ask: SummariesAsk, done: float = 1.0) -> HeadSummaries:
    """Numbers of every head; of the last layers only once it is done."""
    rng = np.random.default_rng(3)
    known = np.arange(LAYERS)[:, None] < LAYERS * done
    arrays = {
        name: packed(np.where(known, rng.uniform(low, high, (LAYERS, HEADS)), np.nan).astype("f4"))
        for name, low, high in (
            ("largest", 1, 9), ("first", 0, 1), ("rank", 1, 64), ("copying", -1, 1), ("same", 0, 1)
        )
    }  # fmt: skip
    return HeadSummaries(
        conditions=CONDITIONS, reading=ask.reading, top=ask.top, layers=tuple(range(LAYERS)), heads=HEADS, kv_heads=KV,
        searched=int(LAYERS * HEADS * done), why={}, abouts={name: f"{name} is a number." for name in arrays}, **arrays,
    )  # fmt: skip


def tables(ask: TablesAsk, done: float = 1.0) -> HeadTables:
    """Two pairs of each head that was searched."""
    count = int(LAYERS * HEADS * done)
    place = np.arange(count)
    pairs = np.stack([place % 5, (place + 1) % 5], 1).astype("i4")
    none = packed(np.zeros(count, "i4"))
    return HeadTables(
        conditions=CONDITIONS, circuit=ask.circuit, reading=ask.reading, distance=ask.distance, sign=ask.sign,
        twin=ask.twin, inverse=ask.inverse, layer=packed((place // HEADS).astype("i4")),
        head=packed((place % HEADS).astype("i4")),
        group=packed((place % HEADS // 3).astype("i4")), row=packed(pairs), column=packed(pairs[:, ::-1].copy()),
        score=packed(np.ones((count, 2), "f4")), same=none, variants=none, heads=LAYERS * HEADS, why={},
        allowed=len(VOCABULARY) ** 2, words=WORDS, about="All heads.",
    )  # fmt: skip


def keep(ask: KeepAsk, done: float = 1.0) -> KeepStudy:
    """One curve, then all."""
    curves = tuple(
        KeepCurve(vectors=vectors, inverse=inverse, points=tuple(
            KeepPoint(k=k, cosine=about(0.3 + 0.1 * place), apart=about(0.2 + 0.1 * place))
            for place, k in enumerate((10, 100, 1000))
        ))
        for vectors in ask.vectors for inverse in ("transpose", "pseudo")
    )  # fmt: skip
    return KeepStudy(conditions=CONDITIONS, count=ask.count, curves=curves[: max(1, int(len(curves) * done))], why={},
                     about="Products of vectors.")  # fmt: skip


def active(ask: ActiveAsk, done: float = 1.0) -> ActiveStudy:
    """Layers as they come."""
    points = tuple(
        ActivePoint(group=group, layer=layer, against=against, own=about(0.4), shuffled=about(0.1), more=about(0.3))
        for layer in range(max(1, int(6 * done))) for group in ask.groups for against in ("layer", "final")
    )  # fmt: skip
    return ActiveStudy(conditions=CONDITIONS, reading=ask.reading, k=ask.k, active=ask.active, tokens=ask.tokens,
                       texts=40, set="a" * 64, points=points, why={}, about="The most active vectors.")  # fmt: skip


def similarity(ask: SimilarityAsk, done: float = 1.0) -> SimilarityStudy:
    """Layers as they come, then all together."""
    layers: list[int | None] = list(range(max(1, int(6 * done))))
    points = tuple(
        SimilarityPoint(pairing=pairing, layer=layer, own=about(0.3), random=about(0.1), twin=about(0.08),
                        more=about(0.2))
        for pairing in ask.pairings for layer in [*layers, *([None] if done >= 1 else [])]
    )  # fmt: skip
    return SimilarityStudy(conditions=CONDITIONS, reading=ask.reading, k=ask.k, points=points,
                           why={"queries_keys 0": "it has none"}, about="Pairs of vectors.")  # fmt: skip


def changes(ask: ChangesAsk, done: float = 1.0) -> ChangesAnswer:
    """Three layers of two groups, and a classifier."""
    layers = range(max(1, int(3 * done)))
    sizes = tuple(
        ChangeSize(layer=layer, group=group, norm=0.5 + layer, before=10.0, relative=0.05 + layer / 10, numbers=64,
                   changed=60)
        for layer in layers for group in ("q", "value")
    )  # fmt: skip
    vectors = tuple(
        ChangedVector(layer=layer, group="value", index=7, name=f"L{layer}U7", norm=0.5, relative=0.1, moved=0.2,
                      ends=ends(logits(UnitName(layer=layer, unit=7)), ask.top))
        for layer in layers
    )  # fmt: skip
    label = ends(logits(UnitName(layer=0, unit=1)), ask.top)
    return ChangesAnswer(
        same=False, sizes=sizes, vectors=vectors,
        classifier=(ClassifierVector(side="other", label="positive", norm=1.0, ends=label, contrast=label),),
        why={}, words=WORDS, other_words=WORDS, about="After less before.", **TWO,
    )  # fmt: skip


def alignment(ask: AlignmentAsk, done: float = 1.0) -> AlignmentAnswer:
    """Two groups of four layers; the assignment when it is done."""
    scores = np.eye(4, dtype="f4") * 0.5 + 0.2

    def side(shift: int) -> Assignment:
        pairs = tuple(LayerPair(layer=layer, other=(layer + shift) % 4, score=0.7) for layer in range(4))
        return Assignment(scores=packed(scores), pairs=pairs if done >= 1 else (), same=4 if shift == 0 else 0,
                          same_by_chance=1.0, order=1.0 if shift == 0 else -0.2)  # fmt: skip

    groups = tuple(
        AlignedLayers(group=group, vectors=9, other_vectors=9, projected=side(0), control=side(1))
        for group in ("vo", "value")
    )
    return AlignmentAnswer(score=ask.score, layers=(0, 1, 2, 3), other_layers=(0, 1, 2, 3), groups=groups, why={},
                           about="Layers against layers.", **TWO)  # fmt: skip


def stitching(ask: StitchingAsk, done: float = 1.0) -> StitchingAnswer:
    """Three cuts under two kernels."""
    points = tuple(
        StitchPoint(kernel=kernel, lower=lower, upper=lower, value=about(0.5 + lower / 20), agreement=about(0.4))
        for lower in (0, 2, 4)[: max(1, int(3 * done))] for kernel in ("stitched", "random")
    )  # fmt: skip
    return StitchingAnswer(measure="accuracy", points=points, whole=about(0.9), chance=0.5, texts=40, of=60,
                           labels=("bad", "good"), positive=1, negative=0, examples=ask.examples,
                           named="films" if ask.examples else "prose", about="Lower blocks, then upper ones.",
                           **TWO)  # fmt: skip
