"""The weights page's callbacks ask what the page says, and its calls in Python ask the same."""

import inspect
from typing import Any

from backend.schema import Filters, LineAsk, PairsAsk
from frontend.figures.weights import curve
from frontend.pages.weights import callbacks
from frontend.parts.client_code import CALLS, client_calls
from lmscope.client import AsyncClient
from tests.figures import made_up_weights as made

HEAD = {"model": "m", "layer": 1, "head": 2}


def test_the_calls_are_python_that_asks_the_same() -> None:
    asks = [
        PairsAsk(**HEAD, circuit="qk", filters=Filters(letters=True, apart="words"), distance=3),
        LineAsk(**HEAD, word="Paris", line="column"),
    ]
    code = client_calls(asks, "http://127.0.0.1:8050")
    compile(code, "copied", "exec")
    assert "client = Client('http://127.0.0.1:8050')" in code
    assert "answer = client.pairs('m', '1.2', 'qk', distance=3, filters=Filters(letters=True, apart='words'))" in code
    assert "answer = client.line('m', '1.2', 'Paris', 'vo', line='column')" in code
    assert "Filters" not in client_calls([PairsAsk(**HEAD)], "http://x")


def test_every_question_of_the_page_can_be_copied_as_a_call_that_the_client_has() -> None:
    for call in CALLS.values():
        taken = inspect.signature(getattr(AsyncClient, call.method)).parameters
        assert [name for name in taken if name != "self"][: len(call.places)] == list(call.places)


def test_the_curve_has_a_place_for_distance_zero() -> None:
    answer: Any = made.head(callbacks.HeadWeightsAsk(**HEAD)).model_dump(mode="json")
    drawn = curve(answer)
    assert list(drawn.data[0].x) == [1, 2, 3, 6, 31, 121]
    assert list(drawn.data[0].y) == [point["score"] for point in answer["curve"]]
    assert drawn.layout.yaxis.title.text == "mean score (attention logits)"
    assert curve(answer | {"reading": "raw"}).layout.yaxis.title.text == "mean score (dot product)"
    for positions in ("none", "unknown"):
        assert not curve(answer | {"positions": positions}).data
