"""The values of the feed-forward blocks: what they say, where they fire, how one is found."""

from collections.abc import Sequence
from typing import Literal

from backend.schema import (
    FiresAnswer,
    FiresAsk,
    LookupAnswer,
    LookupAsk,
    ReadAs,
    SearchAnswer,
    SearchAsk,
    ValueAnswer,
    ValueAsk,
    View,
)
from lmscope.asking import asked, listed
from lmscope.client.connection import Connection
from lmscope.client.reading import typed
from lmscope.naming import Unit, unit_name


class ValuesClient(Connection):
    async def value(
        self,
        model: str,
        unit: Unit,
        *,
        revision: str | None = None,
        top: int = 50,
        similar: int = 10,
        reading: ReadAs = "folded",
    ) -> ValueAnswer:
        """One value (`"L12U34"`, `(12, 34)` or a `UnitName`): its words at both ends, its keys, values like it."""
        name, options = unit_name(unit), {"top": top, "similar": similar, "reading": reading}
        ask = asked(ValueAsk, model=model, revision=revision, **name.model_dump(), **options)
        return typed(ValueAnswer, await self._ask(ask))

    async def fires(self, view: View, unit: Unit) -> FiresAnswer:
        """Where a value fires in the view's text: its coefficient at every token, edited and unedited."""
        return typed(FiresAnswer, await self._ask(asked(FiresAsk, view=view, **unit_name(unit).model_dump())))

    async def search(
        self,
        model: str,
        words: str | Sequence[str],
        *,
        revision: str | None = None,
        end: Literal["promoted", "suppressed", "both"] = "promoted",
        ranked: Literal["logit", "z"] = "z",
        reading: ReadAs = "folded",
        limit: int = 20,
    ) -> SearchAnswer:
        """The values of all layers that promote (or suppress) one of these words most."""
        ask = asked(
            SearchAsk, model=model, revision=revision, words=listed(words, "words"), end=end, ranked=ranked,
            reading=reading, limit=limit,
        )  # fmt: skip
        return typed(SearchAnswer, await self._ask(ask))

    async def lookup(
        self,
        model: str,
        words: str | Sequence[str],
        *,
        revision: str | None = None,
        of: Literal["values", "keys"] = "values",
        limit: int = 20,
    ) -> LookupAnswer:
        """The values or keys nearest to the concept that these words name (Dar et al. 2023)."""
        ask = asked(LookupAsk, model=model, revision=revision, words=listed(words, "words"), of=of, limit=limit)
        return typed(LookupAnswer, await self._ask(ask))
