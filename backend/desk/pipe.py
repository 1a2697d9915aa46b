"""A pipe: pieces of an answer on their way from a model's thread to the event loop, a bounded number of bytes ahead."""

import asyncio
import time
from collections import deque
from threading import Condition

from backend.desk import refusals
from backend.desk.question import Cancel

AHEAD_BYTES = 8 * 1024 * 1024
"""Bytes that a model's thread may be ahead of the reader."""
LOOK_S = 0.05
"""How often a thread that waits for its reader looks whether the answer is still wanted."""


class Pipe:
    """Made on the event loop that reads it. The writer is one thread, the reader one task."""

    def __init__(self, patience_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._room = Condition()
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._patience_s = self._left_s = patience_s
        self._ended = False

    def send(self, piece: bytes, cancel: Cancel) -> None:
        """Hand a piece on, waiting while the reader is behind. For the model's thread.

        All waits of one answer together take no longer than the patience: others wait for this thread too. Raises
        `Waited` then, and whatever `cancel` raises.
        """
        began = time.monotonic()
        with self._room:
            while self._bytes and self._bytes + len(piece) > AHEAD_BYTES:
                cancel()
                if time.monotonic() - began > self._left_s:
                    raise refusals.slow_reader(self._patience_s)
                self._room.wait(LOOK_S)
            self._left_s -= time.monotonic() - began
            self._pieces.append(piece)
            self._bytes += len(piece)
        self._loop.call_soon_threadsafe(self._bell.set)

    def end(self, *, whole: bool) -> None:
        """No piece follows; of an answer that failed nothing more is read. For the event loop."""
        self._ended = True
        if not whole:
            with self._room:
                self._pieces.clear()
        self._bell.set()

    async def next(self) -> bytes | None:
        """The next piece, or None after the last."""
        while True:
            with self._room:
                if self._pieces:
                    piece = self._pieces.popleft()
                    self._bytes -= len(piece)
                    self._room.notify()
                    return piece
            if self._ended:
                return None
            self._bell.clear()
            await self._bell.wait()
