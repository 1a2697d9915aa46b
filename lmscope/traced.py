"""The lens as numpy arrays: the likeliest words of every layer and token, and tracked tokens."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from backend.schema import LensGrid, TraceAnswer
from lmscope.answers import InNumpy, Numbers, Row, Theme, numbers, on_paper

if TYPE_CHECKING:
    import plotly.graph_objects as go

Colour = Literal["probability", "agreement", "rank", "entropy"]


class LensInNumpy:
    """One side, rows of the lens × tokens: row 0 is the embedding, row n the stream after block n−1.

    `word_ids` i4, `probability`, `logit` f4 [R, T, top]; `words` the same as text; `entropy` f4 [R, T] nats; `final`
    f4 [R, T] the probability, there, of the word that the last row puts first; `rank` i4 (0 is the likeliest),
    `tracked_probability`, `tracked_logit` f4 [R, T, tracked].
    """

    def __init__(self, grid: LensGrid, words: dict[str, str]) -> None:
        self.word_ids, self.probability, self.logit = map(numbers, (grid.ids, grid.probability, grid.logit))
        self.entropy, self.final, self.rank = map(numbers, (grid.entropy, grid.final, grid.rank))
        self.tracked_probability, self.tracked_logit = map(numbers, (grid.tracked_probability, grid.tracked_logit))
        each = {id: words[str(id)] for id in np.unique(self.word_ids).tolist()}
        named = [each[id] for id in self.word_ids.ravel().tolist()]
        self.words: Numbers = np.array(named, object).reshape(self.word_ids.shape)


class TraceInNumpy(InNumpy):
    """The residual stream of every layer and token as words. `words`, `probability`, … are the edited side's.

    `settled` i4 [T] is the first row from which on the likeliest word is that of the last row.
    """

    answer: TraceAnswer

    def __init__(self, answer: TraceAnswer) -> None:
        def side(grids: tuple[LensGrid, ...] | None) -> LensInNumpy | None:
            return None if grids is None else LensInNumpy(grids[0], answer.words)

        self.answer = answer
        self.edited = lens = LensInNumpy(answer.edited[0], answer.words)
        self.unedited = side(answer.unedited)
        self.words, self.word_ids, self.probability, self.logit = (
            lens.words,
            lens.word_ids,
            lens.probability,
            lens.logit,
        )
        self.entropy, self.final, self.rank = lens.entropy, lens.final, lens.rank
        self.tracked_probability, self.tracked_logit = lens.tracked_probability, lens.tracked_logit
        self.settled = None if answer.settled is None else numbers(answer.settled)

    def table(self) -> list[Row]:
        """One row a cell, token by token: its likeliest words, then the tracked tokens; both sides where compared."""
        grid = self.answer.edited[0]
        return [
            {"position": position, "row": row}
            | self._cell(self.edited, "", down, across)
            | ({} if self.unedited is None else self._cell(self.unedited, "unedited_", down, across))
            for across, position in enumerate(grid.columns)
            for down, row in enumerate(grid.rows)
        ]

    def figure(
        self, colour: Colour = "probability", side: Literal["edited", "unedited"] = "edited", *, theme: Theme = "light"
    ) -> "go.Figure":
        """The lens; `colour="rank"` shows the first tracked token."""
        from frontend.figures.trace import lens_grid

        figure = lens_grid(self._json(), colour=colour, side=side, theme=theme)
        return on_paper(figure, theme).update_layout(height=140 + 20 * len(self.answer.edited[0].rows))

    def tracked_figure(self, id: int | None = None, token: int | None = None, *, theme: Theme = "light") -> "go.Figure":
        """A tracked token (default: the first) through the rows of one column (default: the last)."""
        from frontend.figures.trace import tracked

        shown = id if id is not None else next(iter(self.answer.tracked), -1)
        return on_paper(tracked(self._json(), shown, token=token, theme=theme), theme)

    def _cell(self, side: LensInNumpy, prefix: str, row: int, column: int) -> Row:
        cell: Row = {"entropy": side.entropy[row, column].item(), "final": side.final[row, column].item()}
        for place, word in enumerate(side.words[row, column]):
            cell |= {f"word_{place}": word, f"probability_{place}": side.probability[row, column, place].item()}
        for place, id in enumerate(self.answer.tracked):
            cell |= {f"rank_of_{id}": side.rank[row, column, place].item(),
                     f"probability_of_{id}": side.tracked_probability[row, column, place].item(),
                     f"logit_of_{id}": side.tracked_logit[row, column, place].item()}  # fmt: skip
        return {prefix + name: value for name, value in cell.items()}
