"""Writing over the API: whole and streamed say the same, refusals in words, and a client that leaves stops it."""

import asyncio
import json
import time
from contextlib import aclosing
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI

from backend.models import forward
from backend.schema import Sampling, View, WriteAnswer
from lmscope.client import AsyncClient, Refused

VIEW = View(model="tiny-llama", text="The cat sat on", sampling=Sampling(tokens=20, temperature=0.9, seed=4))
EDITS = [{"kind": "ffn.set", "layer": 1, "unit": 7, "to": 9}]


@pytest.fixture
async def asking(app: FastAPI):
    async with AsyncClient(app=app, tab=str(uuid4())) as client:
        yield client


async def test_streamed_and_whole_are_the_same(asking: AsyncClient):
    view = View.model_validate(VIEW.model_dump() | {"edits": EDITS, "compare": True})
    whole = await asking.write(view, top=2)
    events = [event async for event in asking.write_stream(view, top=2)]
    assert isinstance(whole, WriteAnswer)
    assert events[0].kind == "begun"
    assert events[0].conditions == whole.conditions
    assert events[0].ids == whole.ids
    for name, side in (("edited", whole.edited), ("unedited", whole.unedited)):
        assert tuple(e.token for e in events if e.kind == "token" and e.side == name) == side.tokens
        assert "".join(e.token.text for e in events if e.token and e.side == name) == side.text
        assert [e.ended for e in events if e.kind == "ended" and e.side == name] == ["length"]


async def test_sampling_is_part_of_the_question(asking: AsyncClient):
    texts = {
        (await asking.write(VIEW.model_copy(update={"sampling": Sampling(temperature=1.5, seed=seed)}))).edited.text
        for seed in range(4)
    }
    assert len(texts) == 4
    assert await asking.write(VIEW) == await asking.write(VIEW)


async def test_events_are_server_sent_events(client: httpx.AsyncClient):
    body = {"view": {"model": "tiny-llama", "text": "The cat", "sampling": {"tokens": 2}}}
    answer = await client.post("write/stream", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    assert {lines[0] for lines in events} == {"event: write"}
    kinds = [json.loads(lines[1].removeprefix("data: "))["kind"] for lines in events]
    assert kinds == ["begun", "token", "token", "ended"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"view": {"model": "tiny-llama", "text": "a", "sampling": {"tokens": 513}}}, 422, "512"),
        ({"view": {"model": "tiny-llama", "text": "a", "sampling": {"temperature": -1}}}, 422, "temperature"),
        ({"view": {"model": "tiny-llama", "text": "a", "sampling": {"top_p": 0}}}, 422, "top_p"),
        ({"view": {"model": "tiny-llama", "text": ""}}, 422, "no token"),
        ({"view": {"model": "tiny-llama", "text": "a", "sampling": {"stop": [""]}}}, 422, "stop"),
        ({"view": {"model": "nothing", "text": "a"}}, 404, "shelf"),
        ({"view": {"model": "tiny-llama", "pair": ["a", "b"]}}, 422, "separates two texts"),
        (
            {"view": {"model": "tiny-llama", "text": "a", "edits": [EDITS[0] | {"layer": 9}]}}, 422, "3 layers",
        ),
    ],
)  # fmt: skip
async def test_what_cannot_be_written_is_refused_in_words_on_both_routes(client: httpx.AsyncClient, body, status, said):
    for path in ("write", "write/stream"):
        answer = await client.post(path, json=body)
        assert answer.status_code == status, answer.text
        assert said in answer.json()["why"]
        assert answer.json()["instead"]


async def test_a_client_that_leaves_stops_the_writing_within_a_token(app: FastAPI, asking: AsyncClient, monkeypatch):
    run, steps = forward.run, 0

    def counted(*args, **options):
        nonlocal steps
        steps += options.get("cache") is not None
        time.sleep(0.02)  # a hundred tokens take longer than anybody needs to leave
        return run(*args, **options)

    monkeypatch.setattr(forward, "run", counted)
    async with aclosing(asking.write_stream(VIEW.model_copy(update={"sampling": Sampling(tokens=100)}))) as events:
        for _ in range(3):
            await anext(events)
    (lane,) = app.state.house.desk._lanes
    while lane.written:
        await asyncio.sleep(0.005)
    at = steps
    assert at < 90
    await asyncio.sleep(0.1)
    assert steps == at


async def test_stop_ends_a_stream_with_the_reason(asking: AsyncClient, monkeypatch):
    run, seen = forward.run, 0

    def slowly(*args, **options):
        time.sleep(0.02)  # a hundred tokens take longer than stopping
        return run(*args, **options)

    monkeypatch.setattr(forward, "run", slowly)

    async def read() -> None:
        nonlocal seen
        async for _ in asking.write_stream(VIEW.model_copy(update={"sampling": Sampling(tokens=100)})):
            seen += 1
            if seen == 3:
                await asking.stop()

    with pytest.raises(Refused) as refused:
        await read()
    assert refused.value.problem.type == "cancelled"
    assert seen < 100
