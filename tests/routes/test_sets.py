"""Prompt sets are stored and read over the API."""

import pytest

from backend.settings import Settings


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path, upload_bytes=16_384)


async def test_a_set_is_sent_listed_and_read(client):
    kept = await client.post("/sets", json={"name": "mine", "texts": ["One.", "Two."]})
    assert kept.status_code == 201, kept.text
    listed = (await client.get("/sets")).json()["sets"]
    assert [each["name"] for each in listed] == ["plain-english-prose", "mine"]
    assert listed[1] == kept.json()
    assert (await client.get(f"/sets/{kept.json()['id']}")).json()["texts"] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"name": "mine", "texts": []}, 422, "invalid"),
        ({"name": "mine", "texts": ["One.", ""]}, 422, "invalid"),
        ({"name": "No name", "texts": ["One."]}, 422, "invalid"),
        ({"name": "mine", "texts": ["a " * 10_000]}, 413, "too-large"),
    ],
)
async def test_what_is_no_set_is_refused_in_words(client, body, status, kind):
    answer = await client.post("/sets", json=body)
    assert (answer.status_code, answer.json()["type"]) == (status, kind)
    assert answer.json()["instead"]


@pytest.mark.parametrize("id", ["0" * 64, "*", "["])
async def test_a_set_that_is_not_here_is_said(client, id):
    answer = await client.get(f"/sets/{id}")
    assert (answer.status_code, answer.json()["type"]) == (404, "unknown-set")
