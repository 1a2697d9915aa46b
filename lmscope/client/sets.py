"""The prompt sets."""

from collections.abc import Sequence
from urllib.parse import quote

from backend.schema import PromptSet, PromptSets, SetAsk, SetCard
from lmscope.asking import asked, listed
from lmscope.client.connection import Connection
from lmscope.client.reading import typed


class SetsClient(Connection):
    async def sets(self) -> tuple[SetCard, ...]:
        """The prompt sets: first the one that comes with the product."""
        return typed(PromptSets, await self._send("GET", "sets")).sets

    async def keep_set(
        self, name: str, texts: str | Sequence[str], *, licence: str = "not stated", about: str = ""
    ) -> SetCard:
        """Store a list of texts; questions name it by the `id` of the card that comes back."""
        ask = asked(SetAsk, name=name, texts=listed(texts), licence=licence, about=about)
        return typed(SetCard, await self._send("POST", "sets", ask))

    async def set(self, id: str) -> PromptSet:
        """One prompt set with its texts."""
        return typed(PromptSet, await self._send("GET", f"sets/{quote(id, safe='')}"))
