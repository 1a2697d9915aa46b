"""The trace page's deeper panels: what their callbacks ask, in whose name, and what can be copied as Python."""

import inspect
from typing import Any

import pytest

from backend.schema import (
    CellAsk,
    ContributionsAsk,
    EffectsAsk,
    Explain,
    PatchAsk,
    PatchMapAsk,
    PatchPlace,
    Sampling,
    SwitchAsk,
    TokensAsk,
    UnitName,
    View,
    WriteAsk,
)
from frontend.pages.trace import callbacks, cell, patch, why
from frontend.parts import following
from frontend.parts.client_code import BY_FORM, CALLS, client_calls
from lmscope import Client
from tests.browser.fake import FakeClient

VIEW = View(model="smollm2-135m-instruct", text="The capital of France is")
SOURCE = View(model="smollm2-135m-instruct", text="The capital of Italy is")


def data(ask: Any) -> dict[str, Any]:
    return ask.model_dump(mode="json")


async def test_a_cell_is_asked_in_the_tabs_name_and_answers_its_own_question(client: FakeClient) -> None:
    ask = CellAsk(view=VIEW, layer=3, token=1)
    answer, notice = await cell.show_cell({"ask": data(ask), "turn": 4, "key": "k"}, "tab-1")
    assert (answer["turn"], answer["key"], answer["answer"]["layer"]) == (4, "k", 3)
    assert client.asked == [("tab-1", ask)]
    assert notice is None


async def test_the_old_tools_switch_comes_back_as_an_edit(client: FakeClient) -> None:
    ask = SwitchAsk(view=VIEW, layer=3, unit=9, on=True)
    answer, _ = await cell.show_switch({"ask": data(ask), "turn": 1}, "tab-1")
    assert answer["answer"]["edit"]["kind"] == "ffn.set"
    assert answer["answer"]["edit"]["unit"] == 9


def wanted(jobs: dict[str, str] | None = None, **drawn: Any) -> dict[str, Any]:
    given = {"parts": "layers", "order": "direct", "most": 24, "side": "edited", "jobs": jobs or {}}
    return {"ask": data(ContributionsAsk(view=VIEW)), "drawn": given | drawn, "turn": 2, "key": "k"}


async def test_contributions_come_without_effects_until_they_are_measured(client: FakeClient) -> None:
    figure, style, answer, _ = await why.show_why(wanted(), "light", "tab-1")
    assert len(figure.data) == 1
    assert style == {"height": 76 + 24 * 25}
    assert len(answer["rows"]) == 24
    assert len(answer["all"]) == 61
    assert all(row["effect"] is None for row in answer["all"])


async def test_effects_fill_in_while_their_jobs_run(client: FakeClient) -> None:
    asks = [data(EffectsAsk(view=VIEW, parts=parts)) for parts in ("attention", "feed_forward")]
    began, _ = await why.start_effects({"asks": asks, "key": "k", "turn": 2}, "tab-1")
    assert list(began["jobs"]) == ["attention", "feed_forward"]
    counts, states = [], []
    for _ in range(3):
        _, _, answer, _ = await why.show_why(wanted(began["jobs"]), "dark", "tab-1")
        counts.append(sum(row["effect"] is not None for row in answer["all"]))
        states.append(answer["jobs"]["attention"]["state"])
    assert 0 < counts[0] < counts[1] < counts[2] == 60
    assert states == ["running", "running", "done"]


async def test_stopping_keeps_what_was_measured(client: FakeClient) -> None:
    began, _ = await why.start_effects({"asks": [data(EffectsAsk(view=VIEW))], "key": "k", "turn": 2}, "tab-1")
    await why.show_why(wanted(began["jobs"], parts="heads"), "light", "tab-1")
    await following.stopped({"ids": list(began["jobs"].values())}, "tab-1")
    _, _, answer, _ = await why.show_why(wanted(began["jobs"], parts="heads"), "light", "tab-1")
    assert answer["jobs"]["heads"]["state"] == "cancelled"
    assert 0 < sum(row["effect"] is not None for row in answer["all"]) < 270


async def test_the_sets_are_those_of_the_server(client: FakeClient) -> None:
    assert [card["name"] for card in await why.show_sets(1, "tab-1")] == ["prose", "films"]


async def test_a_map_grows_and_the_other_text_is_read_by_nobody(client: FakeClient) -> None:
    await patch.show_source({"view": data(SOURCE), "key": "s"})
    assert client.asked == [(None, TokensAsk(view=SOURCE, scores=False))]
    ask = PatchMapAsk(view=VIEW, source=SOURCE)
    began, _ = await patch.start_map({"asks": [data(ask)], "key": "k", "turn": 5}, "tab-1")
    look = {"id": began["jobs"]["map"], "key": "k", "turn": 5, "view": data(VIEW), "source": data(SOURCE)}
    figure, answer = await patch.show_map(look, "light", "tab-1")
    assert answer["job"]["state"] == "running"
    assert answer["job"]["partial"] is None, "it travels once"
    assert figure.data[0].type == "heatmap"
    await following.stopped({"ids": [began["jobs"]["map"]]}, "tab-1")
    _, answer = await patch.show_map(look, "light", "tab-1")
    assert answer["job"]["state"] == "cancelled"


async def test_a_patch_comes_back_as_edits(client: FakeClient) -> None:
    place = PatchPlace(tap="residual", layer=4, token=3)
    ask = PatchAsk(view=VIEW, source=SOURCE, places=(place,))
    answer, _ = await patch.show_patch({"ask": data(ask), "turn": 1}, "tab-1")
    assert answer["answer"]["edits"][0]["at"] == [3]


ASKS = {
    "cell": CellAsk(view=VIEW, layer=3, token=1, explain=Explain(target=5), ranked="contribution"),
    "contributions": ContributionsAsk(view=VIEW, explain=Explain(against="rest")),
    "effects": EffectsAsk(view=VIEW, parts="units", units=(UnitName(layer=1, unit=2),), removal="mean"),
    "patch": PatchAsk(view=VIEW, source=SOURCE, places=(PatchPlace(tap="heads", layer=1, head=2, token=3),)),
    "patch_map": PatchMapAsk(view=VIEW, source=SOURCE, tap="ffn_out"),
    "write": WriteAsk(
        view=VIEW.model_copy(
            update={"sampling": Sampling(tokens=7, temperature=0.5, seed=3, stop=("\n",)), "compare": True}
        ),
    ),
}


@pytest.mark.parametrize("name", list(ASKS))
async def test_copy_as_python_asks_the_same(client: FakeClient, name: str) -> None:
    """What is copied runs against a client that notes what it was asked."""
    asks = {"asks": {name: [data(ASKS[name])]}, "origin": "http://127.0.0.1:1"}
    texts, _ = await callbacks.show_code(asks)
    method = BY_FORM[type(ASKS[name])].method
    assert asked_by(texts["client"], method) == [ASKS[name]]


def asked_by(script: str, method: str) -> list[Any]:
    """Run a copied script with the real client's signatures; the forms that it asks for."""
    form = next(call.form for call in CALLS.values() if call.method == method)
    signature = inspect.signature(getattr(Client, method))
    found: list[Any] = []

    class Noting:
        def __init__(self, address: str) -> None:
            assert address == "http://127.0.0.1:1"

        def __getattr__(self, name: str) -> Any:
            assert name == method

            def ask(*given: Any, **named: Any) -> Any:
                bound = signature.bind(self, *given, **named)
                values = {key: value for key, value in bound.arguments.items() if key not in ("self", "options")}
                values |= bound.arguments.get("options", {})
                found.append(form(**values))
                return type("Answer", (), {"csv": staticmethod(lambda: ""), "edited": type("Side", (), {"text": ""})})

            return ask

    names: dict[str, Any] = {"print": lambda *_: None}
    exec(compile(script.replace("from lmscope import Client, View", "from lmscope import View"), "copied", "exec"),
         names | {"Client": Noting})  # fmt: skip
    return found


def test_several_questions_are_one_script() -> None:
    script = client_calls([ASKS["patch"], ASKS["patch_map"]], "http://127.0.0.1:1")
    assert script.count("source = View(") == 1
    assert script.count("client.") == 2
