"""Studies of sliders as numpy arrays: a sweep over strengths."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from backend.schema import Interval, Sweep, SweepPoint
from lmscope.answers import InNumpy, Numbers, Row, Theme, on_paper

if TYPE_CHECKING:
    import plotly.graph_objects as go

Measure = Literal["plus", "minus", "perplexity", "kl", "distinct"]


class SweepInNumpy(InNumpy):
    """What a slider does at every strength.

    `by` and `other` f8 [P] (NaN: there is no second slider); `plus`, `minus`, `perplexity` and `kl` f8 [P, 3]: mean,
    low and high end of the 95 % interval, NaN where it was not measured; `distinct` f8 [P, 3]: shares of different 1-,
    2- and 3-grams; `control`: the same numbers of the random steer by the same names; `samples`: texts by prompt.
    """

    answer: Sweep

    def __init__(self, answer: Sweep) -> None:
        self.answer, self.prompts = answer, answer.prompts
        told = _arrays(answer.points)
        self.by, self.other, self.plus, self.minus, self.perplexity, self.kl, self.distinct = (
            told[name] for name in ("by", "other", "plus", "minus", "perplexity", "kl", "distinct")
        )  # fmt: skip
        self.control: dict[str, Numbers] = _arrays(answer.control)
        self.samples = tuple(point.samples for point in answer.points)

    @property
    def notices(self) -> tuple[str, ...]:
        """What was measured, and what is missing."""
        return (self.answer.about, *self.answer.notices)

    def table(self) -> list[Row]:
        """One row a point, the random steer's below."""
        kinds = (("steer", self.answer.points), ("random", self.answer.control))
        return [_row(kind, point) for kind, points in kinds for point in points]

    def figure(
        self, *, measure: Measure = "plus", poles: tuple[str, str] = ("+", "−"), theme: Theme = "light"
    ) -> "go.Figure":
        """Likelihood of both poles, perplexity, KL and distinct n-grams over the strength; of two, a map of one."""
        from frontend.figures.sweep import sweep

        return on_paper(sweep(self._json(), poles=poles, measure=measure, theme=theme), theme)


def _row(kind: str, point: SweepPoint) -> Row:
    row: Row = {"kind": kind, "by": point.by, "other": point.other}
    for name in ("plus", "minus", "perplexity", "kl"):
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), _three(getattr(point, name)), strict=True))
    return row | dict(zip(("distinct_1", "distinct_2", "distinct_3"), _shares(point), strict=True))


def _arrays(points: Sequence[SweepPoint]) -> dict[str, Numbers]:
    found = {
        name: np.array([_three(getattr(point, name)) for point in points], "f8").reshape(-1, 3)
        for name in ("plus", "minus", "perplexity", "kl")
    }
    return found | {
        "by": np.array([point.by for point in points], "f8"),
        "other": np.array([np.nan if point.other is None else point.other for point in points], "f8"),
        "distinct": np.array([_shares(point) for point in points], "f8").reshape(-1, 3),
    }


def _three(interval: Interval | None) -> tuple[float, float, float]:
    return (np.nan,) * 3 if interval is None else (interval.mean, interval.low, interval.high)


def _shares(point: SweepPoint) -> tuple[float, float, float]:
    return point.distinct or (np.nan,) * 3
