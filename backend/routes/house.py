"""What every route may use, owned by the application; and the tab that asks."""

from dataclasses import dataclass
from typing import Annotated, Any, Protocol
from uuid import UUID

from fastapi import Depends, Header, Request

from backend.desk import desk
from backend.models.sets import Sets
from backend.models.vectors import Vectors
from backend.schema import Limits, Models
from backend.store import Store
from backend.studies.library import Library
from backend.studies.studies import Studies

BASE = "/api/v1"


class Shelf(desk.Shelf, Protocol):
    """What the routes need of the models' shelf."""

    def cards(self) -> Models: ...
    def unload(self, name: str, revision: str | None) -> Any: ...


@dataclass(frozen=True)
class House:
    """Everything of one running server."""

    shelf: Shelf
    desk: desk.Desk
    limits: Limits
    library: Library
    studies: Studies
    store: Store
    warming: tuple[str, ...] = ()
    """Jobs that load the models of the settings."""

    @property
    def vectors(self) -> Vectors:
        """The stored directions and steers."""
        return self.library.vectors

    @property
    def sets(self) -> Sets:
        """The prompt sets."""
        return self.library.sets


# Asynchronous, though they await nothing: others would run in threads, where a tab's questions overtake one another.
async def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


async def _tab(
    tab: Annotated[UUID | None, Header(alias="X-Lmscope-Tab", description="uuid of the browser tab that asks")] = None,
) -> str:
    return "" if tab is None else str(tab)


InHouse = Annotated[House, Depends(_house)]
Tab = Annotated[str, Depends(_tab)]
