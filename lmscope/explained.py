"""A cell and contributions as numpy arrays."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from backend.schema import CellAnswer, CellSide, ContributionsAnswer, ContributionsSide
from lmscope.answers import InNumpy, Numbers, Row, Theme, numbers, on_paper

if TYPE_CHECKING:
    import plotly.graph_objects as go

Shown = Literal["edited", "unedited"]


class CellSideInNumpy:
    """One side of a cell, N listed values.

    `units` i4 [N]; `coefficient`, `norm`, `magnitude` f4 [N]; `contribution` f4 [N], NaN where not defined;
    `coefficients` f4 [N, T] at every position; `promotes` and `suppresses` are lists of words for each value; `before`
    and `after` map words to probabilities.
    """

    def __init__(self, side: CellSide, words: dict[str, str]) -> None:
        values = side.values
        self.units: Numbers = np.array([value.unit for value in values], "i4")
        self.coefficient, self.norm, self.magnitude = (
            np.array([getattr(value, name) for value in values], "f4") for name in ("coefficient", "norm", "magnitude")
        )
        self.contribution: Numbers = np.array(
            [np.nan if value.contribution is None else value.contribution for value in values], "f4"
        )
        self.coefficients: Numbers = np.stack([numbers(value.at) for value in values])
        self.promotes = [[words[str(id)] for id in value.ends.highest] for value in values]
        self.suppresses = [[words[str(id)] for id in value.ends.lowest] for value in values]
        self.before, self.after = (
            dict(zip([words[str(id)] for id in found.ids], numbers(found.probability).tolist(), strict=True))
            for found in (side.before, side.after)
        )


class CellInNumpy(InNumpy):
    """One layer and token of the lens. `units`, `coefficient`, `contribution`, … are the edited side's."""

    answer: CellAnswer

    def __init__(self, answer: CellAnswer) -> None:
        self.answer = answer
        self.edited = side = CellSideInNumpy(answer.edited, answer.words)
        self.unedited = None if answer.unedited is None else CellSideInNumpy(answer.unedited, answer.words)
        self.units, self.coefficient, self.norm, self.magnitude = (
            side.units, side.coefficient, side.norm, side.magnitude
        )  # fmt: skip
        self.contribution, self.coefficients = side.contribution, side.coefficients
        self.promotes, self.suppresses, self.before, self.after = (
            side.promotes, side.suppresses, side.before, side.after
        )  # fmt: skip

    def table(self) -> list[Row]:
        """One row a value, by its name."""
        return [
            {
                "side": name, "value": f"L{self.answer.layer}U{value.unit}", "coefficient": value.coefficient,
                "norm": value.norm, "magnitude": value.magnitude, "contribution": value.contribution,
                "promotes": " ".join(self.answer.words[str(id)].strip() for id in value.ends.highest),
                "suppresses": " ".join(self.answer.words[str(id)].strip() for id in value.ends.lowest),
            }
            for name, side in (("edited", self.answer.edited), ("unedited", self.answer.unedited)) if side is not None
            for value in side.values
        ]  # fmt: skip

    def figure(self, side: Shown = "edited", *, theme: Theme = "light") -> "go.Figure":
        """The listed values as signed bars."""
        from frontend.figures.explained import values_of_cell

        return on_paper(values_of_cell(self._json(), side=side, theme=theme), theme)


class ContributionsSideInNumpy:
    """Direct contributions of one side, in logits.

    `attention`, `feed_forward` f4 [L]; `heads` f4 [L, H], NaN where unknown; `values`, `coefficient` f4 [N] of the
    units named in `units`; `embedding`, `rest`, `logits` and `sum_error` are numbers.
    """

    def __init__(self, side: ContributionsSide) -> None:
        self.attention, self.feed_forward, self.heads = map(numbers, (side.attention, side.feed_forward, side.heads))
        self.values, self.coefficient = numbers(side.values), numbers(side.coefficient)
        self.units = tuple(str(unit) for unit in side.units)
        self.embedding, self.rest, self.logits, self.sum_error = side.embedding, side.rest, side.logits, side.sum_error


class ContributionsInNumpy(InNumpy):
    """What every part writes towards target minus foil. `attention`, `heads`, `values`, … are the edited side's."""

    answer: ContributionsAnswer

    def __init__(self, answer: ContributionsAnswer) -> None:
        self.answer, self.explained = answer, answer.explained
        self.edited = side = ContributionsSideInNumpy(answer.edited)
        self.unedited = None if answer.unedited is None else ContributionsSideInNumpy(answer.unedited)
        self.attention, self.feed_forward, self.heads = side.attention, side.feed_forward, side.heads
        self.values, self.coefficient, self.units = side.values, side.coefficient, side.units
        self.embedding, self.rest, self.logits, self.sum_error = side.embedding, side.rest, side.logits, side.sum_error

    def table(self) -> list[Row]:
        """One row a part: embedding, each layer's attention and feed-forward, the rest, heads, values."""
        return [
            {"side": name, "part": part, "contribution": None if value != value else value}
            for name, side in (("edited", self.edited), ("unedited", self.unedited)) if side is not None
            for part, value in self._parts(side)
        ]  # fmt: skip

    def figure(self, side: Shown = "edited", *, theme: Theme = "light") -> "go.Figure":
        """Attention and feed-forward of every layer as bars."""
        from frontend.figures.explained import parts_by_layer

        return on_paper(parts_by_layer(self._json(), side=side, theme=theme), theme)

    @staticmethod
    def _parts(side: ContributionsSideInNumpy) -> list[tuple[str, float]]:
        layers = range(len(side.attention))
        heads = [(f"head {layer}.{head}", value) for layer in layers for head, value in enumerate(side.heads[layer])]
        return [
            ("embedding", side.embedding),
            *((f"attention {layer}", side.attention[layer].item()) for layer in layers),
            *((f"feed-forward {layer}", side.feed_forward[layer].item()) for layer in layers),
            ("rest", side.rest),
            *((part, value.item()) for part, value in heads),
            *zip(side.units, side.values.tolist(), strict=True),
        ]
