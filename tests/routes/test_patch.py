"""Patches and means become edits over the API, and a view with them shows what they say."""

import asyncio
from base64 import b64decode

import numpy as np
import pytest
import torch

from backend.models.vectors import Vectors
from backend.schema import PatchMap
from backend.settings import Settings

VIEW = {"model": "tiny-llama", "text": "The cat sat on the mat."}
SOURCE = {"model": "tiny-llama", "text": "The dog sat on the mat."}
TEXTS = ["The dog barked at the cat.", "Off with her head!"]


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


@pytest.fixture
def shelf(shelf, tmp_path, monkeypatch):
    monkeypatch.setattr(shelf.tiny["tiny-llama"], "vectors", Vectors(tmp_path))
    return shelf


async def lens(client, view: dict) -> np.ndarray:
    """Probabilities of the likeliest words [R, T, top] of a view's own last row."""
    answer = await client.post("/trace", json={"view": view, "top": 3})
    assert answer.status_code == 200, answer.text
    grid = answer.json()["edited"][0]
    shape = [int(part) for part in grid["probability"]["shape"].split(",")]
    return np.frombuffer(b64decode(grid["probability"]["bdata"]), "<f4").reshape(shape)[-1, -1]


async def test_a_patched_view_says_what_the_source_says(client):
    place = {"tap": "residual", "layer": 2, "token": 7}
    answer = await client.post("/trace/patch", json={"view": VIEW, "source": SOURCE, "places": [place]})
    assert answer.status_code == 200, answer.text
    edits = answer.json()["edits"]
    assert [edit["kind"] for edit in edits] == ["residual.set"]
    patched, theirs, plain = [await lens(client, view) for view in (VIEW | {"edits": edits}, SOURCE, VIEW)]
    np.testing.assert_allclose(patched, theirs, atol=1e-6)
    assert np.abs(plain - theirs).max() > 1e-4
    assert edits[0]["to"] in [card["id"] for card in (await client.get("/vectors")).json()["vectors"]]


async def test_texts_of_different_length_are_a_problem_that_helps(client):
    source = SOURCE | {"text": "The quick brown fox sat on the mat."}
    ask = {"view": VIEW, "source": source, "places": [{"tap": "residual", "layer": 2, "token": 7}]}
    for path in ("/trace/patch", "/trace/patch/map"):
        answer = await client.post(path, json=ask if path.endswith("patch") else {"view": VIEW, "source": source})
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (422, "cannot-show")
        assert (problem["needed"], problem["available"]) == (8, 10)
        assert "quick" in problem["why"]


async def test_too_many_edits_of_the_source_are_refused(client):
    edit = {"kind": "head.scale", "layer": 0, "head": 0, "by": 0}
    body = {
        "view": VIEW,
        "source": SOURCE | {"edits": [edit] * 65},
        "places": [{"tap": "residual", "layer": 0, "token": 0}],
    }
    answer = await client.post("/trace/patch", json=body)
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")


async def test_a_map_is_a_job_that_shows_every_cell(client):
    started = await client.post("/trace/patch/map", json={"view": VIEW, "source": SOURCE})
    assert started.status_code == 202, started.text
    while (job := (await client.get(f"/jobs/{started.json()['id']}")).json())["state"] in ("queued", "running"):
        await asyncio.sleep(0.02)
    assert (job["kind"], job["state"], job["done"], job["unit"]) == ("trace.patch.map", "done", 18, "cells")
    answer = PatchMap.model_validate(job["result"])
    logits = np.frombuffer(answer.logits.data, "<f4").reshape(answer.logits.dims)
    assert np.isfinite(logits).all()
    assert logits[-1, -1] == pytest.approx(answer.source, abs=1e-5)


@pytest.mark.parametrize("tap", ["heads", "ffn", "ffn_out", "residual"])
async def test_a_mean_is_an_edit_that_sets_the_part_to_it(client, shelf, tap):
    kept = (await client.post("/sets", json={"name": "small", "texts": TEXTS})).json()["id"]
    part = {"heads": {"head": 2}, "ffn": {"unit": 5}}.get(tap, {})
    answer = await client.post("/trace/mean", json={"view": VIEW, "tap": tap, "layer": 1, "set": kept} | part)
    assert answer.status_code == 200, answer.text
    loaded = shelf.tiny["tiny-llama"]
    block = loaded.model.model.layers[1]
    module = {"heads": block.self_attn.o_proj, "residual": block}.get(tap, block.mlp.down_proj)
    seen: list[torch.Tensor] = []
    taken = tap in ("heads", "ffn")
    handle = module.register_forward_hook(lambda _, args, out: seen.append((args[0] if taken else out)[0, 1:]))
    with torch.inference_mode():
        for text in TEXTS:
            loaded.model(torch.tensor([loaded.tokenizer(text).input_ids]), use_cache=False)
    handle.remove()
    mean = torch.cat(seen).mean(0)
    assert (answer.json()["tokens"], answer.json()["set"]) == (len(torch.cat(seen)), kept)
    edit = answer.json()["edit"]
    if tap == "ffn":
        assert edit["to"] == pytest.approx(float(mean[5]), abs=1e-6)
        return
    expected = mean.unflatten(0, (4, -1))[2] if tap == "heads" else mean
    torch.testing.assert_close(loaded.vectors.direction(edit["to"]).vector_D, expected, rtol=1e-5, atol=1e-6)
    (card,) = [card for card in loaded.vectors.cards() if card.id == edit["to"]]
    assert "small" in card.recipe
    view = VIEW | {"edits": [edit]}
    assert (await client.post("/tokens", json={"view": view})).status_code == 200


@pytest.mark.parametrize(
    ("ask", "status", "kind"),
    [
        ({"tap": "heads", "layer": 0}, 422, "invalid"),
        ({"tap": "residual", "layer": 0, "head": 1}, 422, "invalid"),
        ({"tap": "ffn", "layer": 0, "unit": 48}, 422, "cannot-show"),
        ({"tap": "ffn_out", "layer": 3}, 422, "cannot-show"),
        ({"tap": "ffn_out", "layer": 0, "set": "0" * 64}, 404, "unknown-set"),
        ({"tap": "ffn_out", "layer": 0}, 422, "too-long"),
    ],
)
async def test_what_has_no_mean_is_refused_in_words(client, ask, status, kind):
    """The last: the product's own set is too long for a context of 128 tokens of this tokenizer."""
    answer = await client.post("/trace/mean", json={"view": VIEW} | ask)
    assert (answer.status_code, answer.json()["type"]) == (status, kind), answer.text
    assert answer.json()["instead"]
