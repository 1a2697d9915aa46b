"""Continuations, whole or token by token."""

from collections.abc import AsyncGenerator

from backend.schema import Problem, View, WriteAnswer, WriteAsk, WriteEvent
from lmscope.asking import asked
from lmscope.client.connection import Connection
from lmscope.client.reading import events_in, read, typed
from lmscope.refused import Refused


class WriteClient(Connection):
    async def write(self, view: View, *, top: int = 0, ratio: bool = False) -> WriteAnswer:
        """A continuation as `view.sampling` says, with `view.compare` edited and unedited.

        `ratio`: each token is told how much likelier the sliders make it; the other side is then without the sliders.
        """
        ask = asked(WriteAsk, view=view, top=top, ratio=ratio)
        return typed(WriteAnswer, await self._send("POST", "write", ask))

    async def write_stream(self, view: View, *, top: int = 0, ratio: bool = False) -> AsyncGenerator[WriteEvent, None]:
        """The same as `write`, token by token. Leaving the loop ends the writing within a token."""
        ask = asked(WriteAsk, view=view, top=top, ratio=ratio)
        async with self._stream("POST", "write/stream", ask, timeout_s=self.timeout_s) as response:
            async for kind, data in events_in(response.aiter_lines()):
                if kind == "problem":
                    raise Refused(read(Problem, data.encode()))
                if kind == "write":
                    yield read(WriteEvent, data.encode())
