"""Awkward questions: each gets an answer or a Problem that helps, and none a 500."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.schema import Problem
from backend.settings import Settings

INSTRUMENTS = ("tokens", "attention", "heads")
JSON = {"Content-Type": "application/json"}


def view(text: Any = "The cat sat.", **others: Any) -> bytes:
    return json.dumps({"view": {"model": "tiny-llama", "text": text, **others}}).encode()


def edit(**changes: Any) -> bytes:
    return view(edits=[{"kind": "head.scale", "layer": 0, "head": 0, "by": 0.0, **changes}])


async def asked(client: httpx.AsyncClient, body: bytes, instrument: str = "attention") -> httpx.Response:
    return await client.post(instrument, content=body, headers=JSON)


def problem_of(response: httpx.Response) -> Problem:
    """The Problem of a refusal, checked for its form."""
    assert response.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate_json(response.content)
    assert problem.status == response.status_code
    assert problem.what
    assert problem.why
    assert problem.instead
    assert problem.request == response.headers["x-request-id"]
    assert len(response.content) < 1500, "the question is not echoed"
    return problem


REFUSED = {
    "empty text": (view(""), "invalid", "empty"),
    "one enormous word": (view("x" * 5000), "too-long", "128"),
    "1 MB of text": (view("The cat sat. " * 80_000), "too-long", "128"),
    "layer -1": (edit(layer=-1), "invalid", "edits.0.layer: it should be greater than or equal to 0"),
    "a layer it does not have": (edit(layer=3), "cannot-show", "3 layers"),
    "head 10^9": (edit(head=10**9), "invalid", "less than or equal to 99999"),
    "a head it does not have": (edit(head=99), "cannot-show", "4 heads"),
    "a position it does not have": (edit(at=[99]), "cannot-show", "token 99"),
    "NaN strength": (edit(by=float("nan")), "invalid", "finite"),
    "1e999": (edit(by=0.0).replace(b"0.0", b"1e999"), "invalid", "finite"),
    "NaN for a text": (view(float("nan")), "invalid", "view.text"),
    "a lone surrogate": (view("a\ud800b"), "invalid", "view.text"),
    "a lone surrogate as a key": (b'{"view": {"model": "tiny-llama", "text": "a"}, "\\ud800": 1}', "invalid", ""),
    "an unknown kind": (edit(kind="x" * 500), "invalid", "head.set"),
    "an unknown field": (json.dumps({"x" * 5000: 1}).encode(), "invalid", "xxx"),
    "no prompt": (b'{"view": {"model": "tiny-llama"}}', "invalid", "exactly one"),
    "two prompts": (view(pair=["a", "b"]), "invalid", "exactly one"),
    "deep nesting": (b"[" * 200_000, "invalid", "nested"),
    "deep objects": (b'{"view":' * 5000 + b"1" + b"}" * 5000, "invalid", ""),
    "invalid UTF-8": (b'{"view": "\xff\xfe"}', "invalid", "UTF-8"),
    "a number of 5,000 digits": (b'{"view": ' + b"9" * 5000 + b"}", "invalid", "number"),
    "half a JSON": (b'{"view":', "invalid", "character"),
    "a list": (b"[]", "invalid", "JSON object"),
    "nothing": (b"", "invalid", "JSON object"),
    "an unknown model": (b'{"view": {"model": "unknown", "text": "a"}}', "unknown-model", ""),
    "65 edits": (view(edits=[{"kind": "head.set", "layer": 0, "head": 0, "to": 1}] * 65), "invalid", "64"),
    "an impossible region": (
        b'{"view": {"model": "tiny-llama", "text": "a"}, "region": {"q0": 3, "q1": 1, "k0": 0, "k1": 1}}',
        "invalid",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_it_is_refused_in_words_that_help(client: httpx.AsyncClient, case: str) -> None:
    body, kind, said = REFUSED[case]
    for instrument in INSTRUMENTS:
        problem = problem_of(await asked(client, body, instrument))
        assert problem.type == kind
        assert said in problem.what + problem.why


async def test_a_layer_is_explained(client: httpx.AsyncClient) -> None:
    assert "counted from 0" in problem_of(await asked(client, edit(layer=-1))).instead


async def test_too_long_names_both_numbers(client: httpx.AsyncClient) -> None:
    problem = problem_of(await asked(client, view("x" * 5000)))
    assert (problem.needed, problem.available) == (5001, 128)


ANSWERED = {
    "one token": "a",
    "blanks": "   ",
    "emoji": "👩‍👩‍👧 🏳️‍🌈",
    "mixed scripts": "año 東京 مرحبا नमस्ते",
    "a NUL": "a\0b",
    "right to left": "\u202eabc\u202c",
    "every kind of line end": "a\r\nb\rc\u2028d",
}


@pytest.mark.parametrize("case", ANSWERED)
async def test_it_is_answered(client: httpx.AsyncClient, case: str) -> None:
    for instrument in INSTRUMENTS:
        response = await asked(client, view(ANSWERED[case]), instrument)
        assert response.status_code == 200, response.text
        assert response.json()["ids"]


async def test_a_body_that_announces_too_much_is_not_read(client: httpx.AsyncClient) -> None:
    problem = problem_of(await asked(client, view("x" * 2_100_000)))
    assert (problem.type, problem.available) == ("too-large", 2 * 1024 * 1024)


async def test_a_body_that_does_not_announce_its_size_is_read_up_to_the_limit(client: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65536
            yield b" " * 65536

    problem = problem_of(await client.post("tokens", content=endless(), headers=JSON))
    assert problem.type == "too-large"
    assert "fewer examples" in problem.instead
    assert sent <= 2 * 1024 * 1024 + 2 * 65536


async def test_json_under_another_name_is_refused_in_words(client: httpx.AsyncClient) -> None:
    problem = problem_of(await client.post("tokens", content=view(), headers={"Content-Type": "text/plain"}))
    assert "application/json" in problem.instead


@pytest.mark.parametrize("tab", ["not a uuid", "x" * 5000, "0"])
async def test_a_malformed_tab_is_named(client: httpx.AsyncClient, tab: str) -> None:
    response = await client.post("tokens", content=view(), headers={**JSON, "X-Lmscope-Tab": tab})
    assert "X-Lmscope-Tab" in problem_of(response).why


@pytest.mark.parametrize("settings", [Settings(models=("tiny-llama",), edits=1)])
async def test_the_limit_on_edits_is_a_setting(client: httpx.AsyncClient) -> None:
    two = view(edits=[{"kind": "head.set", "layer": 0, "head": head, "to": 1} for head in (0, 1)])
    problem = problem_of(await asked(client, two))
    assert (problem.needed, problem.available) == (2, 1)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(anything=ANYTHING)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
async def test_no_json_at_all_breaks_it(client: httpx.AsyncClient, anything: Any) -> None:
    for body in (anything, {"view": anything}, {"view": {"model": "tiny-llama", "text": "a", "edits": anything}}):
        response = await asked(client, json.dumps(body).encode())
        if response.status_code != 200:
            assert problem_of(response).status in (404, 422)


async def test_a_wrong_item_does_not_make_its_list_too_short(client: httpx.AsyncClient) -> None:
    body = json.dumps({"view": {"model": "tiny-llama", "text": "a"}, "heads": [{"layer": -1, "head": 0}]}).encode()
    problem = problem_of(await asked(client, body, "attention/head"))
    assert "heads.0.layer" in problem.why
    assert "at least 1 item" not in problem.why


@pytest.mark.parametrize("at", ["never", [], [-1], ["x"], 5, None, [1.5]], ids=str)
async def test_where_an_edit_acts_is_said_in_one_sentence(client: httpx.AsyncClient, at: Any) -> None:
    problem = problem_of(await asked(client, edit(at=at)))
    assert problem.why == (
        "view.edits.0.at: it may be 'all', 'prompt', 'generated', or a list of 1 to 4,096 positions, counted from 0"
    )


PLAIN = {
    "an edit without a kind": (view(edits=[{"layer": 0}]), "view.edits.0: it says no kind"),
    "an edit that is a word": (view(edits=["x"]), "view.edits.0: it should be an object with named fields"),
    "an edit without a head": (
        view(edits=[{"kind": "head.scale", "layer": 0, "by": 0}]),
        "view.edits.0.head: it is missing",
    ),
    "a field that is not there": (view(messages=[]), "view.messages: there is no such field"),
    "edits that are a word": (view(edits="x"), "view.edits: it should be a list"),
}


@pytest.mark.parametrize("case", PLAIN)
async def test_reasons_are_said_without_the_words_of_a_library(client: httpx.AsyncClient, case: str) -> None:
    body, why = PLAIN[case]
    assert problem_of(await asked(client, body)).why == why


async def test_an_empty_list_and_an_empty_link_are_said_to_be_empty(client: httpx.AsyncClient) -> None:
    heads = json.dumps({"view": {"model": "tiny-llama", "text": "a"}, "heads": []}).encode()
    assert problem_of(await asked(client, heads, "attention/head")).why == "heads: it needs 1 or more, and has 0"
    assert problem_of(await asked(client, b'{"link": ""}', "links")).why == "link: it is empty"
