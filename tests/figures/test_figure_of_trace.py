"""The lens as data: every cell in its place, no number changed, no word turned into markup."""

import json
from html import unescape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from backend.schema import Focus, HeadScale, TraceAsk, View
from frontend.figures.numbers import opened
from frontend.figures.trace import COLOURS, COLUMNS_MOST, Lens, lens_grid, row_name, tracked, window_of, word_name
from tests.figures.answers import VOCABULARY, MadeUp

MODEL = MadeUp(layers=6)
TEXT = "The capital of France is"


def answer(text: str = TEXT, compare: bool = False, token: int | None = None, **more: Any) -> dict[str, Any]:
    edits = (HeadScale(layer=1, head=0, by=0.0),) if compare else ()
    view = View(model="made-up", text=text, edits=edits, compare=compare, focus=Focus(token=token))
    return MODEL.trace(TraceAsk(view=view, **more)).model_dump(mode="json")


def tokens(text: str = TEXT) -> list[dict[str, Any]]:
    return MODEL.tokens(View(model="made-up", text=text)).model_dump(mode="json")["tokens"]


def test_rows_go_down_from_the_embedding_to_the_answer() -> None:
    figure = lens_grid(answer(), tokens())
    axis = figure.layout.yaxis
    assert axis.range[0] > axis.range[1], "row 0 is on top"
    assert axis.ticktext[0] == "embedding"
    assert axis.ticktext[1] == "after block 0"
    assert axis.ticktext[-1] == "<b>answer: after block 5</b>"
    assert figure.layout.xaxis.ticktext == ("0 The", "1 capital", "2 of", "3 France", "4 is")


def test_a_slim_picture_names_its_rows_by_number_and_keeps_the_room_for_cells() -> None:
    axis = lens_grid(answer(), tokens(), width=300).layout.yaxis
    assert axis.ticktext == ("emb.", "0", "1", "2", "3", "4", "<b>answer</b>")
    assert axis.title.text == "after block"


@pytest.mark.parametrize(("colour", "field"), [("entropy", "entropy"), ("agreement", "final")])
def test_arrays_of_the_right_shape_go_in_unopened(colour: Any, field: str) -> None:
    given = answer()
    z = lens_grid(given, colour=colour).to_plotly_json()["data"][0]["z"]
    assert z["bdata"] == given["edited"][0][field]["bdata"]
    assert z["shape"] == "7, 5"


def test_the_rank_of_one_tracked_token_goes_in_unopened() -> None:
    given = answer(tracked=(6,))
    z = lens_grid(given, colour="rank").to_plotly_json()["data"][0]["z"]
    assert z == {**given["edited"][0]["rank"], "shape": "7, 5"}


def test_of_several_tracked_tokens_the_first_has_the_colours() -> None:
    given = answer(tracked=(6, 2))
    z = np.asarray(lens_grid(given, colour="rank").data[0].z)
    assert np.array_equal(z, opened(given["edited"][0]["rank"])[..., 0])


def test_the_colour_of_a_cell_is_the_probability_of_its_likeliest_word() -> None:
    given = answer()
    heat = lens_grid(given, colour="probability").data[0]
    assert np.array_equal(np.asarray(heat.z), opened(given["edited"][0]["probability"])[..., 0])
    assert (heat.zmin, heat.zmax) == (0, 1)


def test_each_cell_holds_its_likeliest_word_and_bold_agrees_with_the_answer() -> None:
    given = answer()
    ids = opened(given["edited"][0]["ids"])[..., 0]
    text = lens_grid(given, tokens()).data[0].text
    for row, column in np.ndindex(*ids.shape):
        assert text[row][column].startswith("<b>") == (ids[row, column] == ids[-1, column])
    assert "<b>Paris</b>" in [cell for line in text for cell in line]


def test_no_word_becomes_markup_and_what_nobody_can_see_has_a_sign() -> None:
    figure = lens_grid(answer(), tokens(), width=9000)
    cells = {cell.removeprefix("<b>").removesuffix("</b>") for line in figure.data[0].text for cell in line}
    assert {"&lt;s&gt;", "a&amp;b", "⏎", "∅"} & cells
    assert not any("<s>" in cell for cell in cells)
    assert not any("<s>" in hover for line in figure.data[0].customdata for hover in line)


@pytest.mark.parametrize(("width", "longest"), [(9000, 25), (700, 13), (530, 7), (450, 6)])
def test_words_are_cut_to_the_room_of_a_cell(width: int, longest: int) -> None:
    text = lens_grid(answer(), width=width).data[0].text
    plain = [cell.removeprefix("<b>").removesuffix("</b>") for line in text for cell in line]
    assert max(len(unescape(cell)) for cell in plain) <= longest


def test_where_no_word_fits_the_hover_still_has_it() -> None:
    text = " ".join(f"w{i}" for i in range(100))
    heat = lens_grid(answer(text), width=700).data[0]
    assert heat.text is None
    assert heat.texttemplate is None
    assert "after block 5" in heat.customdata[6][0]


def test_a_hover_has_all_words_entropy_agreement_and_rank() -> None:
    given = answer(tracked=(6,), top=5)
    said = lens_grid(given, tokens()).data[0].customdata[3][4]
    grid = given["edited"][0]
    for id, p in zip(opened(grid["ids"])[3, 4], opened(grid["probability"])[3, 4], strict=True):
        assert f"{p:.4g}  {word_name(VOCABULARY[id])}" in unescape(said)
    assert f"entropy {opened(grid['entropy'])[3, 4]:.3f} nats" in said
    assert f"rank of ·Rome: {opened(grid['rank'])[3, 4, 0] + 1}" in said
    assert "after block 2" in said
    assert "4 is" in said


def test_the_first_paint_has_the_last_row_and_the_focused_column_and_gaps() -> None:
    whole, part = answer(), answer(part="focus", token=2)
    (full,) = [np.asarray(lens_grid(whole).data[0].z)]
    figure = lens_grid(part, token=2)
    z = np.asarray(figure.data[0].z)
    assert np.array_equal(z[-1], full[-1])
    assert np.array_equal(z[:, 2], full[:, 2])
    assert np.isnan(z[:-1, [0, 1, 3, 4]]).all()
    assert figure.data[0].customdata[0][0] == ""
    assert figure.data[0].hoverongaps is False


def test_a_gap_is_no_word_and_no_rank() -> None:
    lens = Lens(answer(part="focus", token=2, tracked=(6,))["edited"], list(range(7)), list(range(5)))
    assert not lens.is_whole
    assert (lens.values("ids")[0, 0] == -1).all()
    z = np.asarray(lens_grid(answer(part="focus", token=2, tracked=(6,)), colour="rank").data[0].z)
    assert np.isnan(z[0, 0])


def test_both_sides_share_one_scale() -> None:
    given = answer(compare=True)
    tops = {lens_grid(given, side=side, colour="entropy").data[0].zmax for side in ("edited", "unedited")}
    assert tops == {max(opened(given[side][0]["entropy"]).max() for side in ("edited", "unedited"))}
    edited, unedited = (np.asarray(lens_grid(given, side=side).data[0].z) for side in ("edited", "unedited"))
    assert not np.array_equal(edited, unedited)


def test_ranks_are_coloured_by_their_logarithm_and_stay_exact() -> None:
    figure = lens_grid(answer(tracked=(6,)), colour="rank")
    places = [place for place, _ in figure.data[0].colorscale]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, pytest.approx(1))
    assert figure.data[0].showscale is False
    assert figure.data[1].visible is True
    assert figure.data[1].marker.colorbar.ticktext[0] == "1"


def test_the_open_cell_its_column_and_the_answer_are_marked_by_name() -> None:
    figure = lens_grid(answer(), token=1, row=3)
    boxes = {shape.name: shape for shape in figure.layout.shapes}
    assert (boxes["cell"].x0, boxes["cell"].y0, boxes["cell"].y1) == (0.5, 2.5, 3.5)
    assert (boxes["column"].y0, boxes["column"].y1) == (-0.5, 6.5)
    assert (boxes["answer"].y0, boxes["answer"].y1) == (5.5, 6.5)
    last = {shape.name: shape for shape in lens_grid(answer()).layout.shapes}
    assert (last["cell"].x0, last["cell"].y0) == (3.5, 5.5)


def test_a_long_text_is_shown_in_windows() -> None:
    text = " ".join(f"w{i}" for i in range(300))
    figure = lens_grid(answer(text), tokens(text), token=299)
    assert len(figure.data[0].x) == COLUMNS_MOST
    assert figure.data[0].x[-1] == 299
    assert window_of(300, 0) == (0, 128)
    assert window_of(300, 130) == window_of(300, 200) == (128, 256)
    assert window_of(5, 4) == (0, 5)


@pytest.mark.parametrize("compare", [False, True])
def test_a_token_is_followed_through_the_rows(compare: bool) -> None:
    given = answer(compare=compare, part="focus", token=3, tracked=(6, 0))
    figure = tracked(given, 0)
    lines = {(line.name, line.yaxis): np.asarray(line.y) for line in figure.data}
    assert len(lines) == (6 if compare else 3)
    grid = given["edited"][-1]
    assert np.allclose(lines["edited", "y3"], opened(grid["tracked_probability"])[:, 0, 1])
    assert np.array_equal(lines["edited", "y2"], opened(grid["rank"])[:, 0, 1] + 1)
    assert np.allclose(lines["edited", "y"], opened(grid["tracked_logit"])[:, 0, 1])
    assert figure.layout.showlegend is compare
    assert figure.layout.yaxis2.type == "log"


def test_a_column_of_a_whole_answer_gives_the_same_curve() -> None:
    part = tracked(answer(part="focus", token=3, tracked=(6, 0)), 0)
    whole = tracked(answer(tracked=(6, 0)), 0, token=3)
    for one, other in zip(part.data, whole.data, strict=True):
        assert np.array_equal(np.asarray(one.y), np.asarray(other.y))


def test_one_tracked_token_of_one_column_goes_in_unopened() -> None:
    given = answer(part="focus", tracked=(6,))
    line = tracked(given, 6).to_plotly_json()["data"][0]
    assert line["y"]["bdata"] == given["edited"][-1]["tracked_probability"]["bdata"]


def test_what_was_not_asked_for_is_a_sentence() -> None:
    assert "compare with unedited" in lens_grid(answer(), side="unedited").layout.annotations[0].text
    assert "No token is tracked" in lens_grid(answer(), colour="rank").layout.annotations[0].text
    assert "not tracked" in tracked(answer(), 3).layout.annotations[0].text


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("colour", list(COLOURS))
def test_figures_are_json_that_plotly_accepts_in_both_themes(theme: Any, colour: Any) -> None:
    given = answer(compare=True, tracked=(6,))
    for figure in (lens_grid(given, tokens(), colour=colour, theme=theme), tracked(given, 6, theme=theme)):
        assert go.Figure(json.loads(figure.to_json())).data


def test_a_lens_without_tokens_still_has_axes() -> None:
    assert lens_grid(answer()).layout.xaxis.ticktext[0] == "0 id 100"


@pytest.mark.parametrize(
    ("word", "name"), [(" the", "·the"), ("", "∅"), ("\n", "⏎"), ("\x07", "�"), (" ", "·"), ("a", "a")]
)
def test_a_word_shows_its_spaces(word: str, name: str) -> None:
    assert word_name(word) == name


def test_rows_are_named_as_they_are_counted() -> None:
    assert [row_name(row) for row in (0, 1, 30)] == ["embedding", "after block 0", "after block 29"]


def test_a_difference_is_edited_minus_unedited_of_the_edited_models_words() -> None:
    told = answer(compare=True)
    (heat,) = lens_grid(told, tokens(), side="difference").data
    after, before = opened(told["edited"][0]["probability"])[..., 0], opened(told["unedited"][0]["shown"])
    np.testing.assert_allclose(np.asarray(heat.z), after - before, atol=1e-7)
    assert heat.zmin == -heat.zmax
    assert heat.zmax == pytest.approx(np.abs(after - before).max())
    assert heat.text[-1][0] == lens_grid(told, tokens()).data[0].text[-1][0]
    assert "unedited" in heat.customdata[3][1]


def test_a_difference_below_the_noise_does_not_fill_the_scale() -> None:
    told = answer(compare=True)
    assert lens_grid(told | {"noise": 2.0}, tokens(), side="difference").data[0].zmax == 2.0


def test_without_a_comparison_the_difference_says_how_to_get_one() -> None:
    assert "compare with unedited" in lens_grid(answer(), tokens(), side="difference").layout.annotations[0].text


def test_the_first_paint_of_a_difference_has_gaps() -> None:
    (heat,) = lens_grid(answer(compare=True, part="focus"), tokens(), side="difference").data
    assert np.isnan(np.asarray(heat.z)[2, 0])
    assert np.isfinite(np.asarray(heat.z)[-1]).all()
