"""Equal questions are answered once: kept in bounded bytes, or shared while they run."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend import errors
from backend.desk.answers import Answers, question_key
from backend.desk.desk import Desk
from backend.schema import Focus, HeadName, HeadScale, Limits, OverviewAsk, TokensAsk, View
from tests.desk.pretend import Gate, PretendShelf, conditions, raising, said


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=12)), max_size=40))
def test_the_budget_is_never_exceeded_and_the_last_answer_is_kept(answers: list[tuple[int, bytes]]) -> None:
    kept = Answers(30)
    for digest, body in answers:
        kept.put(str(digest), body)
        assert kept.get(str(digest)) == body
        assert kept.used_bytes == sum(map(len, kept._kept.values())) <= 30


def test_the_least_recently_used_answer_leaves_first() -> None:
    kept = Answers(2)
    kept.put("a", b"1")
    kept.put("b", b"2")
    assert kept.get("a") == b"1"
    kept.put("c", b"3")
    assert [kept.get(digest) for digest in "abc"] == [b"1", None, b"3"]


def test_an_answer_larger_than_the_budget_drives_nothing_out() -> None:
    kept = Answers(2)
    kept.put("a", b"1")
    kept.put("b", b"123")
    assert (kept.get("a"), kept.get("b")) == (b"1", None)


def test_focus_and_idle_edits_make_no_other_question() -> None:
    view = View(model="a", text="x")
    looked = view.model_copy(
        update={
            "focus": Focus(heads=(HeadName(layer=0, head=1),)),
            "edits": (HeadScale(layer=0, head=0, by=0, on=False),),
        }
    )
    assert question_key("attention", OverviewAsk(view=view)) == question_key("attention", OverviewAsk(view=looked))


def test_instrument_options_text_and_edits_each_make_another_question() -> None:
    view = View(model="a", text="x")
    cut = view.model_copy(update={"edits": (HeadScale(layer=0, head=0, by=0),)})
    keys = [
        question_key("attention", OverviewAsk(view=view)),
        question_key("attention", OverviewAsk(view=view, cells=8)),
        question_key("attention", OverviewAsk(view=cut)),
        question_key("attention", OverviewAsk(view=View(model="a", text="y"))),
        question_key("attention", OverviewAsk(view=View(model="a", pair=("x", "")))),
        question_key("tokens", TokensAsk(view=view)),
    ]
    assert len(set(keys)) == len(keys)


async def test_equal_questions_in_flight_share_one_run(desk: Desk) -> None:
    gate = Gate()
    tasks = [asyncio.create_task(desk.ask("a", None, gate.question("same"), tab=tab)) for tab in "tuv"]
    await asyncio.to_thread(gate.reached.wait, 60)
    gate.open.set()
    first, *others = await asyncio.gather(*tasks)
    assert all(body is first for body in others)
    assert gate.begun == 1


async def test_an_equal_question_later_does_not_run_at_all(desk: Desk, shelf: PretendShelf) -> None:
    gate = Gate()
    gate.open.set()
    first = await desk.ask("a", None, gate.question("same"))
    assert await desk.ask("a", None, gate.question("same")) is first
    assert gate.begun == 1
    assert shelf.leases == {"a": 0}


async def test_other_conditions_are_another_answer(desk: Desk, shelf: PretendShelf) -> None:
    gate = Gate()
    gate.open.set()
    await desk.ask("a", None, gate.question("same"))
    changed = {"dtype": "bfloat16"}
    shelf.models["a"].conditions = conditions("a").model_copy(update=changed)
    await desk.ask("a", None, gate.question("same"))
    assert gate.begun == 2


async def test_one_of_two_sharers_leaving_stops_nothing(desk: Desk) -> None:
    gate = Gate()
    leaves, stays = (asyncio.create_task(desk.ask("a", None, gate.question("same"), tab=tab)) for tab in "tu")
    await asyncio.to_thread(gate.reached.wait, 60)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    gate.open.set()
    assert await stays
    assert (gate.finished, gate.stopped) == (1, 0)


async def test_a_tab_that_asks_the_same_again_keeps_the_run(desk: Desk) -> None:
    gate = Gate()
    older = asyncio.create_task(desk.ask("a", None, gate.question("same"), tab="t"))
    await asyncio.to_thread(gate.reached.wait, 60)
    newer = asyncio.create_task(desk.ask("a", None, gate.question("same"), tab="t"))
    with pytest.raises(errors.Replaced):
        await older
    gate.open.set()
    assert await newer
    assert (gate.begun, gate.stopped) == (1, 0)


async def test_sharers_of_a_failure_each_get_an_error_of_their_own(desk: Desk) -> None:
    error = errors.CannotShow("It cannot", "it has none", "Ask another")
    asked = (desk.ask("a", None, raising(error), tab=tab) for tab in "tu")
    first, second = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(first, errors.CannotShow)
    assert isinstance(second, errors.CannotShow)
    assert len({id(error), id(first), id(second)}) == 3, "one traceback must not grow with every caller"


async def test_errors_are_not_kept(desk: Desk) -> None:
    with pytest.raises(errors.Broken):
        await desk.ask("a", None, raising(ValueError("once"), key="same"))
    assert await desk.ask("a", None, said("same")) == b'{"text":"same"}'


@pytest.mark.parametrize("limits", [Limits(answer_bytes=0)])
async def test_a_budget_of_nothing_keeps_nothing(desk: Desk) -> None:
    gate = Gate()
    gate.open.set()
    await desk.ask("a", None, gate.question("same"))
    await desk.ask("a", None, gate.question("same"))
    assert gate.begun == 2
