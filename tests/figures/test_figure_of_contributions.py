"""Contributions drawn as data: the parts, their order, and where direct and measured disagree."""

from typing import Any

import numpy as np
import pytest

from backend.schema import ContributionsAsk, EffectsAsk, View
from frontend.figures.contributions import contributions, parts_of
from frontend.figures.numbers import opened
from frontend.figures.theme import INK
from tests.figures import depth
from tests.figures.answers import MadeUp

MADE = MadeUp(layers=5, heads=4)
VIEW = View(model="made-up", text="The capital of France is")
ANSWER = depth.contributions(MADE, ContributionsAsk(view=VIEW, values=6)).model_dump(mode="json")
SIDE = ANSWER["edited"]


def effects(parts: str, done: float = 1.0, **more: Any) -> dict[str, Any]:
    return depth.effects(MADE, EffectsAsk(view=VIEW, parts=parts, **more), done).model_dump(mode="json")


def test_layers_are_the_sum_and_nothing_is_left_out() -> None:
    rows = parts_of(ANSWER, "layers")
    assert len(rows) == 1 + 2 * 5
    assert sum(row.direct for row in rows) == pytest.approx(SIDE["logits"], abs=1e-5)


def test_a_bias_at_the_end_is_a_part_of_its_own() -> None:
    rows = parts_of(ANSWER | {"edited": SIDE | {"rest": 0.25}}, "layers")
    assert [row.direct for row in rows if row.kind == "rest"] == [0.25]


def test_every_head_has_its_own_number_and_unreadable_ones_are_no_row() -> None:
    rows = {(row.layer, row.index): row.direct for row in parts_of(ANSWER, "heads")}
    heads = opened(SIDE["heads"])
    assert rows == {place: pytest.approx(float(value)) for place, value in np.ndenumerate(heads)}
    gone = heads.copy()
    gone[2] = np.nan
    holed = ANSWER | {"edited": SIDE | {"heads": depth.packed(gone).model_dump(mode="json")}}
    assert {row.layer for row in parts_of(holed, "heads")} == {0, 1, 3, 4}


def test_values_are_named_as_people_write_them() -> None:
    rows = parts_of(ANSWER, "values")
    assert {row.name for row in rows} == {f"L{unit['layer']}U{unit['unit']}" for unit in SIDE["units"]}


def test_rows_stand_by_their_direct_contribution_while_effects_come_in() -> None:
    before = parts_of(ANSWER, "heads")
    during = parts_of(ANSWER, "heads", {"heads": effects("heads", 0.5)})
    assert [row.name for row in during] == [row.name for row in before]
    sizes = [abs(row.direct) for row in before]
    assert sizes == sorted(sizes, reverse=True)
    assert any(row.effect is None for row in during)
    assert any(row.effect is not None for row in during)


def test_sorted_by_effect_the_unmeasured_come_last() -> None:
    rows = parts_of(ANSWER, "heads", {"heads": effects("heads", 0.5)}, order="effect")
    measured = [row.effect is not None for row in rows]
    assert measured == sorted(measured, reverse=True)
    sizes = [abs(row.effect) for row in rows if row.effect is not None]
    assert sizes == sorted(sizes, reverse=True)


def test_effects_of_a_layer_meet_its_own_rows() -> None:
    found = {"attention": effects("attention"), "feed_forward": effects("feed_forward")}
    rows = {(row.kind, row.layer): row for row in parts_of(ANSWER, "layers", found)}
    for kind, told in found.items():
        for each in told["parts"]:
            assert rows[kind, each["layer"]].effect == each["effect"]
    assert rows["embedding", None].effect is None


def test_disagreement_is_told_by_the_job_or_follows_from_both_numbers_beyond_noise() -> None:
    told = effects("feed_forward")
    silent = told | {"parts": [each | {"disagrees": None} for each in told["parts"]]}
    for found in (told, silent):
        rows = [row for row in parts_of(ANSWER, "layers", {"feed_forward": found}) if row.kind == "feed_forward"]
        assert [row.disagrees for row in rows] == [row.direct * row.effect < 0 for row in rows]
    faint = silent | {"noise": 99.0}
    assert not any(row.disagrees for row in parts_of(ANSWER, "layers", {"feed_forward": faint}))


def test_bars_are_hatched_exactly_where_signs_differ() -> None:
    rows = parts_of(ANSWER, "layers", {"attention": effects("attention"), "feed_forward": effects("feed_forward")})
    figure = contributions(rows, ANSWER["conditions"])
    direct, measured = figure.data
    assert list(direct.marker.pattern.shape) == ["/" if row.disagrees else "" for row in rows]
    assert list(measured.x) == [row.effect for row in rows]
    assert list(figure.layout.yaxis.categoryarray) == [row.name for row in rows]
    assert "measured" in measured.name


def test_without_effects_there_is_one_bar_a_part_and_zero_is_in_the_middle() -> None:
    figure = contributions(parts_of(ANSWER, "heads")[:7], ANSWER["conditions"])
    assert len(figure.data) == 1
    low, high = figure.layout.xaxis.range
    assert low == -high


def test_nothing_to_show_is_said() -> None:
    assert "No part" in contributions([], ANSWER["conditions"]).layout.annotations[0].text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_decides_the_ink(theme: str) -> None:
    figure = contributions(parts_of(ANSWER, "layers"), ANSWER["conditions"], theme=theme)
    assert figure.data[0].marker.color == INK[theme]["first"]
