"""What a tab lets be written: asked for on its websocket and told there, token by token.

The browser sends `{"write": WriteAsk, "id": n}`, or `{"write": null, "id": n}` to stop. What comes back is
`{"write": WriteEvent, "id": n}`, and at its end `{"written": true, "id": n}` or, too early, `{"problem": Problem, …}`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel

from backend.schema import WriteAsk
from frontend.parts.asking import client
from frontend.parts.notice import problem_of

Send = Callable[[str], Awaitable[None]]


class Writing:
    """The continuation of one tab; a newer one takes the older one's place."""

    def __init__(self, tab: str, send: Send) -> None:
        self._tab, self._send = tab, send
        self._task: asyncio.Task[None] | None = None

    async def hear(self, message: str) -> None:
        """A message of the browser; what is no question about writing is passed over."""
        try:
            said = json.loads(message)
        except (ValueError, RecursionError):
            return
        if not isinstance(said, dict) or "write" not in said or not isinstance(said.get("id"), int):
            return
        await self.stop()
        if said["write"] is not None:
            self._task = asyncio.create_task(self._write(said["write"], said["id"]))

    async def stop(self) -> None:
        """End what is being written."""
        if self._task is not None:
            await ended(self._task)
            self._task = None

    async def _write(self, asked: Any, id: int) -> None:
        try:
            ask = WriteAsk.model_validate(asked)
            async with aclosing(client(self._tab).write_stream(ask.view, top=ask.top, ratio=ask.ratio)) as events:
                async for event in events:
                    await self._tell(id, write=event)
            await self._tell(id, written=True)
        except Exception as error:  # nobody waits for this task, and the panel would wait for ever
            await self._tell(id, problem=problem_of(error, "a continuation failed"))

    async def _tell(self, id: int, **said: BaseModel | bool) -> None:
        told = {
            name: each.model_dump(mode="json") if isinstance(each, BaseModel) else each for name, each in said.items()
        }
        await self._send(json.dumps({**told, "id": id}))


async def ended(*tasks: asyncio.Task[None]) -> list[BaseException]:
    """End tasks, wait for their ends, and return what they failed with.

    Whatever cancels the caller meanwhile comes through as it is, which `gather` would swap for a task's own end: a
    scope of anyio then does not know its cancellation.
    """
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return [failed for task in tasks if not task.cancelled() and (failed := task.exception()) is not None]
