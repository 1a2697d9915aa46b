"""Where a value fires: the numbers that the write matrix itself receives, with and without edits."""

import numpy as np
import pytest
import torch

from backend import errors
from backend.models.fires import fires
from backend.schema import FfnSet, FiresAsk, Limits, View
from tests import families
from tests.bent import TEXT


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


def received(loaded, ids: tuple[int, ...], layer: int, unit: int) -> np.ndarray:
    """What the write matrix of a plain run is given, by a hook of its own."""
    found = []
    handle = loaded.anatomy.write[layer].register_forward_pre_hook(lambda module, given: found.append(given[0]))
    try:
        with torch.inference_mode():
            loaded.anatomy.trunk(torch.tensor([ids]))
    finally:
        handle.remove()
    return found[0].reshape(len(ids), -1)[:, unit].float().numpy()


@pytest.mark.parametrize("kind", families.WITH_UNITS)
def test_it_is_what_the_write_matrix_receives(kind):
    loaded = families.opened(kind)
    answer = fires(loaded, FiresAsk(view=View(model=loaded.name, text=TEXT), layer=1, unit=5), Limits())
    assert answer.unedited is None
    np.testing.assert_allclose(numbers(answer.edited), received(loaded, answer.ids, 1, 5), rtol=1e-5, atol=1e-6)


def test_an_edit_is_shown_beside_what_it_replaced():
    loaded = families.opened("llama")
    view = View(model=loaded.name, text=TEXT, edits=(FfnSet(layer=1, unit=5, to=3, at=(0, 2)),), compare=True)
    answer = fires(loaded, FiresAsk(view=view, layer=1, unit=5), Limits())
    edited, unedited = numbers(answer.edited), numbers(answer.unedited)
    assert edited[[0, 2]].tolist() == [3, 3]
    np.testing.assert_allclose(unedited, received(loaded, answer.ids, 1, 5), rtol=1e-5, atol=1e-6)
    others = [place for place in range(len(edited)) if place not in (0, 2)]
    np.testing.assert_array_equal(edited[others], unedited[others])


@pytest.mark.parametrize(("layer", "unit", "said"), [(9, 0, "layers"), (0, 10_000, "units")])
def test_a_unit_that_is_none_is_refused(layer, unit, said):
    loaded = families.opened("llama")
    with pytest.raises(errors.CannotShow) as refusal:
        fires(loaded, FiresAsk(view=View(model=loaded.name, text=TEXT), layer=layer, unit=unit), Limits())
    assert said in refusal.value.why
