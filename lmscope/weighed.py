"""Weights in a notebook: tables of token pairs, lines, coordinates, overlaps and a head's numbers as arrays."""

from typing import TYPE_CHECKING

import numpy as np

from backend.schema import (
    Among,
    ConceptAnswer,
    HeadWeightsAnswer,
    LineAnswer,
    Near,
    OverlapsAnswer,
    PairsAnswer,
    SubheadsAnswer,
)
from lmscope.answers import Numbers, Row, Theme, numbers, on_paper
from lmscope.valued import OfModelInNumpy

if TYPE_CHECKING:
    import plotly.graph_objects as go


class PairsInNumpy(OfModelInNumpy):
    """The top pairs of a head: `rows`, `columns` words, `row_ids`, `column_ids` i4 and `score` f8 [pairs]."""

    answer: PairsAnswer

    def __init__(self, answer: PairsAnswer) -> None:
        self.answer = answer
        self.row_ids: Numbers = np.array([pair.row for pair in answer.pairs], "i4")
        self.column_ids: Numbers = np.array([pair.column for pair in answer.pairs], "i4")
        self.score: Numbers = np.array([pair.score for pair in answer.pairs], "f8")
        self.rows = self._named(tuple(pair.row for pair in answer.pairs))
        self.columns = self._named(tuple(pair.column for pair in answer.pairs))

    def table(self) -> list[Row]:
        """One row a pair."""
        return [
            {"row_id": pair.row, "row": row, "column_id": pair.column, "column": column, "score": pair.score}
            for pair, row, column in zip(self.answer.pairs, self.rows, self.columns, strict=True)
        ]

    def figure(self, pairs: int = 25, *, theme: Theme = "light") -> "go.Figure":
        """The first pairs as bars."""
        from frontend.figures.values import bars

        labels = [f"{row!r} → {column!r}" for row, column in zip(self.rows, self.columns, strict=True)][:pairs]
        return on_paper(bars(labels, self.score[:pairs].tolist(), "Score", theme=theme), theme)


class LineInNumpy(OfModelInNumpy):
    """Rows or columns of a head's table, one for each spelling: `tokens`, and by token `highest`, `lowest` words."""

    answer: LineAnswer

    def __init__(self, answer: LineAnswer) -> None:
        self.answer = answer
        self.tokens = self._named(tuple(line.token for line in answer.lines))
        self.highest = tuple(self._named(line.ends.highest) for line in answer.lines)
        self.lowest = tuple(self._named(line.ends.lowest) for line in answer.lines)

    def table(self) -> list[Row]:
        """One row a word: first the highest entries of each line, then its lowest."""
        return [
            {"token": token, "end": end, "id": id, "word": word, "score": score}
            for token, line in zip(self.tokens, self.answer.lines, strict=True)
            for end, ids, scores in (
                ("highest", line.ends.highest, line.ends.highest_logit),
                ("lowest", line.ends.lowest, line.ends.lowest_logit),
            )
            for id, word, score in zip(ids, self._named(ids), scores, strict=True)
        ]

    def figure(self, words: int = 15, *, theme: Theme = "light") -> "go.Figure":
        """Both ends of the first line as bars."""
        from frontend.figures.values import bars

        ends = self.answer.lines[0].ends
        labels = [*map(repr, self.highest[0][:words]), *map(repr, reversed(self.lowest[0][:words]))]
        scores = [*ends.highest_logit[:words], *reversed(ends.lowest_logit[:words])]
        return on_paper(bars(labels, scores, "Score", theme=theme), theme)


class SubheadsInNumpy(OfModelInNumpy):
    """Coordinates of a head: `index` i4, `norm` f4 [coordinates]."""

    answer: SubheadsAnswer

    def __init__(self, answer: SubheadsAnswer) -> None:
        self.answer = answer
        self.index: Numbers = np.array([one.index for one in answer.subheads], "i4")
        self.norm: Numbers = np.array([one.norm for one in answer.subheads], "f4")

    def table(self) -> list[Row]:
        """One row a coordinate, with a few words at both ends."""
        return [{"index": one.index, "norm": one.norm} | self._few(one.ends) for one in self.answer.subheads]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """Their norms."""
        from frontend.figures.values import bars

        return on_paper(bars([str(at) for at in self.index], self.norm.tolist(), "Norm", theme=theme), theme)


class OverlapsInNumpy(OfModelInNumpy):
    """Units whose key and value have words in common: `units` by name, `overlap` f4 [listed], `jaccard` f4 [units]."""

    answer: OverlapsAnswer

    def __init__(self, answer: OverlapsAnswer) -> None:
        self.answer = answer
        self.units = tuple(str(one.unit) for one in answer.overlaps)
        self.overlap: Numbers = np.array([one.jaccard for one in answer.overlaps], "f4")
        self.jaccard = numbers(answer.jaccard)

    def table(self) -> list[Row]:
        """One row a unit."""
        return [
            {"unit": str(one.unit), "jaccard": one.jaccard, "shared": " ".join(map(repr, self._named(one.shared)))}
            | {f"key_{name}": words for name, words in self._few(one.key).items()}
            | {f"value_{name}": words for name, words in self._few(one.value).items()}
            for one in self.answer.overlaps
        ]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The units that are listed."""
        from frontend.figures.values import bars

        return on_paper(bars(list(self.units), self.overlap.tolist(), "Jaccard overlap", theme=theme), theme)


class ConceptInNumpy(OfModelInNumpy):
    """What is near a concept: `vectors` by name, such as `L3U7` or `W_O 2.5, row 12`, `score`, `cosine` f8 [listed]."""

    answer: ConceptAnswer

    def __init__(self, answer: ConceptAnswer) -> None:
        self.answer = answer
        self._found = [(group.among, one) for group in answer.groups for one in group.found]
        self.vectors = tuple(_named(among, one) for among, one in self._found)
        self.score: Numbers = np.array([one.score for _, one in self._found], "f8")
        self.cosine: Numbers = np.array([one.cosine for _, one in self._found], "f8")

    def table(self) -> list[Row]:
        """One row a vector, group by group."""
        return [
            {"among": among, "vector": name, "score": one.score, "cosine": one.cosine} | self._few(one.ends)
            for (among, one), name in zip(self._found, self.vectors, strict=True)
        ]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """Cosines with the concept: scores of long and short vectors are no measure of one another."""
        from frontend.figures.values import bars

        return on_paper(bars(list(self.vectors), self.cosine.tolist(), "Cosine", theme=theme), theme)


def _named(among: Among, one: Near) -> str:
    """A value or key by its unit, a subhead by its head and coordinate; W_V and W_K by their key/value head."""
    if one.unit is not None:
        return f"L{one.layer}U{one.unit}" + (" (key)" if among == "keys" else "")
    return f"W_{among.upper()} {one.layer}.{one.head}, {'row' if among == 'o' else 'column'} {one.index}"


class HeadWeightsInNumpy(OfModelInNumpy):
    """One head in numbers: `singular_vo`, `singular_qk` f8, `distance` i4 and `score` f8 of its curve."""

    answer: HeadWeightsAnswer

    def __init__(self, answer: HeadWeightsAnswer) -> None:
        self.answer = answer
        self.singular_vo: Numbers = np.array(answer.vo.singular if answer.vo else (), "f8")
        self.singular_qk: Numbers = np.array(answer.qk.singular if answer.qk else (), "f8")
        self.distance: Numbers = np.array([point.distance for point in answer.curve], "i4")
        self.score: Numbers = np.array([point.score for point in answer.curve], "f8")

    def table(self) -> list[Row]:
        """One row a distance."""
        return [{"distance": point.distance, "score": point.score} for point in self.answer.curve]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """Mean score against distance."""
        from frontend.figures.weights import curve

        return on_paper(curve(self._json(), theme=theme), theme)
