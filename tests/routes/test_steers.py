"""Examples, the shelf and the making of steers over the API."""

import asyncio
import threading
import time
from base64 import b64encode

import httpx
import pytest

from backend import errors
from backend.app import create_app
from backend.measure.array import from_array
from backend.models.examples import Examples, Split, split
from backend.models.states import Draft, StatesTables
from backend.models.steers import Steers
from backend.models.training import Training
from backend.models.vectors import Vectors
from backend.routes import steers
from backend.schema import Array, Example, Job, Made, MakeAsk
from backend.settings import Settings
from backend.store import StoredJob, open_store
from backend.studies import direction, judging, making

EXAMPLES = {
    "name": "moods", "plus": [f"The cat sat on mat {n}." for n in range(20)],
    "minus": [f"Off with head {n}!" for n in range(20)],
}  # fmt: skip
STEER = {"kind": "steer", "name": "sent"}


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path, upload_bytes=65_536)


async def test_examples_are_sent_listed_and_read(client):
    kept = await client.post("/steers/examples", json=EXAMPLES)
    assert kept.status_code == 201, kept.text
    assert (kept.json()["plus"], kept.json()["minus"]) == (20, 20)
    assert (await client.get("/steers/examples")).json()["sets"] == [kept.json()]
    assert (await client.get(f"/steers/examples/{kept.json()['id']}")).json() == kept.json()
    assert (await client.get("/steers/examples/none")).json()["type"] == "unknown-set"
    assert [each["name"] for each in (await client.get("/sets")).json()["sets"]] == ["plain-english-prose"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"rows": [{"text": "x", "label": 2}]}, 422, "rows.0.label"),
        ({"rows": [{"text": "x", "label": "good"}]}, 422, "it should be a number"),
        ({"rows": [{"text": "x", "label": True}]}, 422, "it should be a number"),
        ({"plus": ["x"]}, 422, "needs 20 of each"),
        ({"file": "eA==", "format": "csv"}, 422, "`text` and `label` are needed"),
        ({"file": b64encode(bytes(range(256))).decode(), "format": "csv"}, 422, "not UTF-8"),
        ({"file": "A" * 70_000, "format": "csv"}, 413, "reads at most 65,536"),
    ],
)
async def test_what_are_no_examples_is_refused_in_words(client, body, status, words):
    answer = await client.post("/steers/examples", json={"name": "moods", **body})
    assert answer.status_code == status, answer.text
    assert words in answer.json()["why"]
    assert answer.json()["instead"]
    assert (await client.get("/steers/examples")).json()["sets"] == []


def array(rows: int, columns: int) -> dict[str, str]:
    return {"dtype": "f4", "bdata": b64encode(bytes(4 * rows * columns)).decode(), "shape": f"{rows}, {columns}"}


async def test_the_shelf_says_what_fits_and_a_steer_is_deleted(client):
    for width in (32, 8):
        sent = STEER | {"name": f"sent-{width}", "left": array(width, 2), "right": array(2, width)}
        assert (await client.post("/vectors", json=sent)).status_code == 201
    shelf = (await client.get("/steers", params={"model": "tiny-llama"})).json()["steers"]
    mine = [each for each in shelf if not each["card"]["ours"]]
    assert [(each["card"]["name"], each["fits"]) for each in mine] == [("sent-32", True), ("sent-8", False)]
    assert mine[1]["why"] == "It has 8 numbers a token, and tiny-llama has 32 there."
    id = mine[0]["card"]["id"]
    assert (await client.delete(f"/steers/{id}")).status_code == 204
    again = await client.delete(f"/steers/{id}")
    assert (again.status_code, again.json()["type"]) == (404, "unknown-vector")


async def test_the_shelf_is_for_a_model_that_is_there(client):
    assert (await client.get("/steers")).status_code == 422
    answer = await client.get("/steers", params={"model": "nobody's"})
    assert (answer.status_code, answer.json()["type"]) == (404, "unknown-model")


FOX = [f"The quick brown fox jumps over {n} lazy dogs." for n in range(24)]
CAT = [f"Off with her head! said the Queen {n}." for n in range(24)]


async def examples_of(client, **more) -> str:
    kept = await client.post("/steers/examples", json={"name": "toy", "plus": FOX, "minus": CAT} | more)
    return kept.json()["id"]


async def started(client, **changes):
    asked = {"model": "tiny-llama", "name": "toy", "plus": "fox", "minus": "queen", "rank": 4, "steps": 40, "rate": 0.1}
    return await client.post("/steers", json=asked | changes)


async def ended(client, job):
    while job["state"] in ("queued", "running"):
        await asyncio.sleep(0.02)
        job = (await client.get(f"/jobs/{job['id']}")).json()
    return job


async def test_a_toy_of_two_classes_gives_a_steer_that_moves_each_the_right_way(client):
    answer = await started(client, examples=await examples_of(client), owner="Ada")
    assert (answer.status_code, answer.json()["kind"]) == (202, "steers.make")
    done = await ended(client, answer.json())
    assert done["state"] == "done", done["problem"]
    made = Made.model_validate(done["result"])
    card = made.card
    assert card.evidence.plus.high < 0 < card.evidence.minus.low, "+ is likelier at +1, − is less likely"
    random = (card.evidence.random_plus, card.evidence.random_minus)
    assert all(abs(each.mean) < abs(card.evidence.plus.mean) / 3 for each in random)
    assert [point.step for point in made.curve] == [0, 10, 20, 30, 40]
    assert made.curve[0].train is None
    assert made.best == min(made.curve[1:], key=lambda point: point.held_out).step
    assert (card.data.plus, card.data.minus, card.data.held_out) == (24, 24, 10)
    assert (card.owner, card.rank, card.width, card.ours) == ("Ada", 4, 32, False)
    assert card.range.low < 0 < card.range.high
    shelf = (await client.get("/steers", params={"model": "tiny-llama"})).json()["steers"]
    assert [each["fits"] for each in shelf if each["card"] == card.model_dump(mode="json")] == [True]
    again = await ended(client, (await started(client, examples=card.data.digest, owner="Ada")).json())
    assert again["result"]["card"]["id"] == card.id, "the same seed gives the same numbers"


async def test_the_evidence_is_the_likelihood_that_views_show(client, shelf, monkeypatch, tmp_path):
    """NLL(+1) − NLL(−1) of the texts held out, from the surprisal of every token that /tokens gives."""
    monkeypatch.setattr(shelf.tiny["tiny-llama"], "vectors", Vectors(tmp_path))
    made = await ended(client, (await started(client, examples=await examples_of(client))).json())
    card = made["result"]["card"]
    rows = [Example(text=text, label=label) for texts, label in ((FOX, 1), (CAT, -1)) for text in texts]
    for pole, label in (("plus", 1), ("minus", -1)):
        effects = []
        for row in split(rows, 0.2).judge:
            if row.label == label:
                nll = [await surprisal(client, row.text, card["id"], by) for by in (1, -1)]
                effects.append(nll[0] - nll[1])
        assert card["evidence"][pole]["n"] == len(effects) == 2
        assert card["evidence"][pole]["mean"] == pytest.approx(sum(effects) / len(effects), abs=2e-6)


async def surprisal(client, text: str, id: str, by: float) -> float:
    view = {"model": "tiny-llama", "text": text, "edits": [{"kind": "steer", "steer": id, "by": by}]}
    answer = (await client.post("/tokens", json={"view": view})).json()
    return float(from_array(Array.model_validate(answer["scores"]["surprisal"]))[1:].double().mean())


async def test_a_making_publishes_its_curve_stops_in_a_step_and_leaves_nothing(client, monkeypatch, tmp_path):
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    pull = Training.pull

    def slowly(self, loaded, cancel, **more):
        loop.call_soon_threadsafe(begun.set)
        while self.tokens:  # after the first step
            cancel()
            time.sleep(0.005)
        pull(self, loaded, cancel, **more)

    monkeypatch.setattr(Training, "pull", slowly)
    job = (await started(client, examples=await examples_of(client))).json()
    await asyncio.wait_for(begun.wait(), 60)
    while not (job := (await client.get(f"/jobs/{job['id']}")).json())["partial"] or job["done"] < 1:
        await asyncio.sleep(0.02)
    assert (job["what"], job["total"]) == ("training", 40)
    assert [point["step"] for point in job["partial"]["curve"]] == [0]
    assert job["partial"]["card"] is None
    await client.delete(f"/jobs/{job['id']}")
    assert (await asyncio.wait_for(ended(client, job), 60))["state"] == "cancelled"
    shelf = (await client.get("/steers", params={"model": "tiny-llama"})).json()["steers"]
    assert [each for each in shelf if not each["card"]["ours"]] == []
    assert not list((tmp_path / "tables").glob(".*")), "no draft is left"


OFF_THE_LOOP = [
    (Examples, "keep"), (Examples, "get"), (steers, "in_pieces"), (making, "split"), (making, "states_key"),
    (StatesTables, "find"), (StatesTables, "draft"), (Draft, "add"), (Draft, "finish"), (Training, "batch"),
    (Training, "descend"), (Training, "held_out"), (making, "random_steer"), (judging, "as_evidence"),
    (Steers, "keep"), (direction, "split"), (direction, "contrast"),
]  # fmt: skip


async def test_whatever_takes_longer_with_more_texts_holds_nobody_s_answer(client, monkeypatch):
    """Hashes, splits, files and bootstraps run on threads, and none on the event loop."""
    ran: dict[str, set[bool]] = {}
    loop = threading.get_ident()

    def watch(owner, name):
        work = getattr(owner, name)

        def watched(*args, **named):
            ran.setdefault(f"{owner.__name__}.{name}", set()).add(threading.get_ident() == loop)
            return work(*args, **named)

        monkeypatch.setattr(owner, name, watched)

    for owner, name in OFF_THE_LOOP:
        watch(owner, name)
    examples = await examples_of(client)
    made = await ended(client, (await started(client, examples=examples, steps=10)).json())
    asked = {"model": "tiny-llama", "name": "toy", "plus": "fox", "minus": "queen", "layer": 1, "examples": examples}
    pointed = await ended(client, (await client.post("/steers/direction", json=asked)).json())
    assert (made["state"], pointed["state"]) == ("done", "done")
    assert ran == {f"{owner.__name__}.{name}": {False} for owner, name in OFF_THE_LOOP}


async def test_a_question_is_answered_between_two_blocks_of_a_making(client, monkeypatch):
    monkeypatch.setattr("backend.models.training.LOGITS_ON_CPU", 2**13)
    job = (await started(client, examples=await examples_of(client), steps=200, patience=100)).json()
    while (job := (await client.get(f"/jobs/{job['id']}")).json())["what"] != "training":
        await asyncio.sleep(0.01)
    for place in range(5):
        view = {"model": "tiny-llama", "text": f"The cat sat {place}."}
        assert (await client.post("/tokens", json={"view": view})).status_code == 200
    assert (await client.get(f"/jobs/{job['id']}")).json()["state"] == "running"
    await client.delete(f"/jobs/{job['id']}")
    await ended(client, job)


async def test_a_making_that_was_killed_begins_again_and_finds_its_states(settings, shelf, client, monkeypatch):
    asked = {
        "model": "tiny-llama", "name": "toy", "plus": "fox", "minus": "queen", "rank": 4, "steps": 40, "rate": 0.1,
        "examples": await examples_of(client),
    }  # fmt: skip
    whole = await ended(client, (await client.post("/steers", json=asked)).json())
    dead = open_store(None, settings.cache_dir)
    left = Job(id="a" * 32, kind="steers.make", state="running", what="training", created=1, updated=2)
    dead.jobs.write(StoredJob(left, {"ask": MakeAsk(**asked).model_dump(mode="json")}))
    assert dead.servers._lock is not None
    dead.servers._lock.release()
    monkeypatch.setattr("backend.studies.making.states_of", lambda *_, **__: pytest.fail("computed again"))
    after = create_app(settings, shelf, open_store(None, settings.cache_dir))
    async with after.router.lifespan_context(after):
        transport = httpx.ASGITransport(after)
        async with httpx.AsyncClient(transport=transport, base_url=str(client.base_url)) as other:
            done = await ended(other, (await other.get(f"/jobs/{left.id}")).json())
    dead.engine.dispose()
    assert done["state"] == "done", done["problem"]
    assert done["result"]["card"]["id"] == whole["result"]["card"]["id"]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"examples": "0" * 64}, "unknown-set"),
        ({"rank": 33}, "invalid"),
        ({"owner": "a\0b"}, "invalid"),
        ({"model": "nobody's"}, "unknown-model"),
    ],
)
async def test_what_cannot_be_made_is_refused_at_once(client, changes, kind):
    answer = await started(client, **{"examples": await examples_of(client)} | changes)
    assert answer.json()["type"] == kind
    assert (await client.get("/jobs")).json() == [] or all(
        job["kind"] != "steers.make" for job in (await client.get("/jobs")).json()
    )


async def test_texts_of_one_token_are_left_out_and_long_ones_cut_and_both_are_said(client):
    examples = await examples_of(client, plus=[*FOX, "A"], minus=[*CAT, "The cat sat on the mat. " * 30])
    answer = await started(client, model="tiny-gpt2", examples=examples, steps=10, tokens=64)
    made = (await ended(client, answer.json()))["result"]
    assert made["cut"] == 1
    assert "Left out, for they have one token and nothing of them is predicted: 1 texts." in made["notices"]
    assert "Cut behind 64 tokens: 1 texts." in made["notices"]


async def test_without_a_text_to_stop_by_a_making_is_refused_in_words(client, monkeypatch):
    def short(rows, share):
        parts = split(rows, share)
        return Split(parts.train, (Example(text="A", label=1), Example(text="B", label=-1)), parts.judge)

    monkeypatch.setattr("backend.studies.making.split", short)
    answer = await started(client, model="tiny-gpt2", examples=await examples_of(client))
    job = await ended(client, answer.json())
    assert (job["state"], job["problem"]["what"]) == ("failed", "There is nothing to learn from")


async def test_equal_numbers_of_another_making_keep_their_card_and_it_is_said(client):
    examples = await examples_of(client)
    first = await ended(client, (await started(client, examples=examples, name="ann", owner="Ann", steps=10)).json())
    second = await ended(client, (await started(client, examples=examples, name="bea", steps=10)).json())
    assert second["result"]["card"] == first["result"]["card"]
    assert "These numbers are on the shelf already as ann, of Ann: that card stands." in second["result"]["notices"]
    assert not any("already" in notice for notice in first["result"]["notices"])


async def test_a_range_that_cannot_be_measured_is_said_and_the_steer_is_kept(client, monkeypatch):
    async def overflows(*_):
        raise errors.CannotShow(
            "The model breaks down on this text", "its states are no longer numbers", "Choose less."
        )

    monkeypatch.setattr("backend.studies.making.range_of", overflows)
    made = (await ended(client, (await started(client, examples=await examples_of(client), steps=10)).json()))["result"]
    assert made["card"]["range"] is None
    assert made["card"]["evidence"] is not None
    assert any(notice.startswith("The range could not be measured: the model breaks") for notice in made["notices"])


async def test_what_is_padded_as_published_is_named_and_needs_an_end_of_text(client, shelf):
    examples = await examples_of(client)
    published = await ended(
        client, (await started(client, examples=examples, steps=10, padding="as published")).json()
    )  # fmt: skip
    masked = await ended(client, (await started(client, examples=examples, steps=10)).json())
    card = published["result"]["card"]
    assert "padding counted as published" in card["recipe"]
    assert "padding masked" in masked["result"]["card"]["recipe"]
    assert card["id"] != masked["result"]["card"]["id"]
    assert published["result"]["tokens"] > masked["result"]["tokens"]
    tokenizer = shelf.tiny["tiny-llama"].tokenizer
    end, tokenizer.eos_token = tokenizer.eos_token, None
    refused = await started(client, examples=examples, padding="as published")
    tokenizer.eos_token = end
    assert (refused.status_code, refused.json()["type"]) == (422, "cannot-show")
