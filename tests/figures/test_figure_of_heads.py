"""Figure 1 of the lecture as data."""

from typing import Any

import numpy as np
import pytest

from backend.schema import HeadsAsk, HeadScale, View
from frontend.figures.heads import by_layer
from frontend.figures.numbers import decimals, opened, printed
from frontend.figures.statistics import LABELS, WORDS, find
from tests.figures.answers import MadeUp, packed

MODEL = MadeUp(layers=5, heads=7, kv_heads=7)


def answer(compare: bool = False, causal: bool = True) -> dict[str, Any]:
    edits = (HeadScale(layer=0, head=0, by=0.0),) if compare else ()
    view = View(model="made-up", text="one two three four", edits=edits, compare=compare)
    model = MODEL if causal else MadeUp(layers=5, heads=7, kv_heads=7, causal=False)
    return model.all_heads(HeadsAsk(view=view)).model_dump(mode="json")


def test_every_head_is_a_dot_above_its_layer() -> None:
    given = answer()
    dots = by_layer(given).data[0]
    value = opened(find(given["edited"], "entropy")["value"])
    assert np.allclose(dots.y, value.ravel())
    assert [list(each[:2]) for each in dots.customdata] == [[layer, head] for layer in range(5) for head in range(7)]
    assert np.array_equal(np.round(dots.x).reshape(5, 7), np.repeat(np.arange(5.0)[:, None], 7, 1))
    assert len(set(dots.x)) == 35, "no dot hides another of its layer"


def test_the_line_is_the_mean_of_each_layer_over_defined_heads() -> None:
    given = answer()
    entropy = find(given["edited"], "entropy")
    values = opened(entropy["value"]).copy()
    values[2, :3] = np.nan
    values[4] = np.nan
    entropy["value"] = packed(values).model_dump()
    line = by_layer(given).data[1]
    assert line.y[2] == pytest.approx(values[2, 3:].mean())
    assert line.y[4] is None


def test_the_uniform_baseline_is_drawn() -> None:
    given = answer()
    baseline = by_layer(given).data[-1]
    assert baseline.name == "uniform attention"
    assert np.allclose(baseline.y, opened(find(given["edited"], "entropy")["uniform"]).mean(1))


def test_normalised_shows_the_statistic_of_that_name() -> None:
    given = answer()
    shown = by_layer(given, normalised=True)
    assert np.allclose(shown.data[0].y, opened(find(given["edited"], "normalised")["value"]).ravel())
    assert shown.layout.yaxis.title.text == "Normalised entropy, ratio"
    assert by_layer(given, statistic="previous", normalised=True).layout.yaxis.title.text.startswith("Previous")


def test_axes_say_the_unit() -> None:
    assert by_layer(answer()).layout.yaxis.title.text == "Entropy, nats"
    assert by_layer(answer()).layout.xaxis.title.text == "layer"


def test_edited_dots_stand_beside_unedited_ones() -> None:
    given = answer(compare=True)
    names = [trace.name for trace in by_layer(given).data]
    assert names == ["heads, unedited", "heads, edited", "mean of each layer", "uniform attention"]


def test_a_difference_has_no_baseline_and_shows_its_zero() -> None:
    figure = by_layer(answer(compare=True), side="difference")
    assert [trace.name for trace in figure.data] == ["heads, difference", "mean of each layer"]
    assert figure.layout.yaxis.zeroline is True
    assert figure.layout.yaxis.title.text.startswith("Edited − unedited")


@pytest.mark.parametrize("noise", [0.0, 1e-6, 5.0])
def test_a_difference_axis_is_never_narrower_than_the_noise(noise: float) -> None:
    given = answer(compare=True)
    entropy = find(given["difference"], "entropy")
    assert entropy is not None
    entropy |= {"noise": noise, "value": packed(np.full((5, 7), 1e-7, "f4")).model_dump()}
    shown = by_layer(given, side="difference").layout.yaxis.range
    assert shown == (None if noise == 0 else (-noise, noise))


def test_every_statistic_of_the_schema_has_words() -> None:
    assert set(WORDS) == set(LABELS)


def test_what_is_undefined_everywhere_is_a_sentence_and_not_a_zero() -> None:
    figure = by_layer(answer(), statistic="next")
    assert not figure.data
    assert "n/a" in figure.layout.annotations[0].text


def test_the_open_head_is_marked_by_more_than_colour() -> None:
    sizes = by_layer(answer(), chosen=((1, 2),)).data[0].marker.size
    assert sizes[1 * 7 + 2] > sizes[0]
    assert sum(size == max(sizes) for size in sizes) == 1


def test_a_hybrid_model_keeps_its_own_layer_numbers() -> None:
    given = answer()
    given["layers"] = [3, 7, 11, 15, 19]
    figure = by_layer(given)
    assert figure.data[1].x == (3, 7, 11, 15, 19)
    assert figure.data[0].customdata[7][0] == 7


@pytest.mark.parametrize("statistic", list(LABELS))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_statistic_can_be_drawn(statistic: str, theme: Any) -> None:
    assert by_layer(answer(causal=False), statistic=statistic, theme=theme).to_json()


@pytest.mark.parametrize(
    ("value", "unit", "dtype", "text"),
    [
        (2.34567, "nats", "float32", "2.346"),
        (2.34567, "nats", "bfloat16", "2.35"),
        (0.123456, "share", "float32", "0.1235"),
        (float("nan"), "share", "float32", "n/a"),
        (12.3456, "tokens", "float32", "12.35"),
        (0.0, "share", "float32", "0.0000"),
    ],
)
def test_numbers_have_the_digits_that_the_dtype_carries(value: float, unit: str, dtype: str, text: str) -> None:
    assert printed(value, unit, {"dtype": dtype}) == text
    assert decimals(unit, {"dtype": dtype}) >= 1
