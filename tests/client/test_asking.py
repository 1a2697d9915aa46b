"""Arguments that make no question are refused in words by every client, before anything is sent."""

from collections.abc import Callable
from typing import Any

import pytest

from backend.schema import View
from lmscope import blocking
from lmscope.client import AsyncClient, Refused
from tests.client.stand_in import StandIn

VIEW = View(model="m", text="x")
CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a head between heads": (lambda client: client.pairs("m", (0.9, 1.7)), "names no head"),
    "a head twice": (lambda client: client.pairs("m", "0.0", layer=2), "layer: given twice"),
    "a head of truth": (lambda client: client.head(VIEW, (True, 1)), "names no head"),
    "heads that are a number": (lambda client: client.head(VIEW, 5), "heads: it should be a list"),
    "a line's head twice": (lambda client: client.line("m", "0.0", 3, word="x", layer=1), "layer: given twice"),
    "a unit between units": (lambda client: client.fires(VIEW, (1.5, 2)), "names no unit"),
    "strengths as a text": (lambda client: client.sweep(VIEW, "a" * 64, "12"), "strengths: it should be a list"),
    "one strength": (lambda client: client.sweep(VIEW, "a" * 64, 2), "strengths: it should be a list"),
    "strengths of words": (lambda client: client.sweep(VIEW, "a" * 64, ["x", "y"]), "it should be a number"),
    "a number as texts": (lambda client: client.keep_examples("n", plus=5), "plus: it should be a list"),
    "rows of three": (lambda client: client.keep_examples("n", rows=[("a", 1, 2)]), "rows.0: it should be a pair"),
    "a label beyond": (lambda client: client.keep_examples("n", rows=[("a", 3)]), "label: it should be less"),
    "no such option": (lambda client: client.overlaps("m", 0, depth=3), "depth: there is no such field"),
    "no such circuit": (lambda client: client.pairs("m", "0.0", "x"), "circuit: it should be 'vo' or 'qk'"),
    "a negative layer": (lambda client: client.overlaps("m", -1), "layer: it should be greater"),
}


def check(refused: pytest.ExceptionInfo[Refused], words: str) -> None:
    problem = refused.value.problem
    assert (problem.type, problem.status) == ("invalid", 422)
    assert words in problem.why
    assert "pydantic" not in str(refused.value)
    assert problem.instead


@pytest.mark.parametrize("case", CASES)
async def test_an_impossible_question_is_refused_in_words(case: str) -> None:
    ask, words = CASES[case]
    async with AsyncClient(app=StandIn().app) as client:
        with pytest.raises(Refused) as refused:
            await ask(client)
    check(refused, words)


def test_the_blocking_client_refuses_the_same() -> None:
    with blocking.Client(app=StandIn().app) as client:
        for ask, words in CASES.values():
            with pytest.raises(Refused) as refused:
                ask(client)
            check(refused, words)


async def test_one_prompt_is_one_text_and_no_letters() -> None:
    server, seen = StandIn(), list[Any]()

    @server.app.post("/api/v1/steers/sweep")
    async def sweep(ask: dict[str, Any]) -> None:
        seen.append(ask["prompts"])

    async with AsyncClient(app=server.app) as client:
        with pytest.raises(Refused):
            await client.sweep(VIEW, "a" * 64, prompts="the cat sat")
    assert seen == [["the cat sat"]]
