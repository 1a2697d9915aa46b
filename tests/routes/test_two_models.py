"""Questions about two models are answered by jobs, or refused at once where the two have nothing in common."""

import asyncio

import httpx
import pytest

from backend import errors
from backend.schema import AlignmentAnswer, ChangesAnswer, ModelCard, StitchingAnswer
from tests.routes.test_studies import ended

SAME = {"model": "tiny-llama", "other": "tiny-llama"}


@pytest.mark.parametrize(
    ("path", "form", "more"),
    [
        ("changes", ChangesAnswer, {}),
        ("alignment", AlignmentAnswer, {"groups": ["o", "vo"]}),
        ("stitching", StitchingAnswer, {"texts": 2, "tokens": 8, "cuts": [1]}),
    ],
)
async def test_each_is_a_job_whose_result_is_the_answer(client: httpx.AsyncClient, path, form, more):
    started = await client.post(f"/weights/{path}", json=SAME | more)
    assert started.status_code == 202
    assert started.json()["kind"] == f"weights.{path}"
    job = await ended(client, started.json()["id"])
    assert job["state"] == "done", job["problem"]
    answer = form.model_validate(job["result"])
    assert answer.conditions == answer.other_conditions
    refused = await client.post(f"/weights/{path}", json={"model": "tiny-llama", "other": "tiny-gpt2"})
    assert refused.status_code == 422
    assert "vocabular" in refused.json()["what"] or "shape" in refused.json()["why"]


async def test_two_models_that_cannot_be_open_at_once_are_refused_before_anything_is_loaded(client, shelf, monkeypatch):
    """Else a budget for one alone would have both loaded in turn, some hundred times."""
    card = shelf.card

    def sized(name: str, revision: str | None = None) -> ModelCard:
        return card(name, revision).model_copy(update={"estimated_bytes": 600})

    monkeypatch.setattr(shelf, "card", sized)
    monkeypatch.setattr(shelf, "budget", 1_000)
    while (await client.get("/ready")).status_code != 200:  # what the server begins with is loaded, and counted
        await asyncio.sleep(0.005)
    loads = shelf.loads
    refused = await client.post("/weights/alignment", json={"model": "tiny-llama", "other": "tiny-gpt2"})
    assert refused.status_code == errors.OverBudget.status
    assert "cannot be open at once" in refused.json()["what"]
    assert (refused.json()["needed"], refused.json()["available"]) == (1200, 1000)
    assert shelf.loads == loads
    same = await client.post("/weights/alignment", json=SAME | {"groups": ["o"]})
    assert same.status_code == 202, "one model beside itself needs room for one"
    assert (await ended(client, same.json()["id"]))["state"] == "done"


async def test_loads_that_studies_need_take_no_place_in_the_list_of_jobs(client, shelf):
    """Six times a study finds its other model put away; four such loads stay, and none is recorded."""
    for _ in range(6):
        shelf.models.pop("tiny-gpt2", None)
        await client.post("/weights/changes", json={"model": "tiny-llama", "other": "tiny-gpt2"})
    assert 0 < len(await loads_of(client, "another")) <= 4
    for _ in range(5):
        shelf.models.pop("tiny-gpt2", None)
        await ended(client, (await client.post("/models", json={"model": "tiny-gpt2"})).json()["id"])
    assert len(await loads_of(client, "")) >= 5, "who asks for a model by itself finds the job again"


async def loads_of(client: httpx.AsyncClient, owner: str) -> list[str]:
    jobs = (await client.get("/jobs")).json()
    return [job["id"] for job in jobs if (job["kind"], job["owner"]) == ("models.load", owner)]
