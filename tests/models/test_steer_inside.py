"""A steer taken apart, against the decomposition of its whole matrix and the products with the embedding."""

import copy

import numpy as np
import pytest
import torch

from backend import errors
from backend.models import steer_inside as instrument
from backend.models.vectors import SteerMatrix
from backend.schema import InsideAnswer, InsideAsk, Limits
from tests import families, tiny
from tests.models.test_steer import ONE, Made


def inside(loaded, **options) -> InsideAnswer:
    return instrument.inside(loaded, InsideAsk(model="tiny", steer=ONE, **options), Limits())


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "opt", "cohere"])
def test_its_words_are_those_of_the_whole_matrix(kind):
    loaded = copy.copy(families.opened(kind))
    loaded.vectors = Made(loaded)
    answer = inside(loaded, top=6)
    matrix, table_VD = loaded.vectors.steer(ONE), loaded.anatomy.unembedding.weight.double()
    left, singular, right = torch.linalg.svd(matrix.left_DK.double() @ matrix.right_KD.double())
    assert (answer.rank, len(answer.dimensions)) == (2, 2)
    assert answer.norm == pytest.approx(float(singular.norm()), rel=1e-6)
    for place, dimension in enumerate(answer.dimensions):
        assert dimension.singular == pytest.approx(float(singular[place]), rel=1e-6)
        assert dimension.share == pytest.approx(float((singular[place] / singular.norm()) ** 2), rel=1e-6)
        writes_V, reads_V = table_VD @ right[place], table_VD @ left[:, place]
        sign = 1 if float(writes_V.max()) >= -float(writes_V.min()) else -1
        for ends, logits_V in ((dimension.writes, sign * writes_V), (dimension.reads, sign * reads_V)):
            assert list(ends.highest) == logits_V.topk(6).indices.tolist()
            assert list(ends.lowest) == (-logits_V).topk(6).indices.tolist()
            np.testing.assert_allclose(ends.highest_logit, logits_V.topk(6).values, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(ends.lowest_logit, -(-logits_V).topk(6).values, rtol=1e-4, atol=1e-5)
        assert dimension.writes.highest_logit[0] >= -dimension.writes.lowest_logit[0], "the furthest stands at +"
    shown = np.frombuffer(answer.scatter.data, "<f4").reshape(answer.scatter.dims)
    first, ids = answer.dimensions[0].writes, list(answer.scatter_ids)
    assert shown[ids.index(first.highest[0]), 0] == pytest.approx(first.highest_logit[0], rel=1e-4)
    assert shown[ids.index(first.lowest[0]), 0] == pytest.approx(first.lowest_logit[0], rel=1e-4)
    assert {str(id) for id in ids} <= set(answer.words)


def test_a_sign_is_no_choice_of_whoever_made_the_steer():
    loaded = tiny.loaded("llama")
    loaded.vectors = made = Made(loaded)
    before = inside(loaded)
    matrix = made.steer(ONE)
    made.steers[ONE] = SteerMatrix(-matrix.left_DK, -matrix.right_KD)
    after = inside(loaded)
    assert [each.writes.highest for each in after.dimensions] == [each.writes.highest for each in before.dimensions]
    assert [each.reads.lowest for each in after.dimensions] == [each.reads.lowest for each in before.dimensions]


def test_rank_one_has_one_direction_and_no_second_axis_and_zero_has_none():
    loaded = tiny.loaded("llama")
    loaded.vectors = made = Made(loaded)
    dice = torch.Generator().manual_seed(1)
    made.steers[ONE] = SteerMatrix(torch.randn(32, 1, generator=dice), torch.randn(1, 32, generator=dice))
    answer = inside(loaded)
    assert (answer.rank, len(answer.dimensions)) == (1, 1)
    assert answer.dimensions[0].share == pytest.approx(1)
    shown = np.frombuffer(answer.scatter.data, "<f4").reshape(answer.scatter.dims)
    assert np.isfinite(shown[:, 0]).all()
    assert np.isnan(shown[:, 1]).all()
    made.steers[ONE] = SteerMatrix(torch.zeros(32, 2), torch.zeros(2, 32))
    nothing = inside(loaded)
    assert (nothing.rank, nothing.norm, nothing.dimensions, nothing.scatter_ids) == (0, 0.0, (), ())


def test_a_steer_of_another_width_is_refused():
    loaded = tiny.loaded("llama")
    loaded.vectors = made = Made(loaded)
    made.steers[ONE] = SteerMatrix(torch.ones(16, 1), torch.ones(1, 16))
    with pytest.raises(errors.CannotShow, match="does not fit"):
        inside(loaded)
    assert instrument.inside_bytes(loaded, InsideAsk(model="tiny", steer=ONE), Limits()) > 0
