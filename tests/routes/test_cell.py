"""Cells, contributions and the switch over the API: answers, edits beside no edits, refusals in words."""

from base64 import b64decode

import numpy as np
import pytest

VIEW = {"model": "tiny-llama", "text": "the quick brown fox"}
EDITED = VIEW | {"edits": [{"kind": "head.scale", "layer": 0, "head": 1, "by": -3}], "compare": True}


def numbers(array: dict) -> np.ndarray:
    return np.frombuffer(b64decode(array["bdata"]), "<f4").reshape([int(n) for n in array["shape"].split(",")])


async def ask(client, path: str, **body) -> dict:
    answer = await client.post(f"/trace/{path}", json={"view": VIEW} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_cell_is_what_the_lens_shows_there(client):
    cell = await ask(client, "cell", layer=0, token=2)
    grid = (await client.post("/trace", json={"view": VIEW})).json()["edited"][0]
    assert numbers(cell["edited"]["after"]["probability"])[0] == pytest.approx(
        numbers(grid["probability"])[1, 2, 0], rel=1e-5
    )
    assert cell["edited"]["sum_error"] < 1e-5
    assert {str(id) for id in cell["edited"]["before"]["ids"]} <= set(cell["words"])
    last = await ask(client, "cell", layer=2)
    assert numbers(last["edited"]["after"]["probability"])[0] == pytest.approx(
        numbers(grid["probability"])[-1, -1, 0], rel=1e-5
    )


async def test_contributions_add_up_on_both_sides(client):
    answer = await ask(client, "contributions", view=EDITED, explain={"against": "rest"})
    for side in (answer["edited"], answer["unedited"]):
        total = (
            side["embedding"] + numbers(side["attention"]).sum() + numbers(side["feed_forward"]).sum() + side["rest"]
        )
        assert total == pytest.approx(side["logits"], abs=1e-4)
    assert answer["edited"]["logits"] == pytest.approx(answer["explained"]["logits"], abs=1e-4)


async def test_the_values_of_a_cell_and_of_the_contributions_are_the_same(client):
    whole = await ask(client, "contributions", values=200)
    cell = await ask(client, "cell", layer=1, values=20, ranked="contribution")
    assert cell["explained"] == whole["explained"]
    found = dict(
        zip(
            [(u["layer"], u["unit"]) for u in whole["edited"]["units"]], numbers(whole["edited"]["values"]), strict=True
        )
    )
    listed = [value for value in cell["edited"]["values"] if (1, value["unit"]) in found]
    assert listed
    for value in listed:
        assert value["contribution"] == pytest.approx(found[1, value["unit"]], abs=1e-6)


async def test_the_switch_answers_with_an_edit_that_a_view_takes(client):
    off = await ask(client, "switch", layer=1, unit=5, on=False)
    assert {name: off["edit"][name] for name in ("kind", "layer", "unit", "to")} == {
        "kind": "ffn.set", "layer": 1, "unit": 5, "to": 0.0
    }  # fmt: skip
    switched = await ask(client, "cell", view=VIEW | {"edits": [off["edit"]]}, layer=1, values=48)
    assert [value["coefficient"] for value in switched["edited"]["values"] if value["unit"] == 5] == [0.0]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("cell", {"layer": 9}, "no layer 9"),
        ("cell", {"layer": 0, "token": 99}, "no token 99"),
        ("cell", {"layer": 0, "values": 0}, "values"),
        ("contributions", {"explain": {"target": 7, "foil": 7}}, "the same token"),
        ("contributions", {"explain": {"target": 9_999}}, "vocabulary"),
        ("contributions", {"values": 201}, "values"),
        ("switch", {"layer": 1, "unit": 5, "on": True}, "gated"),
        ("switch", {"layer": 1, "unit": 48, "on": False}, "no unit L1U48"),
    ],
)
async def test_what_cannot_be_asked_is_refused_in_words(client, path, body, words):
    answer = await client.post(f"/trace/{path}", json={"view": VIEW} | body)
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (422, 422)
    assert words in f"{problem['what']} {problem['why']}"
    assert problem["instead"]
