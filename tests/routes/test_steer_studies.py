"""Studies of sliders are jobs whose numbers are those of the other instruments, one strength at a time."""

import asyncio
import math
import sys
from hashlib import sha256
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from backend.app import create_app
from backend.desk.running import Reporting
from backend.measure.array import from_array, to_array
from backend.models.continuations import neutral_prompts
from backend.models.examples import split
from backend.models.vectors import Vectors
from backend.schema import Example, Job, Made, Sweep, SweepAsk, TokensAnswer
from backend.settings import Settings
from backend.store import StoredJob, open_store
from backend.studies import sweep as study
from tests import tiny
from tests.routes.test_studies import ended

VIEW = {"model": "tiny-llama", "text": "any"}
HEAD = {"kind": "head.scale", "head": 0, "by": 0}
PROMPTS = [f"The {word} sat on" for word in ("cat", "dog", "queen", "fox", "mat", "mean", "head", "store")]
EXAMPLES = {
    "name": "moods", "plus": [f"The cat sat on mat {n}." for n in range(20)],
    "minus": [f"Off with head {n}! said the Queen" for n in range(20)],
}  # fmt: skip


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


@pytest.fixture(autouse=True)
def stored(shelf, tmp_path, monkeypatch) -> None:
    """The tiny models know the server's stored vectors, as the real shelf's do."""
    for loaded in shelf.tiny.values():
        monkeypatch.setattr(loaded, "vectors", Vectors(tmp_path))


@pytest.fixture
async def sent(client: httpx.AsyncClient) -> dict[str, str]:
    """Ids of a steer, a direction and examples."""
    return await send(client)


async def send(client: httpx.AsyncClient) -> dict[str, str]:
    dice = torch.Generator().manual_seed(4)
    left, right, along = (torch.randn(shape, generator=dice) for shape in ((32, 2), (2, 32), (32,)))
    steer = {"kind": "steer", "name": "made", "left": to_array(0.1 * left).model_dump(),
             "right": to_array(0.3 * right).model_dump()}  # fmt: skip
    direction = {"kind": "direction", "name": "along", "vector": to_array(along).model_dump()}
    ids = {name: (await client.post("/vectors", json=ask)).json()["id"]
           for name, ask in (("steer", steer), ("direction", direction))}  # fmt: skip
    return ids | {"examples": (await client.post("/steers/examples", json=EXAMPLES)).json()["id"]}


def asked(sent: dict[str, str], **more: Any) -> dict[str, Any]:
    ask = {"view": VIEW, "steer": sent["steer"], "strengths": [-1, 0, 2], "examples": sent["examples"],
           "prompts": PROMPTS, "tokens": 4, "texts": 8}  # fmt: skip
    return ask | more


async def swept(client: httpx.AsyncClient, ask: dict[str, Any]) -> Sweep:
    answer = await client.post("/steers/sweep", json=ask)
    assert answer.status_code == 202, answer.text
    job = await ended(client, answer.json()["id"])
    assert job["state"] == "done", job["problem"]
    return Sweep.model_validate(job["result"])


async def surprisal(client: httpx.AsyncClient, text: str, *edits: dict[str, Any]) -> np.ndarray:
    view = {"model": "tiny-llama", "text": text, "edits": list(edits)}
    told = TokensAnswer.model_validate((await client.post("/tokens", json={"view": view})).json())
    assert told.scores is not None
    return from_array(told.scores.surprisal).numpy()[1:].astype("f8")


async def test_a_sweep_says_of_every_strength_what_tokens_and_write_say(client, sent):
    drawn = {"temperature": 1.0, "seed": 40}
    answer = await swept(client, asked(sent, view=VIEW | {"sampling": drawn}))
    assert [point.by for point in answer.points] == [point.by for point in answer.control] == [-1, 0, 2]
    assert "8 texts of the + pole and 8 of the − pole of moods" in answer.about
    edit = {"kind": "steer", "steer": sent["steer"], "by": 2}
    moved = {text: (await surprisal(client, text, edit)).mean() - (await surprisal(client, text)).mean()
             for text in EXAMPLES["plus"]}  # fmt: skip
    assert answer.points[2].plus is not None
    assert answer.points[2].plus.n == 8
    chosen = sorted(moved, key=lambda text: sha256(f"judge {text}".encode()).hexdigest())[:8]
    assert answer.points[2].plus.mean == pytest.approx(sum(moved[text] for text in chosen) / 8, abs=1e-4)
    for place, prompt in enumerate(PROMPTS):
        view = {"model": "tiny-llama", "text": prompt, "edits": [edit],
                "sampling": drawn | {"tokens": 4, "seed": 40 + place}}  # fmt: skip
        written = (await client.post("/write", json={"view": view})).json()
        assert answer.points[2].samples[place] == written["edited"]["text"]


async def test_neutral_texts_and_kl_are_those_of_the_whole_set_and_zero_is_the_base(client, sent):
    answer = await swept(client, asked(sent))
    base, _, zero = answer.base, *answer.points[:2]
    assert base is not None
    assert zero == base
    assert zero.plus is not None
    assert (zero.plus.low, zero.plus.mean, zero.plus.high) == (0, 0, 0)
    assert (zero.kl.mean, zero.kl.high) == (0, 0)
    assert zero.perplexity.n == 40
    assert answer.control[1] == base
    assert answer.control[2].samples != answer.points[2].samples
    assert answer.points[2].kl.low > 0
    assert all(point.distinct and 0 < point.distinct[0] <= 1 for point in answer.points)
    assert math.log(zero.perplexity.mean) == pytest.approx(6, abs=1.5), "near that of a random model of 420 tokens"


async def test_two_steers_are_measured_over_the_grid_and_a_direction_may_be_one(client, sent):
    ask = asked(sent, other=sent["direction"], other_layer=1, other_strengths=[0, 1], strengths=[0, 1], control=False)
    answer = await swept(client, ask)
    assert [(point.by, point.other) for point in answer.points] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert answer.control == ()
    assert answer.points[0] == answer.base.model_copy(update={"other": 0})
    edits = [{"kind": "steer", "steer": sent["steer"], "by": 1},
             {"kind": "residual.add", "layer": 1, "vector": sent["direction"], "by": 1}]  # fmt: skip
    view = {"model": "tiny-llama", "text": PROMPTS[0], "edits": edits, "sampling": {"tokens": 4}}
    assert (await client.post("/write", json={"view": view})).json()["edited"]["text"] == answer.points[3].samples[0]
    single = await swept(client, asked(sent, strengths=[0, 1], control=False))
    same, alone = answer.points[2], single.points[1]
    assert (same.samples, same.distinct) == (alone.samples, alone.distinct)
    assert (same.plus.mean, same.kl.mean, same.perplexity.mean) == pytest.approx(
        (alone.plus.mean, alone.kl.mean, alone.perplexity.mean), rel=1e-4
    )


async def test_points_appear_before_the_end_and_others_ask_meanwhile(client, sent, monkeypatch):
    monkeypatch.setattr(study, "PUBLISH_S", 0)
    publish, seen = Reporting.publish, list[tuple[int, int]]()

    def published(self: Reporting, partial: dict[str, Any]) -> None:
        publish(self, partial)
        point = Sweep.model_validate(partial).points[2]
        seen.append((point.perplexity.n, len(point.samples)))

    monkeypatch.setattr(Reporting, "publish", published)
    job = (await client.post("/steers/sweep", json=asked(sent))).json()
    shown = asked_meanwhile = 0
    while (now := (await client.get(f"/jobs/{job['id']}")).json())["state"] in ("queued", "running"):
        shown += now["partial"] is not None
        assert (await client.post("/tokens", json={"view": VIEW | {"text": "A dog."}})).status_code == 200
        asked_meanwhile += 1
    assert now["state"] == "done"
    assert shown
    assert seen == sorted(seen), "more texts, then more continuations"
    assert any(0 < texts < 40 for texts, _ in seen)
    assert any(0 < samples < 8 for _, samples in seen)
    assert asked_meanwhile > 5


async def test_a_sweep_stops_when_asked_and_goes_on_after_a_kill(client, sent, settings, shelf, tmp_path):
    job = (await client.post("/steers/sweep", json=asked(sent, strengths=[*range(-15, 16)]))).json()
    while (await client.get(f"/jobs/{job['id']}")).json()["state"] == "queued":
        await asyncio.sleep(0.01)
    await client.delete(f"/jobs/{job['id']}")
    assert (await asyncio.wait_for(ended(client, job["id"]), 60))["state"] == "cancelled"
    first = await swept(client, asked(sent))
    dead = open_store(None, tmp_path / "dead")
    ask = SweepAsk.model_validate(asked(sent))
    left = Job(id="a" * 32, kind="steers.sweep", state="running", what="measuring", created=1, updated=2)
    dead.jobs.write(StoredJob(left, {"ask": ask.model_dump(mode="json")}))
    assert dead.servers._lock is not None
    dead.servers._lock.release()
    app = create_app(settings, shelf, open_store(None, tmp_path / "dead"))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8050/api/v1") as other:
            again = await ended(other, "a" * 32)
    assert Sweep.model_validate(again["result"]) == first, "every number follows from what was asked"
    dead.engine.dispose()


async def test_a_perplexity_beyond_every_number_is_told_as_the_largest_and_said(client, sent):
    answer = await swept(client, asked(sent, strengths=[-1e6, 0, 1e6], tokens=1, control=False))
    assert answer.points[0].perplexity.high == sys.float_info.max
    assert any("larger than any number" in notice for notice in answer.notices)
    assert not any("larger than any" in notice for notice in (await swept(client, asked(sent, tokens=1))).notices)


async def test_texts_of_one_token_are_left_out_of_a_direction_and_of_a_sweep_and_counted(client, sent):
    examples = EXAMPLES | {"plus": [*EXAMPLES["plus"], "A"], "minus": [*EXAMPLES["minus"], "B"]}
    id = (await client.post("/steers/examples", json=examples)).json()["id"]
    ask = {"model": "tiny-gpt2", "name": "short", "plus": "cats", "minus": "queens", "layer": 1, "examples": id}
    job = await ended(client, (await client.post("/steers/direction", json=ask)).json()["id"])
    assert job["state"] == "done", job["problem"]
    said = "Left out, for they have one token and nothing of them is predicted: 2 texts."
    assert job["result"]["notices"] == [said]
    view = VIEW | {"model": "tiny-gpt2"}
    answer = await swept(
        client, asked(sent, view=view, examples=id, texts=30, tokens=1, strengths=[0, 1], control=False)
    )
    assert answer.notices == (said,)
    assert (answer.points[1].plus.n, answer.points[1].minus.n) == (len(EXAMPLES["plus"]), len(EXAMPLES["minus"]))


async def test_without_labelled_texts_the_poles_are_not_measured_and_it_says_so(client, sent):
    answer = await swept(client, asked(sent, examples=None, prompts=[], tokens=1, strengths=[0, 1], control=False))
    assert answer.points[1].plus is None
    assert "name examples" in answer.notices[0]
    assert answer.prompts == neutral_prompts()[:16]


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"steer": "0" * 64}, 404, "does not hold"),
        ({"other_strengths": [1]}, 422, "second steer is missing"),
        ({"other_layer": 1}, 422, "second steer is missing"),
        ({"other": "c" * 64}, 422, "strengths of the second steer are missing"),
        ({"steer": "c" * 64}, 404, "does not hold the steer or direction cccccccccccc"),
        ({"layer": 1}, 422, "layer would be ignored"),
        ({"prompts": ["one"]}, 422, "too few prompts"),
        ({"examples": "0" * 64}, 404, "does not hold"),
        ({"strengths": [1]}, 422, "strengths"),
        ({"seed": 2**53}, 422, "seed"),
        ({"view": VIEW | {"sampling": {"seed": 2**53 - 6}}}, 422, "seed of the view is too large"),
        (
            {"view": VIEW | {"edits": [{"kind": "head.scale", "layer": 0, "head": 0, "by": 0, "at": [1]}]}},
            422,
            "listed",
        ),
        ({"view": VIEW | {"edits": [{"kind": "head.scale", "layer": 9, "head": 0, "by": 0}]}}, 422, "no layer 9"),
    ],
)
async def test_what_cannot_be_swept_is_refused_at_once(client, sent, more, status, words):
    answer = await client.post("/steers/sweep", json=asked(sent, **more))
    assert answer.status_code == status, answer.text
    assert words in answer.json()["what"] + answer.json()["why"]


async def test_a_direction_without_a_card_needs_its_layer(client, sent):
    answer = await client.post("/steers/sweep", json=asked(sent, steer=sent["direction"]))
    assert "layer of the direction is missing" in answer.json()["what"]


def test_the_neutral_prompts_are_fifty_short_and_free():
    prompts = neutral_prompts()
    assert len(set(prompts)) == 50
    assert all(2 <= len(prompt.split()) <= 10 and prompt == prompt.strip() for prompt in prompts)


def states(text: str, layer: int, token: str) -> torch.Tensor:
    """Of transformers' own model: what block `layer` gives for the text's last token, or on average."""
    tokenizer = tiny.tokenizer_of("llama")
    with torch.no_grad():
        found = tiny.model_of("llama", len(tokenizer))(
            torch.tensor([tokenizer(text).input_ids]), output_hidden_states=True
        )
    held_TD = found.hidden_states[layer + 1][0]
    return held_TD[-1] if token == "last" else held_TD[1:].mean(0)


@pytest.mark.parametrize(("method", "token"), [("means", "last"), ("means", "mean"), ("pca", "mean")])
async def test_a_direction_is_the_contrast_of_the_plain_model_s_states(client, sent, shelf, method, token):
    ask = {"model": "tiny-llama", "name": f"{method}-{token}", "plus": "cats", "minus": "queens", "layer": 1,
           "examples": sent["examples"], "method": method, "token": token}  # fmt: skip
    job = (await client.post("/steers/direction", json=ask)).json()
    card = Made.model_validate((await ended(client, job["id"]))["result"]).card
    rows = [Example(text=text, label=1) for text in EXAMPLES["plus"]]
    rows += [Example(text=text, label=-1) for text in EXAMPLES["minus"]]
    parts = split(rows, 0.2, paired=method == "pca")
    judging = {row.text for row in parts.judge}
    poles = [[text for text in EXAMPLES[pole] if text not in judging] for pole in ("plus", "minus")]
    if method == "pca":  # pairs as they were sent
        assert [EXAMPLES["plus"].index(text) for text in poles[0]] == [
            EXAMPLES["minus"].index(text) for text in poles[1]
        ]
    plus, minus = (torch.stack([states(text, 1, token) for text in texts]) for texts in poles)
    expected = plus.mean(0) - minus.mean(0)
    if method == "pca":
        first = torch.linalg.svd(plus - minus, full_matrices=False).Vh[0]
        expected = (expected @ first) * first
    vector = shelf.tiny["tiny-llama"].vectors.direction(card.id).vector_D
    torch.testing.assert_close(vector, expected, rtol=1e-3, atol=1e-4)
    assert (card.kind, card.layer, card.width, card.rank) == ("direction", 1, 32, None)
    edits = [{"kind": "residual.add", "layer": 1, "vector": card.id, "by": by} for by in (1, -1)]
    judged = [row.text for row in parts.judge if row.label > 0]
    moved = [(await surprisal(client, text, edits[0])).mean() - (await surprisal(client, text, edits[1])).mean()
             for text in judged]  # fmt: skip
    assert card.evidence.plus.n == len(judged) == 2
    assert card.evidence.plus.mean == pytest.approx(sum(moved) / 2, abs=1e-4)
    assert card.evidence.random_plus.mean != card.evidence.plus.mean
    assert card.range.low < 0 < card.range.high
    shelf_of = (await client.get("/steers", params={"model": "tiny-llama"})).json()["steers"]
    assert any(each["fits"] and each["card"]["id"] == card.id for each in shelf_of)
    answer = await swept(client, asked(sent, steer=card.id, strengths=[0, 1], control=True, examples=None))
    assert answer.points[1].plus.n == 2, "its card names its layer and its held-out texts"
    written = {"model": "tiny-llama", "text": "The cat", "edits": [edits[0] | {"at": "generated"}],
               "sampling": {"tokens": 6}}  # fmt: skip
    (acted,) = (await client.post("/write", json={"view": written})).json()["acted"]
    assert (acted["prompt"], acted["written"], acted["of_written"]) == (0, 5, 5)


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [({"layer": 3}, 422, "no layer 3"), ({"examples": "0" * 64}, 404, "does not hold"),
     ({"method": "lda"}, 422, "method")],
)  # fmt: skip
async def test_a_direction_that_cannot_be_made_is_refused_at_once(client, sent, more, status, words):
    ask = {"model": "tiny-llama", "name": "n", "plus": "+", "minus": "-", "layer": 1, "examples": sent["examples"]}
    answer = await client.post("/steers/direction", json=ask | more)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["what"] + answer.json()["why"]


async def test_a_principal_direction_of_examples_that_lost_texts_is_refused_at_once(client):
    """Equal counts, shifted partners: see the examples' own test."""
    plus, minus = ([*EXAMPLES[pole], f"one more {pole}"] for pole in ("plus", "minus"))
    plus[5], minus[12] = plus[4], minus[11]
    sent = {"name": "gappy", "plus": plus, "minus": minus}
    kept = (await client.post("/steers/examples", json=sent)).json()
    ask = {"model": "tiny-llama", "name": "n", "plus": "+", "minus": "-", "layer": 1, "examples": kept["id"]}
    answer = await client.post("/steers/direction", json=ask | {"method": "pca"})
    assert answer.status_code == 422
    assert "no pairs any more" in answer.json()["what"]
    assert (await client.post("/steers/direction", json=ask)).status_code == 202
