"""Values over the API and through the clients: shown, found, looked up, and refused in words."""

import pytest

from backend.models.words import words_of
from lmscope.client import AsyncClient

MODEL = {"model": "tiny-llama"}


@pytest.fixture
def word(shelf) -> str:
    loaded = shelf.tiny["tiny-llama"]
    words = (words_of(loaded.tokenizer, [id])[str(id)].strip() for id in range(20, 100))
    return next(word for word in words if word.isalpha() and word.isascii())


async def test_a_value_is_shown_and_found_again_by_its_first_word(client):
    for unit in range(48):  # some begin with half a character, which nobody can type
        value = (await client.post("/values", json=MODEL | {"layer": 1, "unit": unit, "top": 3, "similar": 2})).json()
        if "⟨" not in value["words"][str(value["ends"]["highest"][0])]:
            break
    assert value["unit"] == {"layer": 1, "unit": unit}
    assert len(value["ends"]["highest"]) == len(value["highest_z"]) == 3
    assert len(value["similar"]) == 2
    assert [key["name"] for key in value["keys"]] == ["gate", "up"]
    word = value["words"][str(value["ends"]["highest"][0])]
    found = (await client.post("/values/search", json=MODEL | {"words": [word], "limit": 200, "ranked": "z"})).json()
    hit = next(hit for hit in found["hits"] if hit["unit"] == value["unit"])
    assert (hit["rank"], hit["end"]) == (0, "promoted")
    assert hit["logit"] == pytest.approx(value["ends"]["highest_logit"][0], rel=1e-4)
    assert hit["z"] == pytest.approx(value["highest_z"][0], rel=1e-4)


async def test_a_lookup_answers(client, word):
    found = (await client.post("/values/lookup", json=MODEL | {"words": [word], "of": "keys", "limit": 4})).json()
    assert len(found["found"]) == 4
    assert found["found"][0]["score"] >= found["found"][-1]["score"]
    assert found["spellings"][0]["word"] == word


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/values", {"layer": 3, "unit": 0}, "3 layers"),
        ("/values", {"layer": 0, "unit": 48}, "48 units"),
        ("/values", {"layer": -1, "unit": 0}, "layer"),
        ("/values/search", {"words": ["supercalifragilistic"]}, "tokens: "),
        ("/values/search", {"words": []}, "words"),
        ("/values/search", {"words": ["a"], "ranked": "cosine"}, "ranked"),
        ("/values/lookup", {"words": ["supercalifragilistic"]}, "tokens: "),
    ],
)
async def test_what_cannot_be_asked_is_refused_in_words(client, path, body, said):
    answer = await client.post(path, json=MODEL | body)
    assert answer.status_code == 422
    assert said in answer.json()["why"]
    assert answer.json()["instead"]


async def test_the_clients_ask_the_same(app, client, word):
    async with AsyncClient(app=app) as asking:
        value = await asking.value("tiny-llama", "l1d5", top=3)
        assert value == await asking.value("tiny-llama", (1, 5), top=3)
        found = await asking.search("tiny-llama", word, end="both", limit=3)
        posted = await client.post("/values/search", json=MODEL | {"words": [word], "end": "both", "limit": 3})
        assert found.model_dump(mode="json") == posted.json()
        assert len((await asking.lookup("tiny-llama", [word], limit=3)).found) == 3
