"""Numbers survive the wire as documented."""

import numpy as np
import pytest
import torch

from backend.measure.array import sqrt_bytes, to_array, to_i1


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float32, "f4"), (torch.float64, "f4"), (torch.bfloat16, "f4"), (torch.int64, "i4"), (torch.uint8, "u1")],
)
def test_a_tensor_keeps_its_numbers_and_shape(dtype, name):
    tensor = torch.arange(6).reshape(2, 3).to(dtype).T
    array = to_array(tensor)
    assert (array.dtype, array.shape) == (name, "3, 2")
    np.testing.assert_array_equal(numbers(array), tensor.float().numpy())


def test_probabilities_are_round_255_sqrt_p():
    p = torch.tensor([0.0, 1e-6, 0.25, 0.5, 1.0, 1.0000002])
    assert sqrt_bytes(p).tolist() == [0, 0, 128, 180, 255, 255]
    assert p[2] == 0.25


def test_a_difference_comes_back_within_half_a_step():
    difference = torch.linspace(-0.3, 0.2, 101)
    array, scale = to_i1(difference)
    assert scale == pytest.approx(0.3 / 127)
    assert np.abs(numbers(array) * scale - difference.numpy()).max() <= scale / 2 + 1e-7


def test_a_difference_scale_is_never_narrower_than_the_noise():
    array, scale = to_i1(torch.tensor([1e-8, -1e-8]), floor=1e-3)
    assert scale == pytest.approx(1e-3 / 127)
    assert numbers(array).tolist() == [0, 0]
    assert to_i1(torch.zeros(3))[1] == 1.0
