"""A desk over models that pretend."""

from collections.abc import AsyncIterator

import pytest

from backend.desk.desk import Desk
from backend.schema import Limits
from tests.desk.pretend import PretendShelf


@pytest.fixture
def shelf() -> PretendShelf:
    return PretendShelf("a", "b")


@pytest.fixture
def limits() -> Limits:
    return Limits(queue=3, wait_s=5)


@pytest.fixture
async def desk(shelf: PretendShelf, limits: Limits) -> AsyncIterator[Desk]:
    desk = Desk(shelf, limits)
    yield desk
    await desk.close()
