"""Jobs: an id at once, progress with time left, an end within a step, and a bounded memory of what ended."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from backend import errors
from backend.desk import jobs as module
from backend.desk import running
from backend.desk.jobs import Jobs
from backend.models.progress import Progress
from backend.schema import Job
from backend.store import StoredJob


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    jobs = Jobs()
    yield jobs
    await jobs.close()


class Steps:
    """A job of many small steps that can be held up; without a number it outlives every test."""

    def __init__(self, total: int = 100_000, pause_s: float = 0.001) -> None:
        self.total, self.pause_s = total, pause_s
        self.done = 0
        self.began = threading.Event()

    def __call__(self, progress: Progress) -> dict[str, Any]:
        for step in range(self.total):
            progress("stepping", step, self.total, "steps")
            self.began.set()
            time.sleep(self.pause_s)
            self.done = step + 1
        return {"steps": self.done}


async def test_a_job_has_an_id_at_once_and_a_result_at_the_end(jobs: Jobs) -> None:
    job = jobs.start("test", "counting", Steps(3))
    assert job.kind == "test"
    assert job.state in ("queued", "running")
    ended = await jobs.ended(job.id)
    assert (ended.state, ended.result, ended.problem) == ("done", {"steps": 3}, None)
    assert (ended.done, ended.total, ended.unit) == (3, 3, "steps")
    assert ended.created <= ended.updated <= time.time()


async def test_progress_tells_how_far_and_how_long(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ETA_AFTER_S", 0.05)
    steps, began = Steps(total=20_000, pause_s=0.005), time.monotonic()
    job = jobs.start("test", "counting", steps)
    while (now := jobs.get(job.id)).eta_s is None:
        await asyncio.sleep(0.02)
    assert now.state == "running"
    assert 0 < now.done < 20_000
    left = 20_000 - now.done
    assert left * 0.005 * 0.9 <= now.eta_s <= left / now.done * (time.monotonic() - began), "as fast as so far"
    jobs.cancel(job.id)


async def test_a_stage_that_begins_again_has_its_own_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(id="a" * 32, kind="test", owner="", state="running", what="", created=0, updated=0)
    stage = running.Running(StoredJob(job), "", asyncio.get_running_loop())
    clock = iter([0.0, 10.0, 100.0, 101.0])
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    told = [stage.eta("measuring", done, 40, "texts") for done in (0, 20, 0, 4)]
    assert told == [None, 10.0, None, 9.0]


async def test_cancelling_ends_a_running_job_within_a_step(jobs: Jobs) -> None:
    steps = Steps(pause_s=0.01)
    job = jobs.start("test", "counting", steps)
    await asyncio.to_thread(steps.began.wait, 60)
    jobs.cancel(job.id)
    done = steps.done
    ended = await asyncio.wait_for(jobs.ended(job.id), 60)
    assert ended.state == "cancelled"
    assert ended.problem is not None
    assert ended.problem.type == "cancelled"
    assert steps.done <= done + 2


async def test_a_queued_job_that_is_cancelled_never_begins(jobs: Jobs) -> None:
    holders = [Steps() for _ in range(module.THREADS)]
    held = [jobs.start("test", "counting", steps) for steps in holders]
    never = Steps()
    job = jobs.start("test", "waiting", never)
    assert jobs.cancel(job.id).state == "cancelled"
    for one in held:
        jobs.cancel(one.id)
        await jobs.ended(one.id)
    await asyncio.sleep(0.02)
    assert not never.began.is_set()
    assert jobs.get(job.id).state == "cancelled"


async def test_two_asks_for_the_same_share_one_job(jobs: Jobs) -> None:
    first = jobs.start("test", "counting", Steps(), share="x")
    assert jobs.start("test", "counting", Steps(), share="x").id == first.id
    assert jobs.start("test", "counting", Steps(1), share="y").id != first.id
    jobs.cancel(first.id)
    assert jobs.start("test", "counting", Steps(1), share="x").id != first.id


async def test_a_failure_is_a_problem_that_can_be_raised(jobs: Jobs) -> None:
    def refused(progress: Progress) -> None:
        raise errors.DiskFull("The disk is full", "it has 1 byte left", "Make room", needed=2, available=1)

    def broken(progress: Progress) -> None:
        raise ValueError("secret text")

    ended = [await jobs.ended(jobs.start("test", "failing", work).id) for work in (refused, broken)]
    assert [job.state for job in ended] == ["failed", "failed"]
    assert [job.problem.type for job in ended if job.problem] == ["disk-full", "broken"]
    assert "secret" not in str(ended[1])
    with pytest.raises(errors.DiskFull):
        jobs.raise_for(ended[0].id)


async def test_only_so_many_ended_jobs_are_remembered(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED_KEPT", 3)
    made = [jobs.start("test", f"{n}", lambda progress: None) for n in range(6)]
    for job in made[-3:]:
        await jobs.ended(job.id)
    while len(jobs.all()) > 3:  # one that began earlier may end later
        await asyncio.sleep(0.005)
    assert [job.what for job in jobs.all()] == ["5", "4", "3"]
    with pytest.raises(errors.UnknownJob):
        jobs.get(made[0].id)


async def test_only_so_many_jobs_may_wait(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNFINISHED_MOST", 2)
    for _ in range(2):
        jobs.start("test", "counting", Steps())
    with pytest.raises(errors.Busy) as refused:
        jobs.start("test", "counting", Steps())
    assert (refused.value.needed, refused.value.available) == (3, 2)


async def test_closing_ends_every_job_and_thread() -> None:
    before = set(threading.enumerate())  # other tests of this process may have jobs of their own
    jobs = Jobs()
    made = [jobs.start("test", "counting", Steps()) for _ in range(4)]
    await jobs.close()
    await asyncio.sleep(0)
    assert {jobs.get(job.id).state for job in made} == {"cancelled"}
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("job")]
