"""The shelf over HTTP: listed with the job that loads, loaded as a job, put away."""

import asyncio

import httpx
import pytest

from backend.schema import Job, Models, Problem
from tests.desk.pretend import PretendShelf


async def ended(client: httpx.AsyncClient, job: Job) -> Job:
    while job.state in ("queued", "running"):
        await asyncio.sleep(0.01)
        job = Job.model_validate_json((await client.get(f"jobs/{job.id}")).content)
    return job


async def test_the_shelf_is_listed(client: httpx.AsyncClient) -> None:
    shelf = Models.model_validate_json((await client.get("models")).content)
    assert [card.name for card in shelf.models] == ["tiny-llama"]


async def test_loading_is_a_job_that_two_asks_share(client: httpx.AsyncClient, shelf: PretendShelf) -> None:
    shelf.held_at = 0
    asks = [await client.post("models", json={"model": "tiny-gpt2"}) for _ in range(2)]
    assert [ask.status_code for ask in asks] == [202, 202]
    first, second = (Job.model_validate_json(ask.content) for ask in asks)
    assert first.id == second.id
    shelf.open.set()
    assert (await ended(client, first)).result == {"model": "tiny-gpt2", "revision": ""}
    assert Job.model_validate(next(iter((await client.get("jobs")).json()))).id == first.id


async def test_a_load_can_be_cancelled(client: httpx.AsyncClient, shelf: PretendShelf) -> None:
    shelf.held_at = 0
    job = Job.model_validate_json((await client.post("models", json={"model": "tiny-gpt2"})).content)
    assert (await client.delete(f"jobs/{job.id}")).status_code == 200
    assert (await ended(client, job)).state == "cancelled"
    assert "tiny-gpt2" not in shelf.models


async def test_unloading_puts_a_model_away(client: httpx.AsyncClient, shelf: PretendShelf) -> None:
    assert (await client.delete("models/tiny-llama")).status_code == 204
    assert "tiny-llama" not in shelf.models


@pytest.mark.parametrize("name", ["unknown", "org%2Fname", "../../etc/passwd", "x" * 600])
async def test_a_model_that_nobody_knows_cannot_be_loaded(client: httpx.AsyncClient, name: str) -> None:
    response = await client.post("models", json={"model": name})
    assert Problem.model_validate_json(response.content).type in ("unknown-model", "invalid")


async def test_an_unknown_job_is_said(client: httpx.AsyncClient) -> None:
    for method in ("GET", "DELETE"):
        response = await client.request(method, "jobs/nothing")
        assert Problem.model_validate_json(response.content).type == "unknown-job"
