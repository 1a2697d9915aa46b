"""Tabs: who watches, what they are told, and that a tab which no longer watches has left."""

import asyncio
from collections.abc import AsyncIterator, Callable

from backend.schema import TabEvent


class Tabs:
    """The open event streams of every tab."""

    def __init__(self, situation: Callable[[str], TabEvent], left: Callable[[str], None]) -> None:
        self._situation, self._left = situation, left
        self._bells: dict[str, list[asyncio.Event]] = {}
        self._closed = False

    def ring(self) -> None:
        """Something changed; every stream looks whether it changed for its tab."""
        for bells in self._bells.values():
            for bell in bells:
                bell.set()

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self.ring()

    async def events(self, tab: str) -> AsyncIterator[TabEvent]:
        """The tab's situation now and at every change. When its last stream ends, the tab has left."""
        bell = asyncio.Event()
        self._bells.setdefault(tab, []).append(bell)
        told = None
        try:
            while not self._closed:
                bell.clear()
                now = self._situation(tab)
                if now != told:
                    told = now
                    yield now
                await bell.wait()
        finally:
            self._bells[tab].remove(bell)
            if not self._bells[tab]:
                del self._bells[tab]
                self._left(tab)
