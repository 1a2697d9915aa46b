"""The labelled examples that the server keeps, as a list that a page may offer."""

from typing import Any

from dash import dcc

from frontend.parts.asking import client
from frontend.parts.panel import asked_by, heard


class KeptExamples:
    """Ids of a page's list: stores that say when it is due, and its cards; where a refusal stands."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.ask, self.kept, self.notice = f"{page}-kept-ask", f"{page}-kept", f"{page}-kept-notice"

    def stores(self) -> list[dcc.Store]:
        """What the page must contain."""
        return [dcc.Store(id=name) for name in (self.ask, self.kept)]


def keeps(ids: KeptExamples) -> None:
    """Register the callbacks: the function `kept` of the page's assets is told of the cards."""

    @asked_by(ids.ask, ids.kept, ids.notice)
    async def show(due: int | None, tab: str | None) -> tuple[list[dict[str, Any]], None]:
        return await cards(due, tab), None

    heard(ids.page, {"kept": ids.kept})


async def cards(due: int | None, tab: str | None) -> list[dict[str, Any]]:
    """What the server keeps, once somebody wants to know."""
    return [card.model_dump(mode="json") for card in await client(tab).examples()]
