"""Steering in a notebook: two distributions, what in a text shows a steer, and a steer taken apart."""

from typing import TYPE_CHECKING, Any

import numpy as np

from backend.schema import Dimension, Ends, EvidenceAnswer, InsideAnswer, Shift, SteerAnswer
from lmscope.answers import InNumpy, Numbers, Row, Theme, numbers, on_paper, plain

if TYPE_CHECKING:
    import plotly.graph_objects as go


class SteerInNumpy(InNumpy):
    """The next token with the sliders and without them.

    `likely`, `rose`, `fell`: words; `base`, `steered` f4 probabilities and `logit` f4 (how far it moved) of `likely`;
    `shares` f4 [likely, sliders] what each slider adds to that; `kl` nats, `kl_text` nats where asked for.
    """

    answer: SteerAnswer

    def __init__(self, answer: SteerAnswer) -> None:
        self.answer, self.kl, self.kl_text = answer, answer.kl, answer.kl_text
        self.likely, self.rose, self.fell = (
            tuple(answer.words[str(shift.id)] for shift in shifts)
            for shifts in (answer.likely, answer.rose, answer.fell)
        )
        self.base: Numbers = np.array([shift.base for shift in answer.likely], "f4")
        self.steered: Numbers = np.array([shift.steered for shift in answer.likely], "f4")
        self.logit: Numbers = np.array([shift.logit for shift in answer.likely], "f4")
        self.shares: Numbers = np.array([shift.shares for shift in answer.likely], "f4").reshape(
            len(answer.likely), len(answer.sliders)
        )

    def table(self) -> list[Row]:
        """One row a token: the likeliest, then those that rose and those that fell most."""
        groups = {"likely": self.answer.likely, "rose": self.answer.rose, "fell": self.answer.fell}
        return [self._row(group, shift) for group, shifts in groups.items() for shift in shifts]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The likeliest tokens, without the sliders and with them."""
        from frontend.figures.steer import distribution

        return on_paper(distribution(self._json(), theme=theme), theme)

    def shares_figure(self, *, theme: Theme = "light") -> "go.Figure":
        """What each slider adds to the logits of the tokens that rose and fell most."""
        from frontend.figures.steer import shares

        return on_paper(shares(self._json(), theme=theme), theme)

    def _row(self, group: str, shift: Shift) -> Row:
        added = {f"slider_{place}": share for place, share in zip(self.answer.sliders, shift.shares, strict=True)}
        return {"of": group, "id": shift.id, "word": self.answer.words[str(shift.id)], "base": shift.base,
                "steered": shift.steered, "logit": shift.logit} | added | {"rest": shift.rest}  # fmt: skip


class EvidenceInNumpy(InNumpy):
    """What in a text shows the sliders: `evidence` f4 [T] nats a token (NaN for the first), `words` its tokens.

    `spans`: (first, last, nats) of the best spans; `best` their sum, `chance` that of random orders, `p`.
    """

    answer: EvidenceAnswer

    def __init__(self, answer: EvidenceAnswer) -> None:
        self.answer, self.evidence = answer, numbers(answer.evidence)
        self.words = tuple(answer.words[str(id)] for id in answer.ids)
        self.spans = tuple((span.first, span.last, span.evidence) for span in answer.spans)
        self.best, self.chance, self.p, self.total = answer.best, answer.chance, answer.p, answer.total

    def table(self) -> list[Row]:
        """One row a token, with the number of the span that it is in."""
        span_of = {place: n for n, (first, last, _) in enumerate(self.spans) for place in range(first, last)}
        return [
            {"position": place, "id": id, "word": word, "evidence": value, "span": span_of.get(place)}
            for place, (id, word, value) in enumerate(zip(self.ids, self.words, plain(self.evidence), strict=True))
        ]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """A bar a token, the best spans marked."""
        from frontend.figures.steer import evidence

        opened = self._json() | {"evidence": plain(self.evidence)}
        return on_paper(evidence(opened, theme=theme), theme)


class InsideInNumpy(InNumpy):
    """A steer taken apart: `singular`, `share` f4 [directions], the largest first.

    `writes`, `reads`: for each direction its words at the + end and at the − end; `scatter` f4 [n, 2] of the words
    `scattered`, along the first two.
    """

    answer: InsideAnswer

    def __init__(self, answer: InsideAnswer) -> None:
        self.answer, self.norm, self.rank = answer, answer.norm, answer.rank
        self.singular: Numbers = np.array([each.singular for each in answer.dimensions], "f4")
        self.share: Numbers = np.array([each.share for each in answer.dimensions], "f4")
        self.writes = tuple(self._both(each.writes) for each in answer.dimensions)
        self.reads = tuple(self._both(each.reads) for each in answer.dimensions)
        self.scatter, self.scattered = numbers(answer.scatter), self._named(answer.scatter_ids)

    def table(self) -> list[Row]:
        """One row a direction."""
        return [self._row(place, each) for place, each in enumerate(self.answer.dimensions)]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The words at the ends of the first two directions."""
        from frontend.figures.steer import scatter

        opened = self._json() | {"scatter": self.scatter.tolist()}
        return on_paper(scatter(opened, theme=theme), theme)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.conditions.model}, rank {self.rank}>"

    def _row(self, place: int, each: Dimension) -> Row:
        named: dict[str, Any] = {
            f"{vector}_{end}": " ".join(map(repr, words))
            for vector, both in (("writes", self.writes[place]), ("reads", self.reads[place]))
            for end, words in zip(("plus", "minus"), both, strict=True)
        }
        return {"direction": place, "singular": each.singular, "share": each.share} | named

    def _both(self, ends: Ends) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._named(ends.highest), self._named(ends.lowest)

    def _named(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.answer.words[str(id)] for id in ids)
