"""Figures of the weights page's jobs: means with their intervals, where they belong, beside chance."""

from typing import Any

import numpy as np

from backend.schema import (
    ActiveAsk,
    AlignmentAsk,
    ChangesAsk,
    KeepAsk,
    SimilarityAsk,
    StitchingAsk,
)
from frontend.figures.two_models import alignment, changes, stitching
from frontend.figures.weight_studies import active, keep, similarity
from tests.figures import made_up_weight_jobs as made

TWO = {"model": "m", "other": "n"}


def answer(found: Any) -> dict[str, Any]:
    return dict(found.model_dump(mode="json"))


def test_every_point_of_a_study_has_its_interval_and_stands_at_its_place() -> None:
    drawn = keep(answer(made.keep(KeepAsk(model="m"))))
    assert len(drawn.data) == 6
    assert [list(drawn.data[0].x), list(drawn.data[0].y)] == [[10, 100, 1000], [0.3, 0.4, 0.5]]
    assert np.allclose([drawn.data[0].error_y.array, drawn.data[0].error_y.arrayminus], 0.05)
    by_layer = active(answer(made.active(ActiveAsk(model="m"))))
    assert [len(by_layer.data), list(by_layer.data[0].x)] == [16, [0, 1, 2, 3, 4, 5]]
    assert {line.line.dash for line in by_layer.data if "shuffled" in line.name} == {"dot"}
    pairs = similarity(answer(made.similarity(SimilarityAsk(model="m"))))
    assert [line.y[0] for line in pairs.data[:3]] == [0.3, 0.1, 0.08]  # the mean over all layers stands in the table


def test_two_models_are_maps_of_layers_and_a_curve_of_cuts() -> None:
    sizes = changes(answer(made.changes(ChangesAsk(**TWO)))).data[0]
    assert [list(sizes.x), list(sizes.y)] == [["q", "value"], [0, 1, 2]]
    assert np.allclose(sizes.z, [[0.05, 0.05], [0.15, 0.15], [0.25, 0.25]])
    found = answer(made.alignment(AlignmentAsk(**TWO)))
    maps = alignment(found, "value")
    assert [trace.type for trace in maps.data] == ["heatmap", "scatter", "scatter"] * 2
    assert [list(maps.data[2].x), list(maps.data[5].x)] == [[0, 1, 2, 3], [1, 2, 3, 0]]
    assert len(alignment(found | {"groups": []}, None).data) == 0
    best = alignment(answer(made.alignment(AlignmentAsk(**TWO, score="best"))), "value")
    assert maps.data[3].colorbar.title.text == "mean |correlation|"
    assert best.data[3].colorbar.title.text == "mean of the best |correlation|"
    cuts = stitching(answer(made.stitching(StitchingAsk(**TWO))))
    assert [line.name for line in cuts.data] == ["stitched by the vocabulary", "random kernel"]
    assert [shape.y0 for shape in cuts.layout.shapes] == [0.9, 0.5]  # the upper model alone, and chance
