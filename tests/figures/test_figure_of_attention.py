"""One head drawn: what goes in unopened, what a hover says, and which scale the colours have."""

import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from backend.schema import HeadAsk, HeadName, HeadScale, Region, View
from frontend.figures.attention import head_map, row_entropy
from frontend.figures.names import axis_names, cell_edges, token_name
from frontend.figures.numbers import opened
from frontend.figures.theme import LOG_DECADES, shade
from tests.figures.answers import MadeUp, packed

TEXT = "When Mary and John went to the store ."
MODEL = MadeUp(layers=4, heads=6, kv_heads=3)


def answer(compare: bool = False, **more: Any) -> dict[str, Any]:
    edits = (HeadScale(layer=0, head=0, by=0.0),) if compare else ()
    view = View(model="made-up", text=more.pop("text", TEXT), edits=edits, compare=compare)
    asked = HeadAsk(view=view, heads=(HeadName(layer=1, head=2),), **more)
    return MODEL.head(asked).model_dump(mode="json")


def tokens(text: str = TEXT) -> list[dict[str, Any]]:
    return MODEL.tokens(View(model="made-up", text=text)).model_dump(mode="json")["tokens"]


def test_the_map_goes_in_unopened() -> None:
    given = answer()
    drawn = head_map(given, tokens()).to_plotly_json()["data"][0]["z"]
    assert drawn == given["edited"]["map"]
    assert isinstance(drawn["shape"], str)


def test_undefined_cells_are_gaps_and_do_not_decide_the_scale() -> None:
    given = answer()
    values = opened(given["edited"]["map"]).copy()
    values[3, 1] = np.nan
    given["edited"]["map"] = packed(values).model_dump()
    heat = head_map(given, tokens()).data[0]
    assert heat.hoverongaps is False
    assert heat.zmax == pytest.approx(np.nanmax(values))


def test_queries_go_down_and_keys_across_under_their_names() -> None:
    figure = head_map(answer(), tokens())
    heat = figure.data[0]
    assert heat.x[:3] == heat.y[:3] == ("0 When", "1 Mary", "2 and")
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1], "query 0 is on top"
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "category", "Plotly then thins labels as it zooms"


def test_a_hover_names_both_tokens_and_the_exact_value() -> None:
    heat = head_map(answer(), tokens()).data[0]
    assert "%{x}" in heat.hovertemplate
    assert "%{y}" in heat.hovertemplate
    assert "%{z:.4g}" in heat.hovertemplate


def test_half_precision_prints_fewer_digits() -> None:
    given = answer()
    given["conditions"]["dtype"] = "bfloat16"
    assert "%{z:.3g}" in head_map(given, tokens()).data[0].hovertemplate


def test_both_sides_share_one_scale() -> None:
    given = answer(compare=True)
    tops = [head_map(given, tokens(), side=side).data[0].zmax for side in ("edited", "unedited")]
    both = max(opened(given[side]["map"]).max() for side in ("edited", "unedited"))
    assert tops == [pytest.approx(both)] * 2


def test_a_difference_is_symmetric_around_zero() -> None:
    given = answer(compare=True)
    heat = head_map(given, tokens(), side="difference").data[0]
    assert heat.zmin == -heat.zmax
    assert heat.zmax == pytest.approx(np.abs(opened(given["difference"]["map"])).max())
    middle = len(heat.colorscale) // 2
    assert heat.colorscale[middle] == (0.5, "#f7f7f7")


@pytest.mark.parametrize("noise", [1e-6, 0.25])
def test_a_difference_scale_is_never_narrower_than_the_noise(noise: float) -> None:
    given = answer(compare=True)
    given["noise"] = noise
    given["difference"]["map"] = packed(np.zeros((9, 9), "f4")).model_dump()
    assert head_map(given, tokens(), side="difference").data[0].zmax == pytest.approx(noise)


def test_logarithmic_colours_leave_the_values_alone() -> None:
    given = answer()
    plain, log = (head_map(given, tokens(), scale=scale).data[0] for scale in ("linear", "log"))
    assert plain.z == log.z
    assert plain.colorscale != log.colorscale
    places = dict(log.colorscale)
    assert places[10.0 ** (-LOG_DECADES / 2)] == shade(0.5)


def test_the_logarithmic_bar_says_its_values() -> None:
    bar = head_map(answer(), tokens(), scale="log").data[1]
    assert bar.visible
    assert len(bar.marker.colorbar.ticktext) == LOG_DECADES + 1
    assert bar.marker.colorbar.ticktext[0].startswith("≤")


def test_a_page_can_change_the_scale_without_asking_again() -> None:
    meta = head_map(answer(), tokens()).layout.meta
    assert set(meta["scales"]) == {"linear", "log"}


@pytest.mark.parametrize("piece", ["<s>", "<|im_start|>", "a&b", "<b>bold</b>", "</a>"])
def test_a_token_cannot_become_markup(piece: str) -> None:
    text = f"one {piece} two"
    heat = head_map(answer(text=text), tokens(text)).data[0]
    assert "<" not in heat.x[1]
    assert heat.x[1].count("&") == piece.count("<") + piece.count(">") + piece.count("&")


def test_equal_tokens_keep_their_own_row() -> None:
    text = "the the the the"
    heat = head_map(answer(text=text), tokens(text)).data[0]
    assert len(set(heat.x)) == len(set(heat.y)) == 4


def test_a_reduced_map_says_so_and_names_ranges() -> None:
    text = " ".join(f"w{i}" for i in range(40))
    given = answer(text=text, cells=8)
    heat = head_map(given, tokens(text)).data[0]
    assert heat.x[0] == "0–4 w0"
    assert heat.x[-1] == "35–39 w35"
    assert "max of the cell" in heat.hovertemplate
    assert "max of each cell" in heat.colorbar.title.text


def test_a_region_is_labelled_with_its_own_tokens() -> None:
    given = answer(region=Region(q0=4, q1=7, k0=1, k1=5))
    heat = head_map(given, tokens()).data[0]
    assert heat.y == ("4 went", "5 to", "6 the")
    assert heat.x == ("1 Mary", "2 and", "3 John", "4 went")


@pytest.mark.parametrize(("first", "last", "cells"), [(0, 7, 3), (10, 523, 512), (0, 5, 5), (3, 4, 1)])
def test_cells_cover_every_token_once(first: int, last: int, cells: int) -> None:
    edges = cell_edges(first, last, cells)
    assert [place for low, high in edges for place in range(low, high)] == list(range(first, last))


@pytest.mark.parametrize(
    ("token", "name"),
    [
        ({"piece": " the"}, "the"),
        ({"piece": " "}, "␣"),
        ({"piece": "\n"}, "⏎"),
        ({"piece": "", "part": 0}, "∅"),
        ({"piece": "", "part": 2}, "◌2"),
        ({"piece": "\u200b"}, "ZWSP"),
        ({"piece": "é"}, "é"),
        ({"piece": "\x07"}, "·"),
    ],
)
def test_every_token_has_a_name_that_can_be_seen(token: dict[str, Any], name: str) -> None:
    assert token_name(token) == name


def test_long_names_are_cut_and_stay_unique() -> None:
    names = axis_names(["a" * 500, "a" * 500], 0, 2, 2)
    assert all(len(name) < 20 for name in names)
    assert names[0] != names[1]


def test_a_comparison_that_was_not_asked_for_is_a_sentence() -> None:
    figure = head_map(answer(), tokens(), side="difference")
    assert not figure.data
    assert "compare with unedited" in figure.layout.annotations[0].text


def test_row_entropy_stands_beside_ln_n() -> None:
    given = answer()
    traces = {trace.name: trace for trace in row_entropy(given, tokens()).data}
    assert traces["uniform: ln n"].y == given["uniform_entropy"]
    assert traces["edited"].y == given["edited"]["entropy"]
    assert np.allclose(opened(given["uniform_entropy"]), np.log(np.arange(1, 10)))


def test_an_edited_row_entropy_stands_beside_the_unedited() -> None:
    names = [trace.name for trace in row_entropy(answer(compare=True), tokens()).data]
    assert names == ["edited", "unedited", "uniform: ln n"]


def test_figures_are_json_that_plotly_accepts() -> None:
    figure = head_map(answer(compare=True), tokens(), side="difference", theme="dark")
    assert go.Figure(json.loads(figure.to_json())).data[0].type == "heatmap"


def test_a_map_without_tokens_still_has_axes() -> None:
    assert head_map(answer()).data[0].x[0] == "0 id 100"
