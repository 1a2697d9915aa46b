"""A tab's events: its situation now and at every change; closing the stream stops what it asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import _PING_INTERVAL

from backend.schema import Job, TabEvent
from lmscope.transport import InProcess
from tests.desk.pretend import Gate, states
from tests.routes.test_questions import gate, post  # noqa: F401


@pytest.fixture
async def live(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client that reads streams as they come."""
    async with httpx.AsyncClient(transport=InProcess(app), base_url="http://127.0.0.1:8050/api/v1") as client:
        yield client


async def event_of(lines: AsyncIterator[str]) -> TabEvent:
    """The next event, which must be a TabEvent."""

    async def read() -> Any:
        kind = ""
        async for line in lines:
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                assert kind == "tab"
                return json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream ended")

    return TabEvent.model_validate(await asyncio.wait_for(read(), 60))


async def load_of(lines: AsyncIterator[str], id: str) -> Job | None:
    """The job in the next event; none in what was told before it began."""
    return next((job for job in (await event_of(lines)).jobs if job.id == id), None)


async def test_a_tab_follows_its_question_and_leaving_stops_it(live: httpx.AsyncClient, gate: Gate) -> None:  # noqa: F811
    tab = str(uuid4())
    async with live.stream("GET", f"tabs/{tab}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        assert (await event_of(lines)).questions == ()
        asked = asyncio.create_task(post(live, "followed", tab))
        seen = await event_of(lines)
        while states(seen.questions) != [("running", 0)]:
            seen = await event_of(lines)
        assert (seen.questions[0].instrument, seen.questions[0].model) == ("tokens", "tiny-llama")
    assert (await asyncio.wait_for(asked, 60)).status_code == 499
    assert gate.finished == 0


async def test_a_tab_hears_of_loads(live: httpx.AsyncClient, shelf: Any) -> None:
    shelf.held_at = 1
    async with live.stream("GET", f"tabs/{uuid4()}/events") as stream:
        lines = stream.aiter_lines()
        await event_of(lines)
        job = (await live.post("models", json={"model": "tiny-gpt2"})).json()["id"]
        while (seen := await load_of(lines, job)) is None or seen.done < 1:
            pass
        assert (seen.state, seen.done, seen.total) == ("running", 1, 3)
        shelf.open.set()
        while (seen := await load_of(lines, job)) is None or seen.state == "running":
            pass
        assert seen.state == "done"


async def test_a_tab_is_a_uuid(live: httpx.AsyncClient) -> None:
    assert (await live.get("tabs/mine/events")).status_code == 422
    assert (await live.delete("tabs/mine")).status_code == 422


def test_a_quiet_stream_is_kept_alive() -> None:
    assert _PING_INTERVAL <= 15
