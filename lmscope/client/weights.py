"""The weights of heads and units as words."""

from collections.abc import Sequence
from typing import Any, Literal

from backend.schema import (
    Circuit,
    ConceptAnswer,
    ConceptAsk,
    Filters,
    HeadWeightsAnswer,
    HeadWeightsAsk,
    LineAnswer,
    LineAsk,
    OverlapsAnswer,
    OverlapsAsk,
    PairsAnswer,
    PairsAsk,
    SubheadsAnswer,
    SubheadsAsk,
)
from lmscope.asking import asked, listed
from lmscope.client.connection import Connection
from lmscope.client.reading import typed
from lmscope.naming import OneHead, head_name


class WeightsClient(Connection):
    async def pairs(
        self, /, model: str, head: OneHead, circuit: Circuit = "vo", *, filters: Filters | None = None, **options: Any
    ) -> PairsAnswer:
        """The largest entries of a head's W_VO (or `"qk"`: W_QK), tokens × tokens, exactly.

        Options: `revision`, `reading` ("folded" or "raw"), `sign` ("highest" or "lowest"), `top`, `distance`, `twin` (a
        seed: the random twin), `inverse` ("transpose" or "pseudo") and `compare` (say how many pairs the other reading
        shares).
        """
        named = head_name(head).model_dump() | {"filters": filters or Filters()}
        return typed(PairsAnswer, await self._ask(asked(PairsAsk, options, model=model, circuit=circuit, **named)))

    async def line(
        self, /, model: str, head: OneHead, token: int | str, circuit: Circuit = "vo", **options: Any
    ) -> LineAnswer:
        """What a head writes when it reads a token, or what the token looks for (`"qk"`); a word: all its spellings.

        Options: `line` ("row" or "column"), `top`, `revision`, `reading`, `inverse` and `distance`.
        """
        named: dict[str, Any] = {"word": token} if isinstance(token, str) else {"token": token}
        named |= head_name(head).model_dump()
        return typed(LineAnswer, await self._ask(asked(LineAsk, options, model=model, circuit=circuit, **named)))

    async def subheads(
        self, /, model: str, head: OneHead, part: Literal["v", "o", "q", "k"] = "v", **options: Any
    ) -> SubheadsAnswer:
        """The single vectors of a head's W_V, W_O, W_Q or W_K as words.

        Options: `first`, `count`, `top`, `revision`, `reading` and `inverse`.
        """
        named = head_name(head).model_dump()
        return typed(SubheadsAnswer, await self._ask(asked(SubheadsAsk, options, model=model, part=part, **named)))

    async def head_weights(self, /, model: str, head: OneHead, **options: Any) -> HeadWeightsAnswer:
        """One head's matrices in numbers: singular values, copying score, mean score against distance.

        Options: `revision`, `reading` and `inverse`.
        """
        ask = asked(HeadWeightsAsk, options, model=model, **head_name(head).model_dump())
        return typed(HeadWeightsAnswer, await self._ask(ask))

    async def overlaps(self, /, model: str, layer: int, **options: Any) -> OverlapsAnswer:
        """The feed-forward units of a layer whose key and value have words in common.

        Options: `k`, `least`, `end` ("promoted", "suppressed" or "absolute"), `limit`, `revision`, `reading` and
        `inverse`.
        """
        return typed(OverlapsAnswer, await self._ask(asked(OverlapsAsk, model=model, layer=layer, **options)))

    async def concept(self, /, model: str, words: str | Sequence[str], **options: Any) -> ConceptAnswer:
        """Words in; the values, keys and single vectors of heads near their concept out, group by group.

        Options: `among` (of "values", "keys", "v", "o", "q", "k"), `limit`, `revision` and `reading`.
        """
        ask = asked(ConceptAsk, options, model=model, words=listed(words, "words"))
        return typed(ConceptAnswer, await self._ask(ask))
