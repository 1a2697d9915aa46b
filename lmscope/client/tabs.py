"""This tab's questions: what became of them, and how they are stopped."""

from collections.abc import AsyncGenerator
from urllib.parse import quote

from backend.schema import TabEvent
from lmscope.client.connection import Connection
from lmscope.client.reading import events_in, read


class TabsClient(Connection):
    async def stop(self) -> None:
        """Cancel everything that this tab asks."""
        await self._send("DELETE", f"tabs/{self._own_tab()}")

    async def events(self) -> AsyncGenerator[TabEvent, None]:
        """This tab's questions and jobs, now and at every change. Leaving the loop tells the server that it is gone."""
        async with self._stream("GET", f"tabs/{self._own_tab()}/events", timeout_s=None) as response:
            async for kind, data in events_in(response.aiter_lines()):
                if kind == "tab":
                    yield read(TabEvent, data.encode())

    def _own_tab(self) -> str:
        if self.tab is None:
            raise ValueError("this client asks as no tab; give it one: AsyncClient(tab=…) or client.with_tab(…)")
        return quote(self.tab, safe="")
