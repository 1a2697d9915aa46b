"""Work that takes longer than an answer: start it, look at it, wait for it, end it."""

import asyncio
from collections.abc import Callable
from typing import Any, get_args
from urllib.parse import quote

from pydantic import RootModel

from backend.schema import Job, Known, KnownAsk, LongAsk
from lmscope.client.connection import Connection
from lmscope.client.paths import Study
from lmscope.client.reading import typed
from lmscope.refused import not_done

POLL_S = (0.1, 1.0)
"""First and longest pause between two looks at a job."""
Progress = Callable[[Job], None]


class JobList(RootModel[tuple[Job, ...]]):
    """GET /api/v1/jobs."""


class JobsClient(Connection):
    async def start(self, ask: Study) -> Job:
        """Start a study without waiting: `wait` waits for it, `cancel_job` stops it.

        Its `partial` and, once it is done, its `result` are the answer as JSON.
        """
        return typed(Job, await self._ask(ask))

    async def _study(self, ask: Study, progress: Progress | None) -> Any:
        job = await self.start(ask)
        try:
            return (await self.wait(job, progress)).result
        except asyncio.CancelledError:
            await asyncio.shield(self.cancel_job(job.id))
            raise

    async def known(self, /, ask: LongAsk) -> Job | None:
        """The job that has answered exactly this before, under the conditions of now; None: the server knows of none.

        For the long questions about weights (`KeepAsk`, `TablesAsk`, …). Nothing is loaded or begun.
        """
        name = next(name for name, field in KnownAsk.model_fields.items() if type(ask) in get_args(field.annotation))
        found: Known = typed(Known, await self._send("POST", "weights/known", KnownAsk.model_validate({name: ask})))
        return found.job

    async def jobs(self) -> tuple[Job, ...]:
        """All jobs that the server remembers."""
        return typed(JobList, await self._send("GET", "jobs")).root

    async def job(self, id: str) -> Job:
        """One job as it stands."""
        return typed(Job, await self._send("GET", f"jobs/{quote(id, safe='')}"))

    async def wait(self, job: Job, progress: Progress | None = None) -> Job:
        """Wait until a job is done; `progress` sees it at every look. Raises `Refused` when it ends otherwise."""
        pause, longest = POLL_S
        while job.state in ("queued", "running"):
            if progress is not None:
                progress(job)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, longest)
            job = await self.job(job.id)
        if progress is not None:
            progress(job)
        if job.state != "done":
            raise not_done(job)
        return job

    async def cancel_job(self, id: str) -> Job:
        """Ask a job to end; it does so at its next step."""
        return typed(Job, await self._send("DELETE", f"jobs/{quote(id, safe='')}"))
