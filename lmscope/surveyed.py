"""All heads of a model, and studies of weights read as words, as numpy arrays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from backend.schema import ActiveStudy, HeadSummaries, HeadTables, Interval, KeepStudy, SimilarityStudy
from lmscope.answers import InNumpy, Numbers, Row, Theme, numbers, on_paper
from lmscope.valued import OfModelInNumpy

if TYPE_CHECKING:
    import plotly.graph_objects as go

Measure = Literal["largest", "first", "rank", "copying", "same"]
MEASURES: tuple[Measure, ...] = ("largest", "first", "rank", "copying", "same")
TITLES: dict[Measure, str] = {
    "largest": "σ₁ of W_VO", "first": "share of σ₁", "rank": "effective rank", "copying": "copying score",
    "same": "same-token pairs",
}  # fmt: skip


class HeadTablesInNumpy(OfModelInNumpy):
    """Top pairs of every head: `layer`, `head`, `group`, `same`, `variants` i4 [n], `row_ids`, `column_ids` i4 [n, N]
    and `score` f4 [n, N]; `rows`, `columns` words by head.
    """

    answer: HeadTables

    def __init__(self, answer: HeadTables) -> None:
        self.answer = answer
        self.layer, self.head, self.group, self.same, self.variants = map(
            numbers, (answer.layer, answer.head, answer.group, answer.same, answer.variants)
        )
        self.row_ids, self.column_ids, self.score = map(numbers, (answer.row, answer.column, answer.score))
        self.rows, self.columns = (
            tuple(self._named(tuple(ids.tolist())) for ids in part) for part in (self.row_ids, self.column_ids)
        )

    def table(self) -> list[Row]:
        """One row a pair, head by head."""
        return [
            {"head": f"{layer}.{head}", "row_id": row_id, "row": row, "column_id": column_id, "column": column,
             "score": score}
            for place, (layer, head) in enumerate(zip(self.layer.tolist(), self.head.tolist(), strict=True))
            for row_id, row, column_id, column, score in zip(
                self.row_ids[place].tolist(), self.rows[place], self.column_ids[place].tolist(), self.columns[place],
                self.score[place].tolist(), strict=True,
            )
        ]  # fmt: skip

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The share of same-token pairs in the table of every head."""
        from frontend.figures.weights import by_head

        shares = np.full((int(self.layer.max()) + 1, int(self.head.max()) + 1), np.nan)
        shares[self.layer, self.head] = self.same / self.row_ids.shape[1]
        layers = list(range(len(shares)))
        return on_paper(by_head(shares.tolist(), layers, TITLES["same"], theme=theme), theme)


class HeadSummariesInNumpy(OfModelInNumpy):
    """W_VO of every head: `largest`, `first`, `rank`, `copying`, `same` f4 [layers, heads], NaN where not defined."""

    answer: HeadSummaries

    def __init__(self, answer: HeadSummaries) -> None:
        self.answer, self.layers = answer, answer.layers
        self.largest, self.first, self.rank, self.copying, self.same = (
            numbers(getattr(answer, name)) for name in MEASURES
        )

    def table(self) -> list[Row]:
        """One row a head."""
        return [
            {"head": f"{layer}.{head}"}
            | {name: _or_none(getattr(self, name)[place, head].item()) for name in MEASURES}
            for place, layer in enumerate(self.layers) for head in range(self.answer.heads)
        ]  # fmt: skip

    def figure(self, measure: Measure = "copying", *, theme: Theme = "light") -> "go.Figure":
        """One number of every head, layers down, heads across."""
        from frontend.figures.weights import by_head

        values: Numbers = getattr(self, measure)
        return on_paper(by_head(values.tolist(), list(self.layers), TITLES[measure], theme=theme), theme)


class StudyInNumpy(InNumpy):
    """A study of weights; `table` has one row a point, with mean, low and high end of each 95 % interval."""

    answer: KeepStudy | ActiveStudy | SimilarityStudy
    kind: str
    """What it is called where it is drawn."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.conditions.model}>"

    @property
    def notices(self) -> tuple[str, ...]:
        """What was measured, and what was not."""
        why = tuple(f"{name}: {why}" for name, why in self.answer.why.items())
        return (self.answer.about, *self.answer.notices, *why)

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """Every mean with its interval, beside chance."""
        from frontend.figures.weight_studies import DRAWN

        return on_paper(DRAWN[self.kind](self._json(), theme), theme)


class KeepInNumpy(StudyInNumpy):
    """What the k largest words keep: `k` i4 [points], `cosine`, `apart` f8 [curves, points, 3]: mean, low, high.

    `curves`: pairs of vectors and inverse.
    """

    answer: KeepStudy
    kind = "keep"

    def __init__(self, answer: KeepStudy) -> None:
        self.answer = answer
        self.curves = tuple((curve.vectors, curve.inverse) for curve in answer.curves)
        self.k: Numbers = np.array([point.k for point in answer.curves[0].points] if answer.curves else (), "i4")
        self.cosine, self.apart = (
            np.array([[_three(getattr(point, name)) for point in curve.points] for curve in answer.curves], "f8")
            for name in ("cosine", "apart")
        )

    def table(self) -> list[Row]:
        """One row a point."""
        return [
            {"vectors": curve.vectors, "inverse": curve.inverse, "k": point.k}
            | _told("cosine", point.cosine) | _told("apart", point.apart)
            for curve in self.answer.curves for point in curve.points
        ]  # fmt: skip


class ActiveInNumpy(StudyInNumpy):
    """R_k: `group`, `against` by point, `layer` i4 [points], `own`, `shuffled`, `more` f8 [points, 3]."""

    answer: ActiveStudy
    kind = "active"

    def __init__(self, answer: ActiveStudy) -> None:
        self.answer = answer
        self.group = tuple(point.group for point in answer.points)
        self.against = tuple(point.against for point in answer.points)
        self.layer: Numbers = np.array([point.layer for point in answer.points], "i4")
        self.own, self.shuffled, self.more = _columns(answer.points, ("own", "shuffled", "more"))

    def table(self) -> list[Row]:
        """One row a group, layer and state."""
        return [
            {"group": point.group, "layer": point.layer, "against": point.against} | _told("own", point.own)
            | _told("shuffled", point.shuffled) | _told("more", point.more)
            for point in self.answer.points
        ]  # fmt: skip


class SimilarityInNumpy(StudyInNumpy):
    """Shared words: `pairing` by point, `layer` i4 [points], −1 all; `own`, `random`, `twin`, `more` f8 [points, 3]."""

    answer: SimilarityStudy
    kind = "similarity"

    def __init__(self, answer: SimilarityStudy) -> None:
        self.answer = answer
        self.pairing = tuple(point.pairing for point in answer.points)
        self.layer: Numbers = np.array([-1 if each.layer is None else each.layer for each in answer.points], "i4")
        self.own, self.random, self.twin, self.more = _columns(answer.points, ("own", "random", "twin", "more"))

    def table(self) -> list[Row]:
        """One row a pairing and layer."""
        return [
            {"pairing": point.pairing, "layer": "all" if point.layer is None else point.layer}
            | _told("own", point.own) | _told("random", point.random) | _told("twin", point.twin)
            | _told("more", point.more)
            for point in self.answer.points
        ]  # fmt: skip


def _three(interval: Interval) -> tuple[float, float, float]:
    return interval.mean, interval.low, interval.high


def _told(name: str, interval: Interval) -> Row:
    return dict(zip((name, f"{name}_low", f"{name}_high"), _three(interval), strict=True))


def _columns(points: Sequence[Any], names: Sequence[str]) -> tuple[Numbers, ...]:
    return tuple(np.array([_three(getattr(point, name)) for point in points], "f8").reshape(-1, 3) for name in names)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
