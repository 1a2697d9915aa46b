"""The weights over HTTP: tables, lines, coordinates, overlaps and numbers of heads, and refusals in words."""

import asyncio

import pytest

from tests.desk.pretend import Gate

MODEL = {"model": "tiny-llama"}
HEAD = MODEL | {"layer": 1, "head": 2}


async def ask(client, path, **body):
    answer = await client.post(f"/weights/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_table_its_lines_and_its_twin_belong_together(client):
    table = await ask(client, "pairs", **HEAD, top=5, filters={"apart": "tokens"})
    best = table["pairs"][0]
    row = await ask(client, "line", **HEAD, token=best["row"], top=200)
    found = dict(zip(row["lines"][0]["ends"]["highest"], row["lines"][0]["ends"]["highest_logit"], strict=True))
    assert found[best["column"]] == pytest.approx(best["score"], rel=1e-4)
    assert (table["group"], len(table["pairs"]), table["same"]) == (1, 5, 0)
    assert {str(best["row"]), str(best["column"])} <= set(table["words"])
    twin = await ask(client, "pairs", **HEAD, top=5, twin=3)
    assert twin["pairs"] != table["pairs"]
    own, other = [await ask(client, "pairs", **HEAD, reading=reading, compare=True) for reading in ("folded", "raw")]
    assert own["shared"] == other["shared"]


async def test_a_head_its_coordinates_and_a_layers_units_are_told(client):
    numbers = await ask(client, "head", **HEAD)
    assert numbers["positions"] == "rotary"
    assert len(numbers["vo"]["singular"]) == 8
    assert len((await ask(client, "subheads", **HEAD, part="k"))["subheads"]) == 8
    overlaps = await ask(client, "overlaps", **MODEL, layer=0, k=20, least=0)
    assert len(overlaps["overlaps"]) == overlaps["units"] == 48
    found = await ask(client, "lookup", **MODEL, words=["the", "cat"], limit=3)
    assert [(group["among"], len(group["found"])) for group in found["groups"]] == [
        ("values", 3), ("keys", 3), ("v", 3), ("o", 3), ("q", 3), ("k", 3)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("pairs", {"layer": 3, "head": 0}, "3 layers"), ("pairs", {"layer": 0, "head": 4}, "4 heads"),
        ("pairs", {"layer": 0, "head": 0, "top": 0}, "top"),
        ("pairs", {"layer": 0, "head": 0, "circuit": "x"}, "circuit"),
        ("pairs", {"layer": 0, "head": 0, "filters": {"words": ["qqqq"]}}, "qqqq"),
        ("pairs", {"layer": 0, "head": 0, "circuit": "qk", "distance": 10**6}, "128 tokens"),
        ("line", {"layer": 0, "head": 0}, "token"), ("line", {"layer": 0, "head": 0, "token": 99999}, "vocabulary has"),
        ("line", {"layer": 0, "head": 0, "word": "supercalifragilistic"}, "tokens: "),
        ("subheads", {"layer": 0, "head": 0, "distance": 3}, "distance"),
        ("head", {"layer": 0, "head": 0, "distance": 3}, "distance"),
        ("pairs", {"layer": 0, "head": 0, "filters": {"text": "!", "apart": "words"}}, "leave no pair"),
        ("overlaps", {"layer": 0, "k": 1000}, "1,000"),
        ("subheads", {"layer": 0, "head": 0, "first": 8}, "it has 8"), ("overlaps", {"layer": 7}, "3 layers"),
    ],
)  # fmt: skip
async def test_what_is_not_there_is_refused_in_words(client, path, body, said):
    answer = await client.post(f"/weights/{path}", json=MODEL | body)
    assert answer.status_code in (400, 409, 422)
    problem = answer.json()
    assert said in f"{problem['what']} {problem['why']}"


async def test_a_head_that_is_not_there_is_refused_while_the_models_thread_is_busy(client, app):
    gate = Gate()
    desk = app.state.house.desk
    holding = asyncio.create_task(desk.ask("tiny-llama", None, gate.question("holds the thread"), tab="holder"))
    try:
        assert await asyncio.to_thread(gate.reached.wait, 60)
        for path, more in (("pairs", {"layer": 9}), ("head", {"head": 9}), ("overlaps", {"layer": 9})):
            sent = {name: value for name, value in (HEAD | more).items() if path != "overlaps" or name != "head"}
            refused = await client.post(f"/weights/{path}", json=sent)
            assert refused.status_code == 422
            assert "There is no" in refused.json()["what"]
        assert not gate.open.is_set()
    finally:
        gate.open.set()
        await asyncio.gather(holding, return_exceptions=True)
