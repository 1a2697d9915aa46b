"""A question's way over HTTP: answered, kept, replaced, stopped, and dropped when the client leaves."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI

from backend.models import tokens as tokens_model
from backend.schema import HeadAnswer, HeadsAnswer, Overview, Problem, TokensAnswer
from lmscope.transport import InProcess
from tests.desk.pretend import Gate

VIEW = {"model": "tiny-llama", "text": "The cat sat."}


@pytest.mark.parametrize(
    ("instrument", "form", "more"),
    [
        ("tokens", TokensAnswer, {}),
        ("attention", Overview, {}),
        ("heads", HeadsAnswer, {}),
        ("attention/head", HeadAnswer, {"heads": [{"layer": 0, "head": 1}]}),
    ],
)
async def test_each_instrument_answers_in_its_form(
    client: httpx.AsyncClient, instrument: str, form: Any, more: dict[str, Any]
) -> None:
    response = await client.post(instrument, json={"view": VIEW, **more})
    assert response.status_code == 200, response.text
    answer = form.model_validate_json(response.content)
    assert answer.ids
    assert answer.conditions.model == "tiny-llama"


async def test_an_equal_question_gets_the_same_bytes(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await client.post("heads", json={"view": VIEW})
    monkeypatch.setattr("backend.models.attention.heads", None)
    looked = {**VIEW, "focus": {"token": 1}}
    assert (await client.post("heads", json={"view": looked})).content == first.content


async def test_a_model_that_is_not_loaded_is_loaded(client: httpx.AsyncClient) -> None:
    response = await client.post("tokens", json={"view": {"model": "tiny-gpt2", "text": "a"}})
    assert response.status_code == 200, response.text


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The tokens instrument held up at its first layer."""
    gate, answer = Gate(), tokens_model.answer

    def held(loaded: Any, ask: Any, limits: Any, cancel: Any) -> TokensAnswer:
        gate.answer("")(loaded, cancel)
        return answer(loaded, ask, limits, cancel)

    monkeypatch.setattr(tokens_model, "answer", held)
    return gate


async def post(client: httpx.AsyncClient, text: str, tab: str) -> httpx.Response:
    view = {"model": "tiny-llama", "text": text}
    return await client.post("tokens", json={"view": view}, headers={"X-Lmscope-Tab": tab})


async def test_of_a_tab_s_questions_that_come_at_once_the_last_is_answered(client: httpx.AsyncClient) -> None:
    tab = str(uuid4())
    answers = await asyncio.gather(*(post(client, f"number {number}", tab) for number in range(40)))
    assert {answer.status_code for answer in answers[:-1]} <= {200, 409}
    assert answers[-1].status_code == 200, answers[-1].text


async def test_a_newer_question_of_the_tab_replaces_the_older(client: httpx.AsyncClient, gate: Gate) -> None:
    tab = str(uuid4())
    older = asyncio.create_task(post(client, "older", tab))
    await asyncio.to_thread(gate.reached.wait, 60)
    newer = asyncio.create_task(post(client, "newer", tab))
    refused = await older
    assert (refused.status_code, Problem.model_validate_json(refused.content).type) == (409, "replaced")
    gate.open.set()
    assert (await newer).status_code == 200


async def test_stop_cancels_the_tab_s_question(client: httpx.AsyncClient, gate: Gate) -> None:
    tab = str(uuid4())
    asked = asyncio.create_task(post(client, "stopped", tab))
    await asyncio.to_thread(gate.reached.wait, 60)
    assert (await client.delete(f"tabs/{tab}")).status_code == 204
    assert (await asked).status_code == 499
    gate.open.set()
    assert (await post(client, "after", tab)).status_code == 200


async def test_a_client_that_leaves_stops_its_question(app: FastAPI, gate: Gate) -> None:
    async with httpx.AsyncClient(transport=InProcess(app), base_url="http://127.0.0.1:8050/api/v1") as client:
        asked = asyncio.create_task(post(client, "left", str(uuid4())))
        await asyncio.to_thread(gate.reached.wait, 60)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        for _ in range(6000):
            await asyncio.sleep(0.005)
            if gate.stopped:
                break
        assert (gate.stopped, gate.finished) == (1, 0)
        gate.open.set()
        assert (await post(client, "after", str(uuid4()))).status_code == 200


async def test_a_request_id_is_kept_or_made(client: httpx.AsyncClient) -> None:
    given = await client.get("health", headers={"X-Request-Id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    made = [
        (await client.get("health", headers={"X-Request-Id": id})).headers["x-request-id"]
        for id in ("", "a b", "x" * 65)
    ]
    assert all(len(id) == 32 for id in made)
    assert len(set(made)) == 3
