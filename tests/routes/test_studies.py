"""Studies are jobs: they interleave with questions, show what they found, stop, and go on after a kill."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from backend.app import create_app
from backend.schema import EffectsAnswer, EffectsAsk, Job
from backend.settings import Settings
from backend.store import StoredJob, open_store
from backend.studies import effects
from backend.studies.asking import OnModel

TAB = "7f8b0d52-6d3c-4d0a-9d3b-1f4f3a6d2c11"
VIEW = {"model": "tiny-llama", "text": "The cat sat on the mat."}


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


async def started(client: httpx.AsyncClient, path: str = "trace/effects", **ask: Any) -> dict[str, Any]:
    answer = await client.post(f"/{path}", json={"view": VIEW} | ask, headers={"X-Lmscope-Tab": TAB})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def ended(client: httpx.AsyncClient, id: str) -> dict[str, Any]:
    while (job := (await client.get(f"/jobs/{id}")).json())["state"] in ("queued", "running"):
        await asyncio.sleep(0.02)
    return job


async def test_effects_of_all_heads_are_a_job_with_progress_and_a_result(client):
    job = await started(client)
    assert (job["kind"], job["owner"]) == ("trace.effects", TAB)
    done = await ended(client, job["id"])
    assert (done["state"], done["done"], done["total"], done["unit"]) == ("done", 12, 12, "heads")
    answer = EffectsAnswer.model_validate(done["result"])
    assert [(part.layer, part.index) for part in answer.parts] == [
        (layer, head) for layer in range(3) for head in range(4)
    ]
    assert all(part.effect is not None for part in answer.parts)
    assert set(answer.words) == {str(answer.explained.target), str(answer.explained.foil)}


async def test_removal_by_the_mean_says_over_which_set_and_averages_only_once(client, monkeypatch):
    texts = {"name": "small", "texts": ["The dog barked at the cat.", "Off with her head!"]}
    small = (await client.post("/sets", json=texts)).json()["id"]
    done = await ended(client, (await started(client, removal="mean", parts="attention", set=small))["id"])
    assert done["result"]["set"] == small
    assert "mean over the prompt set" in done["result"]["about"]
    monkeypatch.setattr("backend.models.means.Sums.add", lambda *_, **__: pytest.fail("averaged again"))
    again = await ended(client, (await started(client, removal="mean", parts="feed_forward", set=small))["id"])
    assert again["state"] == "done"
    zero = await ended(client, (await started(client, parts="attention"))["id"])
    assert zero["result"]["set"] is None
    assert zero["result"]["parts"] != done["result"]["parts"]


async def test_a_set_with_a_text_that_is_too_long_for_the_model_is_refused_with_its_number(client):
    done = await ended(client, (await started(client, removal="mean"))["id"])
    assert (done["state"], done["problem"]["type"]) == ("failed", "too-long")
    assert "of the prompt set" in done["problem"]["what"]
    assert done["problem"]["available"] == 128


@pytest.fixture
async def slowly(monkeypatch):
    """One part a batch, each held until it is let go."""
    let = threading.Semaphore(0)
    loop = asyncio.get_running_loop()
    measure, begun = effects.measure, asyncio.Event()

    def held(loaded, cancel, **more):
        loop.call_soon_threadsafe(begun.set)
        while not let.acquire(timeout=0.005):
            cancel()
        return measure(loaded, cancel, **more | {"most": 1})

    monkeypatch.setattr(effects, "measure", held)
    monkeypatch.setattr(effects, "PUBLISH_S", 0)
    return begun, let


async def test_a_cancelled_study_stops_within_its_batch_and_keeps_what_it_found(client, slowly):
    begun, _ = slowly
    job = await started(client)
    await begun.wait()
    await client.delete(f"/jobs/{job['id']}")
    done = await asyncio.wait_for(ended(client, job["id"]), 60)
    assert (done["state"], done["problem"]["type"]) == ("cancelled", "cancelled")
    answer = await client.post("/tokens", json={"view": VIEW})
    assert answer.status_code == 200, "the model is free again"


async def test_a_question_of_somebody_else_does_not_wait_for_a_whole_study(app, client, slowly):
    begun, let = slowly
    job = await started(client)
    await begun.wait()
    asking = asyncio.create_task(client.post("/tokens", json={"view": VIEW | {"text": "A dog."}}))
    while app.state.house.desk.asking()["tiny-llama"] < 2:  # the batch that is held, and the question behind it
        await asyncio.sleep(0.005)
    let.release()
    assert (await asking).status_code == 200, "after one batch, while the next is held"
    now = (await client.get(f"/jobs/{job['id']}")).json()
    assert now["state"] == "running"
    let.release(1000)
    assert (await ended(client, job["id"]))["state"] == "done"


async def test_what_was_found_so_far_is_shown_with_the_rest_missing(client, slowly):
    begun, let = slowly
    job = await started(client)
    await begun.wait()
    let.release(3)
    seen: list[int] = []
    while (now := (await client.get(f"/jobs/{job['id']}")).json())["state"] in ("queued", "running"):
        if now["partial"] is not None:
            partial = EffectsAnswer.model_validate(now["partial"])
            seen.append(sum(part.effect is not None for part in partial.parts))
            if seen[-1]:
                let.release(1000)
        await asyncio.sleep(0.005)
    assert any(0 < count < 12 for count in seen)
    assert seen == sorted(seen)


async def test_the_same_study_of_the_same_tab_runs_once_and_of_another_tab_for_itself(client, monkeypatch):
    """Studies stand before their first question: held in it, they would keep the model from what a start asks."""
    let, patiently = asyncio.Event(), OnModel.patiently

    async def held(self, *args):
        await let.wait()
        return await patiently(self, *args)

    monkeypatch.setattr(OnModel, "patiently", held)
    asking = [asyncio.create_task(started(client)) for _ in range(2)]
    theirs = asyncio.create_task(client.post("/trace/effects", json={"view": VIEW}))
    (one, two), other = await asyncio.gather(*asking), (await theirs).json()
    let.set()
    assert one["id"] == two["id"] != other["id"]
    assert (await ended(client, one["id"]))["state"] == (await ended(client, other["id"]))["state"] == "done"


@pytest.mark.parametrize(
    ("ask", "status", "kind"),
    [
        ({"heads": [{"layer": 9, "head": 0}]}, 422, "cannot-show"),
        ({"parts": "units"}, 422, "invalid"),
        ({"view": VIEW | {"edits": [{"kind": "head.scale", "layer": 8, "head": 0, "by": 0}]}}, 422, "cannot-show"),
        ({"view": VIEW | {"text": ""}}, 422, "invalid"),
        ({"removal": "mean", "set": "0" * 64}, 404, "unknown-set"),
        ({"removal": "half"}, 422, "invalid"),
    ],
)
async def test_what_can_be_known_is_refused_at_once_and_makes_no_job(client, ask, status, kind):
    before = len((await client.get("/jobs")).json())
    answer = await client.post("/trace/effects", json={"view": VIEW} | ask)
    assert (answer.status_code, answer.json()["type"]) == (status, kind)
    assert len((await client.get("/jobs")).json()) == before


async def test_a_study_whose_server_was_killed_goes_on_at_the_next_start(settings, shelf, tmp_path):
    dead = open_store(None, tmp_path)
    ask = EffectsAsk.model_validate({"view": VIEW, "parts": "attention"})
    job = Job(id="a" * 32, kind="trace.effects", state="running", what="removing", created=1, updated=2)
    dead.jobs.write(StoredJob(job, {"ask": ask.model_dump(mode="json"), "share": "the same"}))
    assert dead.servers._lock is not None
    dead.servers._lock.release()
    app = create_app(settings, shelf, open_store(None, tmp_path))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8050/api/v1") as client:
            done = await ended(client, "a" * 32)
        assert app.state.house.desk.jobs._jobs["a" * 32].share == "the same", "who asks it again finds it"
    assert (done["state"], len(done["result"]["parts"])) == ("done", 3)
    dead.engine.dispose()
