"""A client whose models are made of random attention, in the sizes that pages must carry."""

import asyncio
from typing import Any

from backend.schema import FiresAsk, HeadAsk, HeadsAsk, OverviewAsk, SteerAsk, TokensAnswer, TokensAsk, TraceAsk, View
from lmscope.client import Refused
from tests.browser.fake import Ask, FakeClient, card
from tests.figures import made_up_steers, made_up_values
from tests.figures.answers import MadeUp

MODELS = {
    "made-up-12x12": MadeUp(12, 12, 12),
    "made-up-30x9": MadeUp(30, 9, 3),
    "made-up-32x32": MadeUp(32, 32, 8),
    "made-up-64x64": MadeUp(64, 64, 8),
    "made-up-encoder": MadeUp(6, 12, 12, causal=False),
}


class MadeUpClient(FakeClient):
    """Answers for `MODELS`: long texts come pooled, regions are cut out, sides differ."""

    def __init__(self) -> None:
        super().__init__()
        self.shelf = tuple(card(name, model.layers, model.heads) for name, model in MODELS.items())

    def made(self, model: str) -> MadeUp:
        """The random model behind a name."""
        return MODELS[model]

    async def answer(self, ask: Ask) -> Any:
        """Any instrument."""
        if not hasattr(ask, "view"):
            return await super().answer(ask)
        self.asked.append((self.tab, ask))
        while self.held and isinstance(ask, SteerAsk):
            await asyncio.sleep(0.02)
        model, name = MODELS[ask.view.model], NAMES[type(ask)]
        if name in self.refuse:
            raise Refused(self.refuse[name])
        answers = {
            "tokens": model_tokens, "attention": model.overview, "head": model.head, "heads": model.all_heads,
            "trace": model.trace, "steer": made_up_steers.steer,
            "fires": made_up_values.fires,
        }  # fmt: skip
        return answers[name](model, ask) if name == "tokens" else answers[name](ask)


NAMES: dict[type, str] = {
    TokensAsk: "tokens", OverviewAsk: "attention", HeadAsk: "head", HeadsAsk: "heads", TraceAsk: "trace",
    SteerAsk: "steer", FiresAsk: "fires",
}  # fmt: skip


def model_tokens(model: MadeUp, ask: TokensAsk) -> TokensAnswer:
    """One token a word."""
    return model.tokens(ask.view)


def link(url: str, instrument: str = "attention", **fields: Any) -> str:
    """The address of a view of these models."""
    given = {
        "model": "made-up-30x9",
        "text": "When Mary and John went to the store , John gave a bottle of milk to Mary .",
    }
    return View.model_validate(given | fields).link(instrument, url)
