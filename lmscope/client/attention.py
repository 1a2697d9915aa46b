"""Tokens, and the attention of every head."""

from backend.schema import (
    HeadAnswer,
    HeadAsk,
    HeadsAnswer,
    HeadsAsk,
    Overview,
    OverviewAsk,
    Region,
    TokensAnswer,
    TokensAsk,
    View,
)
from lmscope.asking import asked
from lmscope.client.connection import Connection
from lmscope.client.reading import typed
from lmscope.naming import Heads, head_names


class AttentionClient(Connection):
    async def tokens(self, view: View, scores: bool = True) -> TokensAnswer:
        """The text as the model sees it, and how well the model foresaw each token."""
        return typed(TokensAnswer, await self._ask(asked(TokensAsk, view=view, scores=scores)))

    async def attention(self, view: View, cells: int | None = None) -> Overview:
        """Every head: a reduced map and all statistics."""
        return typed(Overview, await self._ask(asked(OverviewAsk, view=view, cells=cells)))

    async def head(
        self,
        view: View,
        heads: Heads,
        *,
        region: Region | None = None,
        cells: int = 512,
        token: int | None = None,
        links: int = 3,
    ) -> HeadAnswer:
        """One head exactly (`"5.3"`, `(5, 3)` or a `HeadName`), or the mean of several."""
        ask = asked(HeadAsk, view=view, heads=head_names(heads), region=region, cells=cells, token=token, links=links)
        return typed(HeadAnswer, await self._ask(ask))

    async def heads(self, view: View) -> HeadsAnswer:
        """The statistics of every head, without the maps."""
        return typed(HeadsAnswer, await self._ask(asked(HeadsAsk, view=view)))
