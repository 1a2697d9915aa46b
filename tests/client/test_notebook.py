"""In a notebook the same answers are numpy arrays, tables and figures."""

import csv
import io
from collections.abc import Iterator

import numpy as np
import pytest

import lmscope
from backend.schema import Array, HeadAsk, HeadScale, OverviewAsk, Scores, View
from lmscope.client import head_names
from lmscope.notebook import AttentionInNumpy, Client, HeadInNumpy, TokensInNumpy, TraceInNumpy, numbers
from tests.client.stand_in import StandIn
from tests.figures.answers import MadeUp, packed

VIEW = View(model="m", text="The cat sat on the mat because it was tired .")
COMPARED = VIEW.model_copy(update={"compare": True})
EDITED = COMPARED.model_copy(update={"edits": (HeadScale(layer=0, head=0, by=0.0),)})


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(app=StandIn().app) as client:
        yield client


def test_the_front_door_gives_this_client_and_the_view() -> None:
    assert lmscope.Client is Client
    assert lmscope.View is View


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "f4"])
def test_an_array_opens_in_its_own_type_and_shape(dtype: str) -> None:
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    opened = numbers(packed(values))
    assert opened.dtype == np.dtype(dtype)
    assert np.array_equal(opened, values)
    assert numbers(Array.pack("u1", (0, 4), b"")).shape == (0, 4)


def test_maps_are_probabilities_within_the_stated_precision(client: Client) -> None:
    answer = client.attention(VIEW)
    true = np.stack([[MadeUp().probabilities(layer, head, 11) for head in range(6)] for layer in range(4)])
    assert answer.maps.shape == (4, 6, 11, 11)
    assert answer.maps.dtype == np.float32
    assert np.abs(answer.maps - true).max() <= answer.precision < 0.004
    assert np.array_equal(answer.maps, answer.edited.maps)


def test_every_rounding_stays_within_the_stated_precision() -> None:
    true = np.linspace(0, 1, 100_001)
    wire = np.round(255 * np.sqrt(true))
    assert np.abs((wire / 255) ** 2 - true).max() <= 1 - (254.5 / 255) ** 2


def test_statistics_come_by_name_with_nan_where_undefined(client: Client) -> None:
    answer = client.attention(VIEW)
    assert answer.entropy.shape == answer.statistics["entropy"].shape == (4, 6)
    assert np.isnan(answer.statistics["next"]).all()
    assert set(answer.statistics) == set(answer.uniform)
    assert np.array_equal(client.heads(VIEW).entropy, answer.entropy)
    assert answer.layers == (0, 1, 2, 3)


def test_a_difference_is_edited_minus_unedited_within_its_precision(client: Client) -> None:
    answer = client.attention(COMPARED)
    assert answer.unedited is not None
    assert answer.difference is not None
    apart = answer.maps - answer.unedited.maps
    assert np.abs(answer.difference.maps - apart).max() <= answer.difference.precision + 2 * answer.precision
    assert client.attention(VIEW).difference is None


def test_one_head_comes_exactly(client: Client) -> None:
    answer = client.head(COMPARED, "1.2", token=4, links=5)
    exact = MadeUp().probabilities(1, 2, 11)
    assert np.array_equal(answer.map, exact)
    assert answer.looks_at is not None
    assert answer.looked_at_by is not None
    assert np.array_equal(answer.looks_at, exact[4])
    assert np.array_equal(answer.looked_at_by, exact[:, 4])
    assert answer.strongest.shape == answer.weights.shape == (11, 5)
    assert np.allclose(answer.undrawn + answer.weights.sum(1), 1, atol=1e-6)
    assert np.allclose(answer.uniform_entropy, np.log(np.arange(1, 12)), atol=1e-6)
    assert answer.difference is not None
    assert answer.difference.entropy is None or answer.difference.entropy.shape == (11,)
    assert client.head(VIEW, "1.2").unedited is None


def test_tables_have_a_row_for_each_thing_and_none_where_undefined(client: Client) -> None:
    heads = client.attention(COMPARED).table()
    assert [(row["layer"], row["head"]) for row in heads[:7]] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (0, 5),
        (1, 0),
    ]
    assert heads[0]["next"] is None
    assert {"entropy", "entropy_uniform", "unedited_entropy", "unedited_entropy_uniform", "difference_entropy"} <= set(
        heads[0]
    )
    rows = client.head(VIEW, "1.2").table()
    assert len(rows) == 11
    assert (rows[0]["key_0"], rows[0]["key_1"], rows[0]["weight_1"]) == (0, None, None)
    tokens = client.tokens(VIEW).table()
    assert [row["piece"] for row in tokens[:2]] == ["The", " cat"]


def test_tables_are_comma_separated_values_too(client: Client) -> None:
    answers = (client.attention(VIEW), client.heads(VIEW), client.head(VIEW, "0.0"), client.tokens(VIEW))
    for answer in (*answers, client.trace(VIEW, tracked=(6,))):
        read = list(csv.DictReader(io.StringIO(answer.csv())))
        assert [list(row) for row in read] == [list(row) for row in answer.table()]
    assert next(csv.DictReader(io.StringIO(client.heads(VIEW).csv())))["next"] == ""


def scored() -> TokensInNumpy:
    """A made-up answer with scores."""
    answer = MadeUp().tokens(VIEW)
    reals = packed(np.array([np.nan, *range(1, 11)], "f4"))
    scores = Scores(surprisal=reals, probability=reals, rank=packed(np.arange(-1, 10, dtype="i4")), entropy=reals)
    return TokensInNumpy(answer.model_copy(update={"scores": scores, "unedited": scores}))


def test_scores_of_tokens_are_arrays_and_the_first_is_undefined() -> None:
    answer = scored()
    assert answer.surprisal is not None
    assert np.isnan(answer.surprisal[0])
    row = answer.table()[0]
    assert (row["surprisal"], row["rank"], row["unedited_rank"]) == (None, None, None)
    assert answer.table()[1]["rank"] == 0
    assert TokensInNumpy(MadeUp().tokens(VIEW)).surprisal is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_answer_has_its_figure(client: Client, theme: str) -> None:
    attention, head = client.attention(COMPARED), client.head(COMPARED, "1.2")
    figures = [
        attention.figure(theme=theme),
        attention.figure("previous", "difference", theme=theme),
        attention.grid(theme=theme),
        attention.grid("difference", theme=theme),
        client.heads(VIEW).figure(theme=theme),
        head.figure(theme=theme),
        head.figure("difference", theme=theme),
        head.entropy_figure(theme=theme),
        scored().figure(theme=theme),
        scored().figure("entropy", theme=theme),
        client.trace(EDITED, tracked=(6,)).figure("rank", "unedited", theme=theme),
        client.trace(EDITED, tracked=(6,)).tracked_figure(theme=theme),
    ]
    for figure in figures:
        assert figure.data
        assert not figure.layout.annotations
        assert figure.layout.paper_bgcolor in ("#ffffff", "#1f242b")
        assert figure.to_json()


def test_the_grid_shows_each_map_in_its_place(client: Client) -> None:
    answer = client.attention(VIEW)
    (heat,) = answer.grid().data
    picture = np.asarray(heat.z)
    assert picture.shape == (4 * 12 - 1, 6 * 12 - 1)
    wire = numbers(answer.answer.edited.maps)
    assert np.array_equal(picture[12:23, 24:35], wire[1, 2])
    assert np.isnan(picture[11]).all()


def test_what_is_missing_is_said_in_the_figure(client: Client) -> None:
    assert "no comparison" in client.attention(VIEW).grid("difference").layout.annotations[0].text
    assert "no scores" in TokensInNumpy(MadeUp().tokens(VIEW)).figure().layout.annotations[0].text


def test_an_answer_prints_small_and_escaped() -> None:
    made = MadeUp()
    answer = AttentionInNumpy(made.overview(OverviewAsk(view=VIEW)).model_copy(update={"notices": ("a <b> c",)}))
    html = answer._repr_html_()
    assert "a &lt;b&gt; c" in html
    assert "16 more rows" in html
    assert len(html) < 10_000
    assert repr(answer) == "<AttentionInNumpy of made-up, 11 tokens>"
    head = HeadInNumpy(made.head(HeadAsk(view=VIEW, heads=head_names("0.0"))))
    assert "<table>" in head._repr_html_()


def test_a_lens_comes_as_arrays_and_words(client: Client) -> None:
    answer = client.trace(EDITED, top=3, tracked=(6, 0))
    assert isinstance(answer, TraceInNumpy)
    assert answer.words.shape == answer.word_ids.shape == answer.probability.shape == (5, 11, 3)
    assert all(answer.answer.words[str(id)] == word for id, word in zip(
        answer.word_ids.ravel().tolist(), answer.words.ravel().tolist(), strict=True))  # fmt: skip
    assert answer.entropy.shape == answer.final.shape == (5, 11)
    assert answer.rank.shape == answer.tracked_probability.shape == answer.tracked_logit.shape == (5, 11, 2)
    assert answer.settled is not None
    assert answer.settled.shape == (11,)
    assert answer.unedited is not None
    assert not np.array_equal(answer.unedited.entropy, answer.entropy)
    assert client.trace(VIEW).unedited is None


def test_the_table_of_a_lens_has_a_row_for_each_cell(client: Client) -> None:
    answer = client.trace(EDITED, top=3, tracked=(6,))
    rows = answer.table()
    assert [(row["position"], row["row"]) for row in rows[:6]] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0)]
    cell = rows[2 * 5 + 3]
    assert cell["word_0"] == answer.words[3, 2, 0]
    assert cell["probability_2"] == answer.probability[3, 2, 2]
    assert cell["rank_of_6"] == answer.rank[3, 2, 0]
    assert answer.unedited is not None
    assert cell["unedited_entropy"] == answer.unedited.entropy[3, 2]
