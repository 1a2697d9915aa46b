"""Both themes can be read, and the colour scales survive colour-blind eyes."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import frontend
from frontend.figures.theme import BLUE_WHITE_RED, INK, VIRIDIS, Theme, log_stops, shade, stops, template

COLOURS_JS = Path(frontend.__file__).parent / "assets" / "colours.js"


def luminance(colour: str) -> float:
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["text", "quiet", "first", "second", "mark"])
def test_words_and_marks_stand_out_from_their_panel(theme: Theme, name: str) -> None:
    assert contrast(INK[theme][name], INK[theme]["panel"]) >= 4.5


def test_the_sequential_scale_only_gets_lighter() -> None:
    assert all(luminance(a) < luminance(b) for a, b in pairwise(VIRIDIS))


def test_the_difference_scale_is_blue_white_red_and_even() -> None:
    lights = [luminance(colour) for colour in BLUE_WHITE_RED]
    assert lights.index(max(lights)) == len(lights) // 2
    assert all(a < b for a, b in pairwise(lights[: len(lights) // 2 + 1]))
    assert all(a > b for a, b in pairwise(lights[len(lights) // 2 :]))
    first, last = BLUE_WHITE_RED[1], BLUE_WHITE_RED[-2]
    assert int(first[5:], 16) > int(first[1:3], 16), "less is blue"
    assert int(last[1:3], 16) > int(last[5:], 16), "more is red"


def test_logarithmic_stops_rise_from_zero_to_one() -> None:
    places = [float(place) for place, _ in log_stops()]
    assert places[0] == 0
    assert places[-1] == 1
    assert places == sorted(places)


def test_a_shade_hits_the_stops() -> None:
    assert [shade(float(place)) for place, _ in stops()] == list(VIRIDIS)


def test_the_canvas_has_the_figures_colours() -> None:
    script = COLOURS_JS.read_text("utf-8")
    for name, colours in (("VIRIDIS", VIRIDIS), ("BLUE_WHITE_RED", BLUE_WHITE_RED)):
        listed = re.search(rf"const {name} = \[([^\]]*)\]", script)
        assert listed is not None
        assert tuple(re.findall(r"#[0-9a-f]{6}", listed.group(1))) == colours


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_figure_asks_for_no_font_of_elsewhere(theme: Theme) -> None:
    family = template(theme).layout.font.family
    assert family is not None
    assert family.startswith("system-ui")
