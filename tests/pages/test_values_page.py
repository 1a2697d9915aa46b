"""The callbacks of the values on the trace page: what they ask, in whose name, and what they hand on."""

from typing import Any

import pytest
from pydantic import ValidationError

from backend.schema import FiresAsk, LookupAsk, Problem, SearchAsk, ValueAsk, View
from frontend.pages.trace import values
from lmscope.client import Refused
from tests.browser.fake import FakeClient

DIGEST = "0" * 64
NOTE = {"digest": DIGEST, "part": "value", "layer": 1, "index": 5, "name": "Cities", "text": ""}


@pytest.mark.parametrize(
    ("callback", "ask"),
    [
        (values.show_value, ValueAsk(model="m", layer=1, unit=5)),
        (values.show_fires, FiresAsk(view=View(model="m", text="a"), layer=1, unit=5)),
        (values.show_found, SearchAsk(model="m", words=("a",))),
        (values.show_found, LookupAsk(model="m", words=("a",), of="keys")),
    ],
)
async def test_an_answer_goes_on_unopened_beside_its_question(client: FakeClient, callback: Any, ask: Any) -> None:
    asked = {"ask": ask.model_dump(mode="json"), "key": "k", "lookup": isinstance(ask, LookupAsk)}
    data, notice = await callback(asked, "tab-1")
    assert data == {"answer": await client.raw(ask), "key": "k"}
    assert notice is None
    assert client.asked[0] == ("tab-1", ask)


async def test_notes_are_written_read_given_away_and_taken_in(client: FakeClient) -> None:
    data, _ = await values.keep_notes({"digest": DIGEST, "turn": 1}, None)
    assert data == {"digest": DIGEST, "notes": []}
    data, _ = await values.keep_notes({"digest": DIGEST, "write": NOTE}, None)
    assert (data["written"], data["notes"][0]["name"]) == (True, "Cities")
    given, _ = await values.keep_notes({"digest": DIGEST, "export": True}, None)
    assert given["exported"]["notes"] == data["notes"]
    await values.keep_notes({"digest": DIGEST, "write": NOTE | {"name": ""}}, None)
    taken, _ = await values.keep_notes({"digest": DIGEST, "take": given["exported"]}, None)
    assert taken["taken"] == {"written": 1, "older": 0}
    assert taken["notes"] == data["notes"]


async def test_what_is_no_note_and_what_is_refused_go_to_the_notice(client: FakeClient) -> None:
    with pytest.raises(ValidationError):
        await values.keep_notes({"digest": DIGEST, "take": {"notes": [1]}}, None)
    client.refuse["value"] = Problem(type="cannot-show", status=422, what="a", why="b", instead="c")
    with pytest.raises(Refused):
        await values.show_value({"ask": {"model": "m", "layer": 1, "unit": 5}, "key": ""}, None)
