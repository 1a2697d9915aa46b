"""A link is opened whole or refused in words."""

import zlib
from base64 import urlsafe_b64encode

import httpx
import pytest

from backend.schema import HeadScale, Problem, View

VIEW = View(model="m", text="Zwölf 🎉", edits=(HeadScale(layer=1, head=2, by=0.5),), compare=True)


def packed(data: bytes) -> str:
    return "http://127.0.0.1:8050/attention#v=1" + urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")


async def test_a_link_opens_as_the_view_it_was_made_from(client: httpx.AsyncClient) -> None:
    answer = await client.post("links", json={"link": VIEW.link("attention", "http://elsewhere:1")})
    assert answer.status_code == 200
    assert View.model_validate(answer.json()) == VIEW


DAMAGED = {
    "cut": VIEW.link()[:-9],
    "of another version": VIEW.link().replace("#v=1", "#v=9"),
    "bombing": packed(b" " * 30_000_000),
    "not a view": packed(b"[1]"),
    "with an impossible layer": packed(b'{"model": "m", "text": "a", "edits": [{"kind": "head.scale", "layer": -1}]}'),
    "holding NaN": packed(b'{"model": "m", "text": "a", "focus": {"low": NaN}}'),
    "not a link": "hello",
    "of odd letters": "#v=1äöü",
}  # fmt: skip


@pytest.mark.parametrize("link", DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_link_is_a_problem_that_helps(client: httpx.AsyncClient, link: str) -> None:
    answer = await client.post("links", json={"link": link})
    problem = Problem.model_validate_json(answer.content)
    assert (problem.type, answer.status_code) == ("bad-link", 400)
    assert problem.why
    assert problem.instead
    assert len(answer.content) < 1000


WORDS = {
    "hello": "not a link of LMScope",
    "http://127.0.0.1:8050/attention": "not a link of LMScope",
    "#v=": "cut short",
    packed(b'{"model": "m"}'): "a view has exactly one of text, pair and turns",
    packed(b'{"model": "m", "text": "a", "edits": [{"kind": "z"}]}'): "its kind may be 'head.scale', 'head.set'",
    packed(b'{"model": "m", "text": "a", "edits": [{"kind": "head.set", "layer": 0, "head": 0, "to": 1, "at": 5}]}'): (
        "edits.0.at: it may be 'all', 'prompt', 'generated', or a list"
    ),
}


@pytest.mark.parametrize("link", WORDS)
async def test_what_is_wrong_is_said_as_for_a_question(client: httpx.AsyncClient, link: str) -> None:
    answer = await client.post("links", json={"link": link})
    assert WORDS[link] in answer.json()["why"]
