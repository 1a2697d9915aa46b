"""Jobs are remembered: what a server told is true after its end, and what it left unfinished goes on or is lost."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backend import errors
from backend.desk import jobs as module
from backend.desk import running
from backend.desk.desk import Desk
from backend.desk.jobs import Jobs, Work, shown
from backend.desk.running import Report
from backend.schema import Job, Limits
from backend.store import Store, StoredJob, open_store
from tests.desk.pretend import PretendShelf


class Server:
    """Jobs over the database of a folder, which may be stopped, or killed as by the system."""

    def __init__(self, place: Path) -> None:
        self.store = open_store(None, place)
        self.jobs = Jobs(table=self.store.jobs)

    async def kill(self) -> None:
        """Its lock goes, and whatever it still writes is too late."""
        assert self.store.servers._lock is not None
        await self.jobs.recorded()
        self.store.servers._lock.release()

    async def stop(self) -> None:
        await self.jobs.close()
        self.store.close()


class Held:
    """A job that reports one step again and again, until it is let go."""

    def __init__(self) -> None:
        self.began, self.open = threading.Event(), threading.Event()
        self.runs = 0

    def __call__(self, report: Report) -> dict[str, Any]:
        self.runs += 1
        while not self.open.wait(0.002):
            report("holding", self.runs, 9, "steps")
            self.began.set()
        return {"runs": self.runs}

    async def begun(self) -> None:
        assert await asyncio.to_thread(self.began.wait, 60)

    async def again(self, request: dict[str, Any]) -> Work:
        return Work(f"again {request['n']}", self, "held")


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[[], Server]]:
    servers: list[Server] = []

    def one() -> Server:
        servers.append(Server(tmp_path))
        return servers[-1]

    yield one
    for server in servers:
        await server.stop()


Start = Callable[[], Server]


async def until(condition: Callable[[], Any]) -> Any:
    for _ in range(12000):
        if found := condition():
            return found
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")


def stored(server: Server, id: str) -> StoredJob:
    found = server.store.jobs.get(id)
    assert found is not None
    return found


async def test_every_state_is_recorded_and_an_end_before_it_is_told(start: Start) -> None:
    server, held = start(), Held()
    waits = [server.jobs.start("test", "waiting", Held()) for _ in range(module.THREADS - 1)]
    job = server.jobs.start("test", "holding", held, owner="tab", request={"n": 1})
    last = server.jobs.start("test", "last", held)
    await held.begun()
    await server.jobs.recorded()
    assert stored(server, job.id).job.state == "running"
    assert (stored(server, job.id).request, stored(server, job.id).job.owner) == ({"n": 1}, "tab")
    assert stored(server, last.id).job.state == "queued"
    held.open.set()
    ended = await server.jobs.ended(job.id)
    assert stored(server, job.id).job == ended
    assert (ended.state, ended.result) == ("done", {"runs": 1})
    for each in waits:
        server.jobs.cancel(each.id)


async def test_a_failed_job_keeps_its_problem_over_a_restart(start: Start) -> None:
    def refused(report: Report) -> None:
        raise errors.DiskFull("The disk is full", "it has 1 byte left", "Make room", needed=2, available=1)

    server = start()
    failed = await server.jobs.ended(server.jobs.start("test", "failing", refused).id)
    await server.kill()
    again = start()
    await again.jobs.take_up({})
    found = await again.jobs.find(failed.id)
    assert found == failed
    assert found.problem is not None
    assert (found.problem.type, found.problem.needed, found.problem.available) == ("disk-full", 2, 1)
    assert await again.jobs.listed() == (failed,)
    assert await again.jobs.stop(failed.id) == failed


async def test_a_killed_server_s_job_is_lost_where_its_kind_cannot_go_on(start: Start) -> None:
    server, held = start(), Held()
    job = server.jobs.start("test", "holding", held)
    await held.begun()
    await server.kill()
    again = start()
    await again.jobs.take_up({})
    lost = again.jobs.get(job.id)
    assert lost.problem is not None
    assert (lost.state, lost.problem.type, lost.created) == ("lost", "lost", job.created)
    assert all((lost.problem.what, lost.problem.why, lost.problem.instead))
    assert again.jobs.current() == (lost,)  # tabs are told
    await again.jobs.recorded()
    assert stored(again, job.id).job == lost
    held.open.set()
    await server.jobs.ended(job.id)  # the dead one was only asleep, and comes too late
    assert stored(again, job.id).job == lost


async def test_where_its_kind_can_it_goes_on_once_and_then_is_lost(start: Start) -> None:
    server, held = start(), Held()
    job = server.jobs.start("test", "holding", held, owner="tab", request={"n": 7}, share="held")
    await held.begun()
    for _ in range(module.RESUMED_MOST):
        await server.kill()
        server = start()
        await server.jobs.take_up({"test": held.again})
        now = server.jobs.get(job.id)
        assert now.state in ("queued", "running")
        assert (now.owner, now.created) == ("tab", job.created)
        assert server.jobs.shared("held") is not None
        await until(partial(_holds, server, job.id))
    await server.kill()
    last = start()
    await last.jobs.take_up({"test": held.again})
    lost = last.jobs.get(job.id)
    assert lost.state == "lost"
    assert lost.problem is not None
    assert "2 times" in lost.problem.why
    held.open.set()


async def test_what_goes_on_ends_as_if_nothing_had_been(start: Start) -> None:
    server, held = start(), Held()
    job = server.jobs.start("test", "holding", held, request={"n": 7})
    await held.begun()
    await server.kill()
    again = start()
    await again.jobs.take_up({"test": held.again})
    held.open.set()
    ended = await again.jobs.ended(job.id)
    assert (ended.state, ended.problem) == ("done", None)
    assert stored(again, job.id).job == ended


async def test_two_that_do_the_same_go_on_as_one(start: Start) -> None:
    held, both = Held(), (start(), start())
    jobs = [server.jobs.start("test", "holding", held, request={"n": 1}) for server in both]
    await until(lambda: held.runs == 2)
    for server in both:
        await server.kill()
    again = start()
    await again.jobs.take_up({"test": held.again})
    first, second = sorted((again.jobs.get(job.id) for job in jobs), key=lambda job: job.created)
    assert first.state in ("queued", "running")
    assert second.state == "lost"
    assert second.problem is not None
    assert first.id in second.problem.instead
    held.open.set()


async def test_what_is_refused_now_fails_in_words(start: Start) -> None:
    async def forbidden(request: dict[str, Any]) -> Work:
        raise errors.Forbidden("This model may not be opened", "its owner said so", "Choose another")

    server, held = start(), Held()
    job = server.jobs.start("test", "holding", held)
    await held.begun()
    await server.kill()
    again = start()
    await again.jobs.take_up({"test": forbidden})
    failed = again.jobs.get(job.id)
    assert failed.problem is not None
    assert (failed.state, failed.problem.type) == ("failed", "forbidden")
    held.open.set()


async def test_a_wish_to_stop_outlives_a_kill(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, began = threading.Event(), threading.Event()

    def deaf(report: Report) -> None:
        began.set()
        gate.wait(60)

    server = start()
    job = server.jobs.start("test", "holding", deaf)
    assert await asyncio.to_thread(began.wait, 60)
    assert (await server.jobs.stop(job.id)).state == "running"
    await server.kill()
    again = start()
    await again.jobs.take_up({"test": Held().again})
    assert again.jobs.get(job.id).state == "cancelled"
    gate.set()


async def test_two_servers_see_each_other_s_jobs_and_either_may_stop_them(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "RECORD_S", 0.0)
    one, other, held = start(), start(), Held()
    job = one.jobs.start("test", "holding", held)
    await held.begun()
    await one.jobs.recorded()
    await other.jobs.take_up({"test": held.again})
    assert held.runs == 1
    assert other.jobs.all() == ()
    assert [(seen.id, seen.state) for seen in await other.jobs.listed()] == [(job.id, "running")]
    assert (await other.jobs.find(job.id)).what == "holding"
    await other.jobs.stop(job.id)
    assert (await asyncio.wait_for(one.jobs.ended(job.id), 60)).state == "cancelled"
    assert (await other.jobs.find(job.id)).state == "cancelled"
    with pytest.raises(errors.UnknownJob):
        await other.jobs.find("nobody's")


async def test_a_server_that_is_stopped_says_so_and_leaves_nothing_to_take_up(start: Start) -> None:
    server, held = start(), Held()
    jobs = [server.jobs.start("test", "holding", held, request={"n": 1}) for _ in range(4)]
    await held.begun()
    await server.stop()
    again = start()
    await again.jobs.take_up({"test": held.again})
    assert again.jobs.all() == ()
    ended = [(await again.jobs.find(job.id)) for job in jobs]
    assert {(job.state, job.problem.why if job.problem else "") for job in ended} == {
        ("cancelled", "the server was stopped")
    }
    server.stop = _nothing  # type: ignore[method-assign]


def _holds(server: Server, id: str) -> bool:
    return server.jobs.get(id).what == "holding"


async def _nothing() -> None:
    """It was stopped already."""


async def test_what_was_found_so_far_is_shown_recorded_and_gives_way_to_the_result(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "RECORD_S", 0.0)
    found, gate = threading.Event(), threading.Event()

    def finding(report: Report) -> dict[str, Any]:
        report.publish({"heads": [1]})
        report.publish({"heads": [1, 2]})
        found.set()
        gate.wait(60)
        return {"heads": [1, 2, 3]}

    server = start()
    job = server.jobs.start("test", "finding", finding)
    assert await asyncio.to_thread(found.wait, 60)
    assert server.jobs.get(job.id).partial == {"heads": [1, 2]}
    await server.jobs.recorded()
    assert stored(server, job.id).job.partial == {"heads": [1, 2]}
    gate.set()
    ended = await server.jobs.ended(job.id)
    assert (ended.partial, ended.result) == (None, {"heads": [1, 2, 3]})


async def test_publishing_notices_that_nobody_wants_it(start: Start) -> None:
    def endless(report: Report) -> None:
        while True:
            report.publish({"n": 1})

    server = start()
    job = server.jobs.start("test", "finding", endless)
    await until(lambda: server.jobs.get(job.id).partial)
    server.jobs.cancel(job.id)
    ended = await asyncio.wait_for(server.jobs.ended(job.id), 60)
    assert (ended.state, ended.partial) == ("cancelled", {"n": 1})


async def test_a_store_in_trouble_keeps_no_job_from_running_and_is_told_when_it_is_well(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = start()

    def full(_: StoredJob) -> bool:
        raise errors.StoreUnusable("The database cannot be used", "the disk is full", "Make room")

    with monkeypatch.context() as patched:
        patched.setattr(server.store.jobs, "write", full)
        jobs = [server.jobs.start("test", "quick", lambda report: {"n": 1}) for _ in range(3)]
        assert [(await server.jobs.ended(job.id)).state for job in jobs] == ["done"] * 3
        await server.jobs.recorded()
        assert [server.store.jobs.get(job.id) for job in jobs] == [None] * 3
    told = [record for record in caplog.records if record.message == "jobs are not remembered"]
    assert [record.why for record in told] == ["the disk is full"]  # type: ignore[attr-defined]  # once, not each second
    await server.jobs.recorded()
    assert [stored(server, job.id).job for job in jobs] == [server.jobs.get(job.id) for job in jobs]


async def test_what_cannot_be_written_keeps_no_other_job_from_it(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = start()
    odd = server.jobs.start("test", "odd", lambda report: {"no JSON": object()})
    await server.jobs.ended(odd.id)
    even = server.jobs.start("test", "even", lambda report: {"n": 1})
    await server.jobs.ended(even.id)
    assert stored(server, even.id).job.state == "done"
    assert "broken" in caplog.messages


async def test_only_so_many_ended_jobs_stay_in_the_store(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED_KEPT", 3)
    server = start()
    for n in range(6):
        await server.jobs.ended(server.jobs.start("test", f"{n}", lambda report: None).id)
    await server.jobs.recorded()
    assert [each.job.what for each in server.store.jobs.newest(9)] == ["5", "4", "3"]


async def test_loading_a_model_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, store = PretendShelf(steps=3000, step_s=0.01), open_store(None, tmp_path)
    write = store.jobs.write

    def slow(stored: StoredJob) -> bool:
        time.sleep(0.05)
        return write(stored)

    monkeypatch.setattr(store.jobs, "write", slow)
    desk = Desk(shelf, Limits(), jobs=store.jobs)
    job = await desk.load("a", owner="tab")
    asked = store.jobs.get(job.id)
    assert asked is not None  # told of it only after it was recorded
    assert asked.request == {"model": "a", "revision": None}
    await until(lambda: shelf.loads)
    kill(store)
    heir_shelf, heir_store = PretendShelf(), open_store(None, tmp_path)
    heir = Desk(heir_shelf, Limits(), jobs=heir_store.jobs)
    await heir.take_up()
    ended = await heir.jobs.ended(job.id)
    assert (ended.state, ended.result, ended.owner) == ("done", {"model": "a", "revision": ""}, "tab")
    assert "a" in heir_shelf.models
    for each, remembered in ((desk, store), (heir, heir_store)):
        await each.close()
        remembered.close()


def kill(store: Store) -> None:
    assert store.servers._lock is not None
    store.servers._lock.release()


async def test_who_asked_is_told_to_nobody_else(tmp_path: Path) -> None:
    job = Job(id="a", kind="test", owner="mine", state="done", what="", created=1, updated=1)
    assert shown(job, "mine") == job
    assert [shown(job, tab).owner for tab in ("", "yours")] == ["another", "another"]
    assert shown(job.model_copy(update={"owner": ""}), "yours").owner == ""
    desk = Desk(PretendShelf(), Limits())
    await desk.load("a", owner="mine")
    assert [desk.situation(tab).jobs[0].owner for tab in ("mine", "yours")] == ["mine", "another"]
    await desk.close()
