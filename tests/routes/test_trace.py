"""The trace over the API: the first paint and the rest, refusals in words, edits in both."""

from base64 import b64decode

import numpy as np

VIEW = {"model": "tiny-llama", "text": "the quick brown fox"}


def numbers(array: dict, dtype: str) -> np.ndarray:
    return np.frombuffer(b64decode(array["bdata"]), dtype).reshape([int(n) for n in array["shape"].split(",")])


async def ask(client, **body) -> dict:
    answer = await client.post("/trace", json={"view": VIEW} | body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_first_paint_and_the_rest_agree(client):
    first, whole = await ask(client, part="focus"), await ask(client)
    (last, column), (grid,) = first["edited"], whole["edited"]
    tokens = len(whole["ids"])
    assert (last["rows"], column["columns"]) == ([whole["layers"]], [tokens - 1])
    ids = numbers(grid["ids"], "<i4")
    assert ids.shape == (whole["layers"] + 1, tokens, 5)
    np.testing.assert_array_equal(numbers(last["ids"], "<i4")[0], ids[-1])
    np.testing.assert_array_equal(numbers(column["ids"], "<i4")[:, 0], ids[:, -1])
    assert {str(id) for id in ids.flatten()} == set(whole["words"])


async def test_the_last_row_foresees_what_the_tokens_page_says(client):
    whole = await ask(client, tracked=[])
    tokens = (await client.post("/tokens", json={"view": VIEW})).json()
    entropy = numbers(whole["edited"][0]["entropy"], "<f4")[-1, :-1]
    np.testing.assert_allclose(entropy, numbers(tokens["scores"]["entropy"], "<f4")[1:], rtol=1e-4)


async def test_edited_and_unedited_stand_side_by_side(client):
    edits = [{"kind": "ffn.set", "layer": 0, "unit": 3, "to": 9}]
    whole = await ask(client, view=VIEW | {"edits": edits, "compare": True})
    edited, unedited = (numbers(whole[side][0]["entropy"], "<f4") for side in ("edited", "unedited"))
    assert np.abs(edited - unedited)[0].max() < 1e-5
    assert np.abs(edited - unedited)[-1].max() > 1e-3


async def test_what_cannot_be_asked_is_refused_in_words(client):
    for body in ({"top": 0}, {"top": 21}, {"tracked": [-1]}, {"part": "some"}, {"tracked": [10_000]}):
        answer = await client.post("/trace", json={"view": VIEW} | body)
        assert (answer.status_code, answer.json()["status"]) == (422, 422)
        assert answer.json()["why"]
