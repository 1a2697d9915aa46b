"""Two models in a notebook: what changed, which layers are alike, and stitched models, as arrays and figures."""

from typing import TYPE_CHECKING

import numpy as np

from backend.schema import (
    AlignedGroup,
    AlignmentAnswer,
    Assignment,
    ChangesAnswer,
    Interval,
    LayerPair,
    StitchingAnswer,
)
from lmscope.answers import Numbers, Row, Theme, numbers, on_paper
from lmscope.valued import OfModelInNumpy

if TYPE_CHECKING:
    import plotly.graph_objects as go


class OfTwoInNumpy(OfModelInNumpy):
    """An answer about two models."""

    answer: ChangesAnswer | AlignmentAnswer | StitchingAnswer

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.conditions.model} and {self.answer.other_conditions.model}>"


class ChangesInNumpy(OfTwoInNumpy):
    """What changed: `names` of the vectors that changed most, `norm`, `relative` (NaN where there was nothing before)
    and `moved` f8 [vectors], `towards` and `away` words of each, and `sizes` by layer and group.
    """

    answer: ChangesAnswer

    def __init__(self, answer: ChangesAnswer) -> None:
        self.answer, self.same = answer, answer.same
        self.names = tuple(each.name for each in answer.vectors)
        self.groups = tuple(each.group for each in answer.vectors)
        self.norm: Numbers = np.array([each.norm for each in answer.vectors], "f8")
        self.relative: Numbers = np.array(
            [np.nan if each.relative is None else each.relative for each in answer.vectors], "f8"
        )
        self.moved: Numbers = np.array([each.moved for each in answer.vectors], "f8")
        self.towards = tuple(self._named(each.ends.highest) for each in answer.vectors)
        self.away = tuple(self._named(each.ends.lowest) for each in answer.vectors)

    @property
    def sizes(self) -> list[Row]:
        """How much each group of each layer changed."""
        return [each.model_dump() for each in self.answer.sizes]

    def labels(self) -> list[Row]:
        """The labels of a classifier, with the words of what tells each from the others."""
        told = {"model": self.answer.words, "other": self.answer.other_words}
        return [
            {
                "side": each.side, "label": each.label, "norm": each.norm,
                "highest": " ".join(repr(told[each.side][str(id)]) for id in each.contrast.highest),
                "lowest": " ".join(repr(told[each.side][str(id)]) for id in each.contrast.lowest),
            }
            for each in self.answer.classifier
        ]  # fmt: skip

    def table(self) -> list[Row]:
        """One row a vector."""
        return [
            {"group": each.group, "vector": each.name, "norm": each.norm, "relative": each.relative,
             "moved": each.moved} | self._few(each.ends)
            for each in self.answer.vectors
        ]  # fmt: skip

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The relative size of the difference, by layer and group."""
        from frontend.figures.two_models import changes

        return on_paper(changes(self._json(), theme=theme), theme)


class AlignmentInNumpy(OfTwoInNumpy):
    """Layers against layers: `scores[group]` and `control[group]` f4 [layers, other layers], `pairs[group]`."""

    answer: AlignmentAnswer

    def __init__(self, answer: AlignmentAnswer) -> None:
        self.answer = answer
        self.groups = tuple(each.group for each in answer.groups)
        self.scores = {each.group: numbers(each.projected.scores) for each in answer.groups}
        self.control = {each.group: numbers(each.control.scores) for each in answer.groups if each.control is not None}
        self.pairs = {
            each.group: tuple((pair.layer, pair.other) for pair in each.projected.pairs) for each in answer.groups
        }

    def table(self) -> list[Row]:
        """One row a pair of layers that were put together, projected and plainly."""
        return [
            {"group": each.group, "how": how, "layer": pair.layer, "other": pair.other, "score": pair.score}
            for each in self.answer.groups
            for how, found in (("projected", each.projected), ("control", each.control))
            for pair in _pairs(found)
        ]

    def figure(self, group: AlignedGroup | None = None, *, theme: Theme = "light") -> "go.Figure":
        """One group's scores beside the control; by default the first group's."""
        from frontend.figures.two_models import alignment

        return on_paper(alignment(self._json(), group, theme=theme), theme)


class StitchingInNumpy(OfTwoInNumpy):
    """Stitched models: `kernel` names, `lower`, `upper` i4, `value`, `agreement` f8 [points], NaN where not told."""

    answer: StitchingAnswer

    def __init__(self, answer: StitchingAnswer) -> None:
        self.answer, self.measure = answer, answer.measure
        self.kernel = tuple(each.kernel for each in answer.points)
        self.lower: Numbers = np.array([each.lower for each in answer.points], "i4")
        self.upper: Numbers = np.array([each.upper for each in answer.points], "i4")
        self.value: Numbers = np.array([_mean(each.value) for each in answer.points], "f8")
        self.agreement: Numbers = np.array([_mean(each.agreement) for each in answer.points], "f8")
        self.whole = _mean(answer.whole)

    def table(self) -> list[Row]:
        """One row a stitched model, with intervals."""
        return [
            {"kernel": each.kernel, "lower": each.lower, "upper": each.upper}
            | _row("value", each.value) | _row("agreement", each.agreement)
            for each in self.answer.points
        ]  # fmt: skip

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The measure against how many lower blocks there are, beside the controls."""
        from frontend.figures.two_models import stitching

        return on_paper(stitching(self._json(), theme=theme), theme)


def _pairs(found: Assignment | None) -> tuple[LayerPair, ...]:
    return () if found is None else found.pairs


def _mean(interval: Interval | None) -> float:
    return np.nan if interval is None else interval.mean


def _row(name: str, interval: Interval | None) -> Row:
    told = (None, None, None) if interval is None else (interval.mean, interval.low, interval.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), told, strict=True))
