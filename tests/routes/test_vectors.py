"""Directions and steers are stored over the API and named by edits, for every page at once."""

from base64 import b64decode

import numpy as np
import pytest

from backend.models.vectors import Vectors
from backend.settings import Settings
from lmscope.storing import direction, steer


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path, upload_bytes=16_384)


@pytest.fixture
def shelf(shelf, tmp_path, monkeypatch):
    monkeypatch.setattr(shelf.tiny["tiny-llama"], "vectors", Vectors(tmp_path))
    return shelf


async def kept(client, ask) -> dict:
    answer = await client.post("/vectors", json=ask.model_dump(mode="json"))
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_stored_steer_changes_the_probabilities_and_says_that_no_map_changes(client):
    dice = np.random.default_rng(0)
    card = await kept(client, steer("mine", dice.normal(size=(32, 2)), dice.normal(size=(2, 32))))
    assert card in (await client.get("/vectors")).json()["vectors"]
    edit = {"kind": "steer", "steer": card["id"], "by": 3}
    view = {"model": "tiny-llama", "text": "the quick brown fox", "edits": [edit], "compare": True}
    tokens = (await client.post("/tokens", json={"view": view})).json()
    assert tokens["scores"]["surprisal"] != tokens["unedited"]["surprisal"]
    overview = (await client.post("/attention", json={"view": view})).json()
    assert overview["edited"] == overview["unedited"]
    said = [notice for notice in overview["notices"] if "no map changes" in notice]
    assert len(said) == 1
    assert "Every edit that is on is a steer" in said[0]
    off = {"kind": "head.scale", "layer": 0, "head": 1, "by": 0}
    mixed = (await client.post("/attention", json={"view": view | {"edits": [edit, off]}})).json()
    assert mixed["edited"] != mixed["unedited"]
    assert not any("Every edit" in notice for notice in mixed["notices"])


async def test_a_stored_direction_changes_the_maps_of_later_layers_only(client):
    card = await kept(client, direction("up", np.linspace(-2, 2, 32)))
    edit = {"kind": "residual.add", "layer": 1, "vector": card["id"], "by": 4}
    view = {"model": "tiny-llama", "text": "the quick brown fox", "edits": [edit], "compare": True}
    answer = (await client.post("/heads", json={"view": view})).json()
    entropy = answer["difference"][0]
    change = np.frombuffer(b64decode(entropy["value"]["bdata"]), "<f4").reshape(3, 4)
    assert not change[:2].any()
    assert change[2].any()


async def test_an_edit_with_a_vector_that_is_not_here_is_refused_in_words(client):
    edit = {"kind": "steer", "steer": "f" * 64, "by": 1}
    answer = await client.post("/tokens", json={"view": {"model": "tiny-llama", "text": "a b", "edits": [edit]}})
    assert (answer.status_code, answer.json()["type"]) == (404, "unknown-vector")


async def test_a_vector_for_another_width_is_refused_with_both_numbers(client):
    card = await kept(client, direction("long", np.ones(33)))
    edit = {"kind": "residual.add", "layer": 1, "vector": card["id"], "by": 4}
    answer = await client.post("/heads", json={"view": {"model": "tiny-llama", "text": "a b", "edits": [edit]}})
    problem = answer.json()
    assert (answer.status_code, problem["needed"], problem["available"]) == (422, 33, 32)


@pytest.mark.parametrize(
    "change",
    [
        {"vector": None}, {"kind": "steer"}, {"name": "../up"}, {"name": ""},
        {"vector": {"dtype": "f4", "bdata": "AA", "shape": "1"}},
        {"vector": {"dtype": "f4", "bdata": "!!!!!!==", "shape": "1"}},
        {"vector": {"dtype": "f4", "bdata": "AADAfw==", "shape": "1"}},
    ],
)  # fmt: skip
async def test_what_is_no_vector_is_refused(client, change):
    body = direction("up", np.ones(4)).model_dump(mode="json") | change
    answer = await client.post("/vectors", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


async def test_an_upload_may_be_larger_than_a_question_but_not_without_end(client):
    assert (
        await client.post("/vectors", json=direction("big", np.ones(2500)).model_dump(mode="json"))
    ).status_code == 201
    answer = await client.post("/vectors", json=direction("big", np.ones(6000)).model_dump(mode="json"))
    assert answer.status_code == 413
    assert answer.json()["available"] == 16_384
