"""The map of patches as data: changes centred at zero, gaps where nothing was measured, both texts' tokens."""

from typing import Any

import numpy as np

from backend.schema import PatchMapAsk, View
from frontend.figures.numbers import opened
from frontend.figures.patch import LEAST, column_names, patch_map
from tests.figures import depth
from tests.figures.answers import MadeUp

MADE = MadeUp(layers=4, heads=2)
HERE, THERE = View(model="made-up", text="Rome is in Italy"), View(model="made-up", text="Lyon is in France")


def answer(done: float = 1.0, **more: Any) -> dict[str, Any]:
    return depth.patch_map(MADE, PatchMapAsk(view=HERE, source=THERE), done).model_dump(mode="json") | more


def tokens(view: View) -> list[dict[str, Any]]:
    return [token.model_dump(mode="json") for token in MADE.tokens(view).tokens]


def test_a_cell_is_the_change_from_the_unpatched_run() -> None:
    told = answer()
    (heat,) = patch_map(told).data
    np.testing.assert_allclose(np.asarray(heat.z), opened(told["logits"]) - told["unpatched"], atol=1e-6)
    assert heat.zmin == -heat.zmax
    assert heat.zmax == np.abs(np.asarray(heat.z)).max()


def test_what_was_not_measured_is_a_gap() -> None:
    (heat,) = patch_map(answer(0.5)).data
    assert np.isfinite(np.asarray(heat.z)[:2]).all()
    assert np.isnan(np.asarray(heat.z)[2:]).all()
    assert heat.customdata[3][0] == ""


def test_changes_that_are_rounding_do_not_fill_the_scale() -> None:
    told = answer()
    flat = np.full_like(opened(told["logits"]), told["unpatched"])
    (heat,) = patch_map(told | {"logits": depth.packed(flat).model_dump(mode="json")}).data
    assert heat.zmax == LEAST


def test_columns_name_both_tokens_where_the_texts_differ() -> None:
    told = answer(ids=[1, 2, 3, 4], source_ids=[9, 2, 3, 8])
    assert column_names(told, tokens(HERE), tokens(THERE)) == ["0 Lyon→Rome", "1 is", "2 in", "3 France→Italy"]


def test_a_hover_says_how_far_it_is_to_the_other_text() -> None:
    told = answer(unpatched=2.0, source=-2.0)
    logits = np.full_like(opened(told["logits"]), 1.0)
    (heat,) = patch_map(told | {"logits": depth.packed(logits).model_dump(mode="json")}).data
    assert "25% of the way to the other text" in heat.customdata[0][0]
    assert "after block 0" in heat.customdata[0][0]


def test_every_row_is_there() -> None:
    figure = patch_map(answer())
    assert list(figure.layout.yaxis.ticktext) == [f"after block {layer}" for layer in range(4)]
