"""Work of a study that is neither a model's nor a moment's: on a thread, so that no answer of anybody waits for it."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


async def aside(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What `work` gives, off the event loop. Who is cancelled waits for its end: nothing is taken away under it."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *args, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
