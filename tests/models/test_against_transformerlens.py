"""Direct contributions, coefficients and the lens beside what TransformerLens says about the same weights."""

import json
from typing import Any

import numpy as np
import pytest

from backend.models import opening
from backend.models.cell import cell
from backend.models.contributions import contributions
from backend.models.loaded import Loaded
from backend.models.trace import trace
from backend.schema import Array, CellAsk, ContributionsAsk, Explain, Limits, Source, TraceAsk, View
from tests import tiny
from tests.models import transformerlens as theirs

Both = tuple[Loaded, View, dict[str, Any]]


@pytest.fixture(scope="module", params=theirs.KINDS)
def both(request: pytest.FixtureRequest) -> Both:
    """An open model, a view of it, and what TransformerLens told."""
    kind, source = request.param, Source(kind="folder", name=request.param)
    loaded = opening.prepare(theirs.model_of(kind), tiny.tokenizer_of("gpt2"), name=kind, source=source)
    return loaded, View(model=kind, text=theirs.TEXT), json.loads(theirs.FIXTURE.read_text("utf-8"))[kind]


def numbers(array: Array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


def test_every_parts_direct_contribution_is_theirs(both: Both) -> None:
    loaded, view, told = both
    explain = Explain(token=theirs.TOKEN, target=theirs.TARGET, foil=theirs.FOIL)
    answer = contributions(loaded, ContributionsAsk(view=view, explain=explain), Limits())
    assert list(answer.ids) == told["ids"]
    assert answer.edited.logits == pytest.approx(told["logits"], abs=1e-5)
    assert answer.edited.embedding == pytest.approx(told["embedding"], abs=1e-5)
    for name in ("attention", "feed_forward", "heads"):
        np.testing.assert_allclose(numbers(getattr(answer.edited, name)), told[name], atol=1e-5)


def test_every_coefficient_is_theirs(both: Both) -> None:
    loaded, view, told = both
    answer = cell(loaded, CellAsk(view=view, layer=1, token=theirs.TOKEN, values=100), Limits())
    found = {value.unit: value.coefficient for value in answer.edited.values}
    assert len(found) >= min(100, len(told["units"]))
    np.testing.assert_allclose(list(found.values()), [told["units"][unit] for unit in found], atol=1e-5)


def test_every_row_of_the_lens_is_theirs(both: Both) -> None:
    loaded, view, told = both
    answer = trace(loaded, TraceAsk(view=view, tracked=theirs.LENS), Limits())
    logits = numbers(answer.edited[0].tracked_logit)[1:, theirs.TOKEN]
    np.testing.assert_allclose(logits, told["lens"], atol=1e-5)
