"""Values in a notebook: their words and numbers as arrays, tables and figures."""

from typing import TYPE_CHECKING

import numpy as np

from backend.schema import Ends, FiresAnswer, LookupAnswer, SearchAnswer, ValueAnswer
from lmscope.answers import InNumpy, Numbers, Row, Theme, numbers, on_paper

if TYPE_CHECKING:
    import plotly.graph_objects as go


class OfModelInNumpy(InNumpy):
    """An answer about a model without a text."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.conditions.model}>"

    def _named(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        words: dict[str, str] = self.answer.words  # type: ignore[union-attr]
        return tuple(words[str(id)] for id in ids)

    def _few(self, ends: Ends) -> Row:
        return {"highest": " ".join(map(repr, self._named(ends.highest))),
                "lowest": " ".join(map(repr, self._named(ends.lowest)))}  # fmt: skip


class ValueInNumpy(OfModelInNumpy):
    """One value: `highest`, `lowest` words with `highest_logit`, `lowest_logit` f4 [top], the most moved first, and
    their `highest_z`, `lowest_z` (empty where all its logits are equal).
    """

    answer: ValueAnswer

    def __init__(self, answer: ValueAnswer) -> None:
        self.answer, ends = answer, answer.ends
        self.highest, self.lowest = self._named(ends.highest), self._named(ends.lowest)
        self.highest_logit: Numbers = np.array(ends.highest_logit, "f4")
        self.lowest_logit: Numbers = np.array(ends.lowest_logit, "f4")
        self.highest_z, self.lowest_z = np.array(answer.highest_z, "f4"), np.array(answer.lowest_z, "f4")
        self.similar = {str(one.unit): one.cosine for one in answer.similar}

    def table(self) -> list[Row]:
        """One row a word: first those it promotes, then those it suppresses."""
        ends, none = self.answer.ends, [None] * len(self.answer.ends.highest)
        return [
            {"end": end, "id": id, "word": word, "logit": logit, "z": z}
            for end, ids, logits, zs in (
                ("promoted", ends.highest, ends.highest_logit, self.answer.highest_z or none),
                ("suppressed", ends.lowest, ends.lowest_logit, self.answer.lowest_z or none),
            )
            for id, word, logit, z in zip(ids, self._named(ids), logits, zs, strict=True)
        ]

    def figure(self, words: int = 15, *, theme: Theme = "light") -> "go.Figure":
        """The words at both ends as bars."""
        from frontend.figures.values import ends

        return on_paper(ends(self._json(), words=words, theme=theme), theme)


class FiresInNumpy(InNumpy):
    """Where a value fires: `coefficient` f4 [T] after edits, `unedited` f4 [T] or None, `words` of the tokens."""

    answer: FiresAnswer

    def __init__(self, answer: FiresAnswer) -> None:
        self.answer = answer
        self.words = tuple(answer.words[str(id)] for id in answer.ids)
        self.coefficient: Numbers = numbers(answer.edited)
        self.unedited: Numbers | None = None if answer.unedited is None else numbers(answer.unedited)

    def table(self) -> list[Row]:
        """One row a token."""
        rows: list[Row] = [
            {"token": token, "word": word, "coefficient": float(number)}
            for token, (word, number) in enumerate(zip(self.words, self.coefficient, strict=True))
        ]
        if self.unedited is None:
            return rows
        return [row | {"unedited": float(self.unedited[row["token"]])} for row in rows]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The coefficient over the text."""
        from frontend.figures.values import fires

        return on_paper(fires(self._json(), theme=theme), theme)


class SearchInNumpy(OfModelInNumpy):
    """Values found by words: `units` by name, `logit`, `z` f4 and `rank` i4 [hits], the strongest first."""

    answer: SearchAnswer

    def __init__(self, answer: SearchAnswer) -> None:
        self.answer = answer
        self.units = tuple(str(hit.unit) for hit in answer.hits)
        self.logit: Numbers = np.array([hit.logit for hit in answer.hits], "f4")
        self.z: Numbers = np.array([np.nan if hit.z is None else hit.z for hit in answer.hits], "f4")
        self.rank: Numbers = np.array([hit.rank for hit in answer.hits], "i4")

    def table(self) -> list[Row]:
        """One row a value."""
        return [
            {"unit": str(hit.unit), "word": self.answer.words[str(hit.id)], "end": hit.end, "logit": hit.logit,
             "z": hit.z, "rank": hit.rank} | self._few(hit.ends)
            for hit in self.answer.hits
        ]  # fmt: skip

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The values by logit."""
        from frontend.figures.values import bars

        labels = [f"{hit.unit} {self.answer.words[str(hit.id)]!r}" for hit in self.answer.hits]
        return on_paper(bars(labels, self.logit.tolist(), "Logit per unit of the coefficient", theme=theme), theme)


class LookupInNumpy(OfModelInNumpy):
    """Values or keys near a concept: `units` by name and `score` f4 [found], the nearest first."""

    answer: LookupAnswer

    def __init__(self, answer: LookupAnswer) -> None:
        self.answer = answer
        self.units = tuple(str(found.unit) for found in answer.found)
        self.score: Numbers = np.array([found.score for found in answer.found], "f4")

    def table(self) -> list[Row]:
        """One row a value or key."""
        return [{"unit": str(found.unit), "score": found.score} | self._few(found.ends) for found in self.answer.found]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The scores."""
        from frontend.figures.values import bars

        return on_paper(bars(list(self.units), self.score.tolist(), "Dot product", theme=theme), theme)
