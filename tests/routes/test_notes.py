"""Notes over the API: written, found, taken away, carried to another server."""

import json

import pytest

from backend.app import create_app
from backend.settings import Settings
from lmscope.client import AsyncClient
from tests.routes.conftest import TinyShelf

DIGEST = "0" * 64
PART = {"digest": DIGEST, "part": "value", "layer": 1, "index": 5}


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


async def test_a_note_is_written_found_and_taken_away(client):
    written = (await client.put("/notes", json=PART | {"name": "Cities", "text": "of the world"})).json()
    assert written["name"] == "Cities"
    assert written["updated"] > 1e9
    for query in ({}, {"digest": DIGEST}, {"search": "WORLD l1u5"}):
        assert (await client.get("/notes", params=query)).json() == {"notes": [written]}
    assert (await client.get("/notes", params={"search": "town"})).json() == {"notes": []}
    assert (await client.put("/notes", json=PART)).json() is None
    assert (await client.get("/notes")).json() == {"notes": []}


async def test_a_note_knows_the_name_of_its_model(client, shelf, monkeypatch):
    cards = shelf.cards()
    named = cards.models[0].model_copy(update={"digest": DIGEST})
    monkeypatch.setattr(shelf, "cards", lambda: cards.model_copy(update={"models": (named,)}))
    assert (await client.put("/notes", json=PART | {"name": "a"})).json()["model"] == named.name
    assert (await client.put("/notes", json=PART | {"digest": "1" * 64, "name": "a"})).json()["model"] == ""


async def test_notes_go_to_another_server_as_json(client, tmp_path):
    await client.put("/notes", json=PART | {"name": "Cities"})
    exported = (await client.get("/notes/export")).json()
    other = create_app(Settings(models=("tiny-llama",), cache_dir=tmp_path / "other"), TinyShelf())
    async with other.router.lifespan_context(other), AsyncClient(app=other) as there:
        from backend.schema import Notes

        taken = await there.import_notes(Notes.model_validate(exported))
        assert (taken.written, taken.older) == (1, 0)
        assert (await there.export_notes()).model_dump(mode="json") == exported
        taken = await there.import_notes(Notes.model_validate(exported))
        assert (taken.written, taken.older) == (0, 1)


@pytest.mark.parametrize(
    "wrong",
    [{"digest": "x"}, {"part": "layer"}, {"layer": -1}, {"name": "n" * 121}, {"text": "t" * 10_001}, {"name": "a\0b"},
     {"more": 1}],
)  # fmt: skip
async def test_what_is_no_note_is_refused_in_words(client, wrong):
    answer = await client.put("/notes", json=PART | {"name": "a"} | wrong)
    assert answer.status_code == 422
    assert next(iter(wrong)) in answer.json()["why"]
    assert (await client.get("/notes")).json() == {"notes": []}


async def test_as_many_notes_as_a_file_may_hold_are_taken(client, settings):
    notes = [PART | {"index": index, "text": "t" * 10_000, "updated": 1.0} for index in range(300)]
    assert len(json.dumps(notes)) > settings.body_bytes
    assert (await client.post("/notes/import", json={"notes": notes})).json() == {"written": 300, "older": 0}


@pytest.mark.parametrize(
    ("query", "words"),
    [({"digest": "x"}, "digest: it should be an id of 64 hex digits, as the server gives it"),
     ({"search": "a\0"}, "search: it may not hold the character U+0000")],
)  # fmt: skip
async def test_a_search_that_cannot_be_is_refused_without_patterns(client, query, words):
    assert (await client.get("/notes", params=query)).json()["why"] == words


async def test_an_import_is_taken_whole_or_not_at_all(client):
    good = PART | {"name": "a", "updated": 1.0}
    for bad in (good | {"updated": -1.0}, good | {"part": "x"}):
        answer = await client.post("/notes/import", json={"notes": [good, bad]})
        assert answer.status_code == 422
    assert (await client.get("/notes")).json() == {"notes": []}
