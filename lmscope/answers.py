"""The answers as numpy arrays, each with `.figure()`, `.table()` and `.csv()`."""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from backend.schema import (
    ActiveStudy,
    AlignmentAnswer,
    Array,
    CellAnswer,
    ChangesAnswer,
    ConceptAnswer,
    Conditions,
    ContributionsAnswer,
    EffectsAnswer,
    EvidenceAnswer,
    FiresAnswer,
    HeadAnswer,
    HeadMaps,
    HeadsAnswer,
    HeadSide,
    HeadSummaries,
    HeadTables,
    HeadWeightsAnswer,
    InsideAnswer,
    KeepStudy,
    LineAnswer,
    LookupAnswer,
    OverlapsAnswer,
    Overview,
    PairsAnswer,
    PatchAnswer,
    PatchMap,
    Scores,
    SearchAnswer,
    SimilarityStudy,
    Statistic,
    SteerAnswer,
    StitchingAnswer,
    SubheadsAnswer,
    Sweep,
    TokensAnswer,
    TraceAnswer,
    ValueAnswer,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

Side = Literal["edited", "unedited", "difference"]
Theme = Literal["light", "dark"]
Row = dict[str, Any]
Numbers = np.ndarray[Any, np.dtype[Any]]
SIDES: tuple[Side, ...] = ("edited", "unedited", "difference")
ROWS_SHOWN = 8


def numbers(array: Array) -> Numbers:
    """A schema Array as numpy, in its own type and shape (read-only: it shares the bytes)."""
    return np.frombuffer(array.data, f"<{array.dtype}").reshape(array.dims)


class InNumpy(ABC):
    """An answer with its arrays opened; `answer` is the form itself, `answer.model_dump_json()` its JSON."""

    answer: (
        TokensAnswer | Overview | HeadAnswer | HeadsAnswer | TraceAnswer | CellAnswer | ContributionsAnswer
        | PairsAnswer | LineAnswer | SubheadsAnswer | HeadWeightsAnswer | OverlapsAnswer
        | ConceptAnswer
        | ValueAnswer | FiresAnswer | SearchAnswer | LookupAnswer | EffectsAnswer | PatchAnswer | PatchMap
        | Sweep
        | ValueAnswer | SearchAnswer | LookupAnswer | EffectsAnswer | PatchAnswer | PatchMap
        | SteerAnswer | EvidenceAnswer | InsideAnswer
        | HeadTables | HeadSummaries | KeepStudy | ActiveStudy | SimilarityStudy
        | ChangesAnswer | AlignmentAnswer | StitchingAnswer
    )  # fmt: skip

    @property
    def conditions(self) -> Conditions:
        """What the numbers were made under."""
        return self.answer.conditions

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids that were really used."""
        ids: tuple[int, ...] = getattr(self.answer, "ids", ())  # none where no text was given
        return ids

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""
        notices: tuple[str, ...] = getattr(self.answer, "notices", ())
        return notices

    @abstractmethod
    def table(self) -> list[Row]:
        """The answer as rows, for a data frame."""

    @abstractmethod
    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """The answer as a Plotly figure."""

    def csv(self) -> str:
        """The table as comma-separated values; what is undefined is empty."""
        rows, text = self.table(), io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
        return text.getvalue()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.conditions.model}, {len(self.ids)} tokens>"

    def _repr_html_(self) -> str:
        rows = self.table()
        more = f"<p>{len(rows) - ROWS_SHOWN} more rows: .table()</p>" if len(rows) > ROWS_SHOWN else ""
        notices = "".join(f"<p>{escape(notice)}</p>" for notice in self.notices)
        return f"<p>{escape(repr(self))}</p>{notices}{html_table(rows[:ROWS_SHOWN])}{more}"

    def _json(self) -> dict[str, Any]:
        return self.answer.model_dump(mode="json")


class TokensInNumpy(InNumpy):
    """The text as the model sees it; scores are None where the model gives none (`answer.scores_why`).

    `surprisal` [T] nats and `probability` [T] are NaN at position 0, `rank` [T] is -1 where undefined, `entropy` [T]
    nats is that of the distribution which each token was drawn from.
    """

    answer: TokensAnswer

    def __init__(self, answer: TokensAnswer) -> None:
        self.answer = answer
        self.pieces = tuple(token.piece for token in answer.tokens)
        scores = {name: None if answer.scores is None else getattr(answer.scores, name) for name in Scores.model_fields}
        self.surprisal, self.probability = opened(scores["surprisal"]), opened(scores["probability"])
        self.rank, self.entropy = opened(scores["rank"]), opened(scores["entropy"])

    def table(self) -> list[Row]:
        """One row a token."""
        rows: list[Row] = [
            {"position": token.position, "id": token.id, "piece": token.piece, "role": token.role}
            for token in self.answer.tokens
        ]
        for prefix, scores in (("", self.answer.scores), ("unedited_", self.answer.unedited)):
            for name in Scores.model_fields if scores is not None else ():
                column = plain(numbers(getattr(scores, name)))
                for row, value in zip(rows, column, strict=True):
                    row[prefix + name] = None if (name, value) == ("rank", -1) else value
        return rows

    def figure(
        self, score: Literal["surprisal", "entropy", "probability"] = "surprisal", *, theme: Theme = "light"
    ) -> "go.Figure":
        """A score of every token."""
        from frontend.figures.tokens import by_token

        return on_paper(by_token(self._json(), score=score, theme=theme), theme)


class SideInNumpy:
    """All heads of one side: `statistics`, `uniform` and `rows` by name, each [L, H]."""

    def __init__(self, statistics: Sequence[Statistic], maps: HeadMaps | None = None) -> None:
        self._maps = maps
        self.statistics = {each.name: numbers(each.value) for each in statistics}
        self.uniform = {each.name: numbers(each.uniform) for each in statistics}
        self.rows = {each.name: numbers(each.rows) for each in statistics}

    @cached_property
    def maps(self) -> Numbers:
        """f4 [L, H, q, k]. Raises ValueError where the answer has no maps."""
        if self._maps is None:
            raise ValueError("this answer has statistics only; maps come with client.attention(view)")
        steps = numbers(self._maps.maps).astype("f4")
        return (steps / 255) ** 2 if self._maps.scale is None else steps * np.float32(self._maps.scale)

    @property
    def precision(self) -> float:
        """No cell of `maps` is further than this from the number that was rounded for the wire."""
        scale = None if self._maps is None else self._maps.scale
        return 1 - (254.5 / 255) ** 2 if scale is None else scale / 2

    @property
    def entropy(self) -> Numbers:
        """[L, H] nats."""
        return self.statistics["entropy"]


class AllHeadsInNumpy(InNumpy):
    """What an answer about all heads offers, with or without maps; without a side named, it is the edited one."""

    answer: Overview | HeadsAnswer
    edited: SideInNumpy
    unedited: SideInNumpy | None
    difference: SideInNumpy | None

    @property
    def layers(self) -> tuple[int, ...]:
        """Block number of each row of [L, H]."""
        return self.answer.layers

    @property
    def statistics(self) -> dict[str, Numbers]:
        """Name to f4 [L, H]; NaN where undefined."""
        return self.edited.statistics

    @property
    def uniform(self) -> dict[str, Numbers]:
        """The same under uniform attention over the same visible keys."""
        return self.edited.uniform

    @property
    def entropy(self) -> Numbers:
        """[L, H] nats."""
        return self.edited.entropy

    def table(self) -> list[Row]:
        """One row a head: every statistic, its value under uniform attention, and the other sides' where compared."""
        rows: list[Row] = [{"layer": layer, "head": head} for layer in self.layers for head in range(self.answer.heads)]
        for side in SIDES:
            if (shown := getattr(self, side)) is not None:
                prefix = "" if side == "edited" else f"{side}_"
                self._fill(rows, prefix, shown)
        return rows

    def figure(self, statistic: str = "entropy", side: Side = "edited", *, theme: Theme = "light") -> "go.Figure":
        """One statistic of every head by layer, with its uniform baseline."""
        from frontend.figures.heads import by_layer

        return on_paper(by_layer(self._statistics_json(), statistic=statistic, side=side, theme=theme), theme)

    @abstractmethod
    def _statistics_json(self) -> dict[str, Any]:
        """The answer in the form of `HeadsAnswer`, as the figures take it."""

    @staticmethod
    def _fill(rows: list[Row], prefix: str, side: SideInNumpy) -> None:
        for name in side.statistics:
            columns = {name: side.statistics[name]}
            if prefix != "difference_":
                columns[f"{name}_uniform"] = side.uniform[name]
            for column, values in columns.items():
                for row, value in zip(rows, plain(values), strict=True):
                    row[prefix + column] = value


class AttentionInNumpy(AllHeadsInNumpy):
    """Every head of a view."""

    answer: Overview

    def __init__(self, answer: Overview) -> None:
        def side(maps: HeadMaps | None) -> SideInNumpy | None:
            return None if maps is None else SideInNumpy(maps.statistics, maps)

        self.answer = answer
        self.edited = SideInNumpy(answer.edited.statistics, answer.edited)
        self.unedited, self.difference = side(answer.unedited), side(answer.difference)

    @property
    def maps(self) -> Numbers:
        """f4 [L, H, q, k], reduced where `answer.pooled`; rounded for the wire: see `precision`."""
        return self.edited.maps

    @property
    def precision(self) -> float:
        """No cell of `maps` is further than this from the number that was rounded for the wire."""
        return self.edited.precision

    def grid(self, side: Side = "edited", *, theme: Theme = "light") -> "go.Figure":
        """Every head's map in one picture: layers down, heads across."""
        from frontend.figures.grid import all_maps

        return on_paper(all_maps(self._json(), side=side, theme=theme), theme)

    def _statistics_json(self) -> dict[str, Any]:
        whole = self.answer.model_dump(
            mode="json", exclude={"edited": {"maps"}, "unedited": {"maps"}, "difference": {"maps"}}
        )
        return whole | {side: whole[side]["statistics"] for side in SIDES if whole[side] is not None}


class HeadsInNumpy(AllHeadsInNumpy):
    """The statistics of every head, without the maps."""

    answer: HeadsAnswer

    def __init__(self, answer: HeadsAnswer) -> None:
        def side(maps: Sequence[Statistic] | None) -> SideInNumpy | None:
            return None if maps is None else SideInNumpy(maps)

        self.answer = answer
        self.edited = SideInNumpy(answer.edited)
        self.unedited, self.difference = side(answer.unedited), side(answer.difference)

    def _statistics_json(self) -> dict[str, Any]:
        return self._json()


class HeadSideInNumpy:
    """One side of one head.

    `map` f4 [q, k] exact, `entropy` f4 [T] nats, `strongest` i4 [T, n] keys (-1 pads), `weights` f4 [T, n] theirs,
    `undrawn` f4 [T] the share of each row not among them; `looks_at`, `looked_at_by` f4 [T] of the focus token.
    """

    def __init__(self, side: HeadSide) -> None:
        self.map, self.entropy = numbers(side.map), opened(side.entropy)
        self.strongest, self.weights, self.undrawn = map(numbers, (side.strongest, side.weights, side.undrawn))
        self.looks_at, self.looked_at_by = opened(side.looks_at), opened(side.looked_at_by)


class HeadInNumpy(InNumpy):
    """One head exactly. `map`, `entropy`, … are the edited side's; `uniform_entropy` f4 [T] is ln n of each row."""

    answer: HeadAnswer

    def __init__(self, answer: HeadAnswer) -> None:
        self.answer = answer
        self.edited = side = HeadSideInNumpy(answer.edited)
        self.unedited = None if answer.unedited is None else HeadSideInNumpy(answer.unedited)
        self.difference = None if answer.difference is None else HeadSideInNumpy(answer.difference)
        self.map, self.entropy, self.undrawn = side.map, side.entropy, side.undrawn
        self.strongest, self.weights = side.strongest, side.weights
        self.looks_at, self.looked_at_by = side.looks_at, side.looked_at_by
        self.uniform_entropy, self.visible = numbers(answer.uniform_entropy), numbers(answer.visible)

    def table(self) -> list[Row]:
        """One row a query token: its entropy beside that of uniform attention, its strongest keys, the rest."""
        entropies = [None] * len(self.ids) if self.entropy is None else plain(self.entropy)
        rows: list[Row] = [
            {"query": query, "id": id, "visible": visible, "entropy": entropy, "uniform_entropy": uniform}
            for query, (id, visible, entropy, uniform) in enumerate(
                zip(self.ids, plain(self.visible), entropies, plain(self.uniform_entropy), strict=True)
            )
        ]
        for row, keys, weights, undrawn in zip(rows, self.strongest, self.weights, plain(self.undrawn), strict=True):
            for place, (key, weight) in enumerate(zip(keys.tolist(), weights.tolist(), strict=True)):
                row |= {f"key_{place}": None, f"weight_{place}": None} if key < 0 else {
                    f"key_{place}": key, f"weight_{place}": weight
                }  # fmt: skip
            row["undrawn"] = undrawn
        return rows

    def figure(
        self, side: Side = "edited", scale: Literal["linear", "log"] = "linear", *, theme: Theme = "light"
    ) -> "go.Figure":
        """The map."""
        from frontend.figures.attention import head_map

        return on_paper(head_map(self._json(), side=side, scale=scale, theme=theme), theme)

    def entropy_figure(self, side: Side = "edited", *, theme: Theme = "light") -> "go.Figure":
        """The entropy of every row beside ln n."""
        from frontend.figures.attention import row_entropy

        return on_paper(row_entropy(self._json(), side=side, theme=theme), theme)


def on_paper(figure: "go.Figure", theme: Theme) -> "go.Figure":
    """A notebook has a ground of its own, so a figure brings its paper along."""
    from frontend.figures.theme import INK

    panel = INK[theme]["panel"]
    return figure.update_layout(paper_bgcolor=panel, plot_bgcolor=panel)


def opened(array: Array | None) -> Numbers | None:
    """An array that may be absent."""
    return None if array is None else numbers(array)


def plain(values: Numbers) -> list[Any]:
    """Python numbers in C order; None where undefined."""
    return [None if value != value else value for value in values.ravel().tolist()]


def html_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A few rows as HTML."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(shown(value))}</td>' for value in row.values())}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shown(value: Any) -> str:
    """A cell as printed."""
    return "n/a" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
