"""Values through every client: the typed one, the blocking one, and in numpy with tables and figures; notes too."""

import csv
import io
from collections.abc import Iterator

import numpy as np
import pytest

from backend.schema import FfnSet, LookupAsk, NoteAsk, Notes, SearchAsk, UnitName, ValueAsk, View
from frontend.figures.values import bars, word_name
from lmscope import blocking, notebook
from lmscope.client import AsyncClient
from lmscope.naming import unit_name
from tests.client.stand_in import StandIn
from tests.figures import made_up_values as made


@pytest.fixture
def server() -> StandIn:
    return StandIn()


@pytest.fixture
def client(server: StandIn) -> Iterator[blocking.Client]:
    with blocking.Client(app=server.app) as client:
        yield client


@pytest.fixture
def numpy(server: StandIn) -> Iterator[notebook.Client]:
    with notebook.Client(app=server.app) as client:
        yield client


@pytest.mark.parametrize("written", ["L12U34", "l12u34", "L12D34", " l12d34 ", (12, 34), UnitName(layer=12, unit=34)])
def test_a_unit_is_named_as_people_write_it(written) -> None:
    assert unit_name(written) == UnitName(layer=12, unit=34)


@pytest.mark.parametrize("written", ["12.34", "L12", "U34", "L12U", "L-1U3", "L1U2U3", "", (1,), (1, -2), "L٣U٤"])
def test_what_names_no_unit_is_refused_in_words(written) -> None:
    with pytest.raises(ValueError, match="names no unit; write layer and unit"):
        unit_name(written)


async def test_each_question_is_one_method_with_a_typed_answer(server: StandIn) -> None:
    async with AsyncClient(app=server.app) as client:
        assert await client.value("m", "L1U5", top=3) == made.value(ValueAsk(model="m", layer=1, unit=5, top=3))
        ask = SearchAsk(model="m", words=("Paris",), end="suppressed", ranked="z", limit=4)
        assert await client.search("m", "Paris", end="suppressed", ranked="z", limit=4) == made.search(ask)
        assert await client.lookup("m", ["a", "b"], of="keys") == made.lookup(
            LookupAsk(model="m", words=("a", "b"), of="keys")
        )
        assert await client.raw(ask) == made.search(ask).model_dump(mode="json")


def test_the_blocking_client_answers_the_same(client: blocking.Client) -> None:
    ask = ValueAsk(model="m", layer=1, unit=5)
    assert client.value("m", (1, 5)) == made.value(ask)
    assert client.raw(ask) == made.value(ask).model_dump(mode="json")
    assert client.search("m", "Paris").hits == made.search(SearchAsk(model="m", words=("Paris",))).hits
    assert client.lookup("m", "Paris").searched == made.LAYERS * made.UNITS


def test_a_value_in_numpy_has_its_words_numbers_table_and_figure(numpy: notebook.Client) -> None:
    value = numpy.value("m", "L1U5", top=4)
    answer = value.answer
    assert value.highest == tuple(answer.words[str(id)] for id in answer.ends.highest)
    assert value.highest_logit.dtype == np.float32
    np.testing.assert_allclose(value.highest_z, (value.highest_logit - answer.mean) / answer.deviation, rtol=1e-5)
    rows = value.table()
    assert [row["end"] for row in rows] == ["promoted"] * 4 + ["suppressed"] * 4
    assert rows[4]["logit"] == answer.ends.lowest_logit[0]
    assert len(list(csv.DictReader(io.StringIO(value.csv())))) == 8
    assert value.ids == ()
    assert "ValueInNumpy of made-up" in value._repr_html_()
    (bar,) = value.figure(words=3, theme="dark").data
    shown = [*value.highest_logit[:3], *value.lowest_logit[:3][::-1]]
    np.testing.assert_allclose(bar.x, shown, rtol=1e-5)
    assert list(value.similar.values()) == pytest.approx([0.9, 0.8, 0.7])


def test_a_value_without_deviation_has_no_z_and_says_so_in_its_table(numpy: notebook.Client) -> None:
    answer = numpy.value("m", "L1U5", top=2).answer.model_copy(update={"highest_z": (), "lowest_z": ()})
    assert {row["z"] for row in notebook.ValueInNumpy(answer).table()} == {None}


def test_a_search_and_a_lookup_in_numpy(numpy: notebook.Client) -> None:
    found = numpy.search("m", "Paris", limit=5)
    assert found.units[:2] == ("L0U0", "L1U5")
    assert found.rank.tolist() == [0, 1, 2, 3, 4]
    assert found.table()[1]["unit"] == "L1U5"
    assert list(found.figure().data[0].x) == pytest.approx(found.logit.tolist())
    near = numpy.lookup("m", "Paris", limit=3)
    assert near.table()[0]["score"] == pytest.approx(float(near.score[0]))
    assert len(near.figure().data[0].x) == 3


def test_where_a_value_fires_in_numpy(numpy: notebook.Client) -> None:
    view = View(model="m", text="a b c d e", edits=(FfnSet(layer=0, unit=0, to=1),), compare=True)
    found = numpy.fires(view, "L1U5")
    assert found.coefficient.shape == found.unedited.shape == (5,)
    assert [row["unedited"] for row in found.table()] == pytest.approx((found.coefficient / 2).tolist())
    edited, unedited = found.figure().data
    assert list(edited.y) == pytest.approx(found.coefficient.tolist())
    assert list(unedited.y) == pytest.approx(found.unedited.tolist())
    assert numpy.fires(View(model="m", text="a"), "L1U5").unedited is None


def test_words_on_an_axis_can_be_seen_and_are_safe() -> None:
    assert word_name("  Paris") == "␣␣Paris"
    assert word_name("\n") == "⏎"
    assert word_name("") == "∅"
    assert len(word_name("x" * 99)) == 14
    assert bars(["<b>"], [1.0], "t").layout.yaxis.ticktext == ("&lt;b&gt;",)
    assert bars([], [], "t").layout.annotations[0].text == "Nothing was found."


def test_notes_are_written_read_and_exchanged(client: blocking.Client, server: StandIn) -> None:
    ask = NoteAsk(digest="0" * 64, part="value", layer=1, index=5, name="Cities")
    written = client.note(ask)
    assert written is not None
    assert written.name == "Cities"
    assert client.note(ask.model_copy(update={"name": ""})) is None
    assert client.notes(digest="0" * 64, search="cit") == (written,)
    assert server.seen[-1][1].endswith("notes?digest=" + "0" * 64 + "&search=cit")
    exported = client.export_notes()
    assert exported == Notes(notes=(written,))
    assert client.import_notes(exported).written == 1
