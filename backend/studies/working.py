"""A coroutine as the work of a job."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from backend.desk.jobs import Long
from backend.desk.running import Report, Result

LOOK_S = 0.1
"""How often a job that waits looks whether it was cancelled."""
Study = Callable[[Report], Coroutine[Any, Any, dict[str, Any]]]


def as_work(study: Study, loop: asyncio.AbstractEventLoop) -> Long:
    """Runs the study on the loop and waits for it on the job's thread; a cancelled job cancels it within a layer."""

    def work(report: Report) -> Result:
        future = asyncio.run_coroutine_threadsafe(study(report), loop)
        try:
            while True:
                report.check()
                try:
                    return future.result(LOOK_S)
                except TimeoutError:
                    if future.done():
                        raise
        finally:
            future.cancel()

    return work
