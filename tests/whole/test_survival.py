"""The server survives what people and machines do to it: memory that runs out, models that go, logs that say little."""

import asyncio
import gc
import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from backend.app import configure_logs
from backend.models import attention
from backend.schema import View
from backend.settings import Settings
from lmscope.client import AsyncClient
from lmscope.refused import Refused

TEXT = "The cat sat on the mat."


@pytest.fixture
def view(folders: dict[str, Path]) -> View:
    return View(model=str(folders["llama"]), text=TEXT)


async def test_what_does_not_fit_is_refused_with_both_numbers_and_the_next_question_is_fine(
    app: FastAPI, client: AsyncClient, view: View
) -> None:
    memory = app.state.house.desk._memory
    memory._measure, measure = (lambda device: 10_000), memory._measure
    with pytest.raises(Refused) as refused:
        await client.attention(view)
    problem = refused.value.problem
    assert (problem.type, problem.status, problem.available) == ("out-of-memory", 503, 10_000)
    assert problem.needed
    assert problem.needed > 10_000
    memory._measure = measure
    assert (await client.attention(view)).ids


async def test_memory_that_runs_out_in_the_middle_is_survived(
    client: AsyncClient, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hungry(*_: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr(attention, "overview", hungry)
        with pytest.raises(Refused) as refused:
            await client.attention(view)
    assert refused.value.problem.type == "out-of-memory"
    assert (await client.attention(view)).ids


async def test_an_unloaded_model_takes_its_thread_with_it_and_comes_back_when_asked(
    client: AsyncClient, view: View
) -> None:
    await client.tokens(view)
    named = f"model {view.model}"
    (thread,) = [thread for thread in threading.enumerate() if thread.name == named]
    del thread
    await client.unload(view.model)
    for _ in range(600):
        gc.collect()
        if named not in {thread.name for thread in threading.enumerate()}:
            break
        await asyncio.sleep(0.05)
    assert named not in {thread.name for thread in threading.enumerate()}
    assert (await client.tokens(view)).ids


async def test_a_model_in_use_is_not_unloaded(app: FastAPI, client: AsyncClient, view: View) -> None:
    with app.state.house.shelf.lease(view.model), pytest.raises(Refused) as refused:
        await client.unload(view.model)
    assert refused.value.problem.type == "busy"


@pytest.fixture
def log(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What a server that logs for machines writes."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logs(settings.model_copy(update={"log_form": "json", "log_level": "debug"}))
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_a_log_line_has_the_request_s_id_and_never_anybody_s_text(
    app: FastAPI, view: View, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    def broken(*_: object) -> None:
        raise ValueError(f"cannot work with {TEXT}")

    monkeypatch.setattr(attention, "overview", broken)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/api/v1") as asking:
        answer = await asking.post("tokens", json={"view": view.model_dump()}, headers={"X-Request-Id": "one"})
        assert answer.status_code == 200
        assert (await asking.post("attention", json={"view": view.model_dump()})).status_code == 500
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    answered = next(line for line in lines if line.get("request") == "one")
    assert (answered["path"], answered["status"], answered["method"]) == ("/api/v1/tokens", 200, "POST")
    broke = next(line for line in lines if line["event"] == "broken")
    assert (broke["error"], broke["level"]) == ("ValueError", "error")
    assert "in broken" in broke["trace"]
    assert TEXT not in log.getvalue()
