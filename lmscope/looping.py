"""A private event loop in a thread of its own: it works inside a notebook too, where the thread's own loop runs."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class LoopThread:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="lmscope-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for a coroutine; an interrupt (Ctrl+C, a stopped cell) cancels it."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `last`, then end the loop and its thread; from any thread, the loop's own included."""

        async def end() -> None:
            try:
                await last()
            finally:
                self.loop.stop()

        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(end(), self.loop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _live(self) -> None:
        self.loop.run_forever()
        self.loop.close()
