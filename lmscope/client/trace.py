"""The residual stream as words, one cell of it, and who wrote towards a word."""

from collections.abc import Sequence
from typing import Literal

from backend.schema import (
    CellAnswer,
    CellAsk,
    ContributionsAnswer,
    ContributionsAsk,
    Explain,
    ReadAs,
    SwitchAnswer,
    SwitchAsk,
    TraceAnswer,
    TraceAsk,
    View,
)
from lmscope.asking import asked, several
from lmscope.client.connection import Connection
from lmscope.client.reading import typed

EXPLAIN = Explain()
"""The top two after the last token."""


class TraceClient(Connection):
    async def trace(
        self, view: View, *, top: int = 5, tracked: Sequence[int] = (), part: Literal["focus", "all"] = "all"
    ) -> TraceAnswer:
        """The residual stream of every layer and token as words; `tracked` ids have rank, probability and logit."""
        ask = asked(TraceAsk, view=view, top=top, tracked=several("tracked", tracked), part=part)
        return typed(TraceAnswer, await self._ask(ask))

    async def cell(
        self,
        view: View,
        layer: int,
        token: int | None = None,
        *,
        explain: Explain = EXPLAIN,
        top: int = 10,
        values: int = 10,
        ends: int = 10,
        ranked: Literal["magnitude", "contribution"] = "magnitude",
        reading: ReadAs = "folded",
    ) -> CellAnswer:
        """One layer and token of the lens, before and after its feed-forward block, and the values that were written.

        `explain` says target and foil of the contributions; by default the top two after this token.
        """
        ask = asked(
            CellAsk, view=view, layer=layer, token=token, explain=explain, top=top, values=values, ends=ends,
            ranked=ranked, reading=reading,
        )  # fmt: skip
        return typed(CellAnswer, await self._ask(ask))

    async def contributions(self, view: View, explain: Explain = EXPLAIN, *, values: int = 20) -> ContributionsAnswer:
        """What embedding, attention, heads, feed-forward blocks and values write towards target minus foil."""
        ask = asked(ContributionsAsk, view=view, explain=explain, values=values)
        return typed(ContributionsAnswer, await self._ask(ask))

    async def switch(self, view: View, layer: int, unit: int, on: bool) -> SwitchAnswer:
        """The edit that does what LM-Debugger's on or off did to one value."""
        return typed(SwitchAnswer, await self._ask(asked(SwitchAsk, view=view, layer=layer, unit=unit, on=on)))
