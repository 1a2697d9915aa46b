"""Two models through every client: the typed one, the blocking one, and in numpy with tables and figures."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backend.schema import AlignmentAnswer, AlignmentAsk, ChangesAnswer, ChangesAsk, StitchingAnswer, StitchingAsk
from backend.studies import alignment, changes, stitching
from lmscope.answers import InNumpy
from lmscope.client import PATHS
from lmscope.compared import AlignmentInNumpy, ChangesInNumpy, StitchingInNumpy
from tests.studies import twins
from tests.studies.direct import Direct, Reported, Shelves


async def answer(study: Any, ask: Any) -> Any:
    made = twins.plain("llama")
    one = twins.opened(made, "llama", "one")
    changed = twins.plain("llama")
    changed.model.layers[1].mlp.down_proj.weight.data[:, 3] += 1
    other = twins.opened(changed, "llama", "other")
    card = SimpleNamespace(name="animals", id="a" * 64)
    texts = SimpleNamespace(card=card, texts=("The cat sat.", "The dog barked at the cat."))
    sets = SimpleNamespace(get=lambda id: texts)
    return await study(Direct(one), ask, Shelves(one, other, sets=sets), Reported())


def as_every_answer_is(found: InNumpy) -> None:
    assert found.csv().count("\n") == len(found.table()) + 1
    assert found.figure().data
    assert "one and other" in repr(found)
    assert "<table" in found._repr_html_()


async def test_changes_are_arrays_words_and_a_figure() -> None:
    found = ChangesInNumpy(
        ChangesAnswer.model_validate(await answer(changes.study, ChangesAsk(model="one", other="other")))
    )
    as_every_answer_is(found)
    assert found.names == ("L1U3",)
    assert found.norm == pytest.approx([32**0.5], rel=1e-5)
    assert len(found.towards[0]) == len(found.away[0]) == 8
    assert sum(row["changed"] for row in found.sizes) == 32
    assert found.labels() == []


async def test_alignments_are_arrays_by_group_and_a_figure() -> None:
    ask = AlignmentAsk(model="one", other="other", groups=("value", "vo"))
    found = AlignmentInNumpy(AlignmentAnswer.model_validate(await answer(alignment.study, ask)))
    as_every_answer_is(found)
    assert found.groups == ("value", "vo")
    assert found.scores["value"].shape == found.control["value"].shape == (4, 4)
    assert found.pairs["vo"] == tuple((layer, layer) for layer in range(4))
    assert len(found.table()) == 16
    assert found.figure("vo").data


async def test_stitched_models_are_arrays_and_a_figure() -> None:
    ask = StitchingAsk(model="one", other="other", cuts=(0, 2), texts=2)
    found = StitchingInNumpy(StitchingAnswer.model_validate(await answer(stitching.study, ask)))
    as_every_answer_is(found)
    assert found.kernel[:2] == ("stitched", "stitched")
    assert found.value.shape == found.agreement.shape == (6,)
    assert found.value[0] == pytest.approx(found.whole, abs=1e-3), "nothing differs before block 1's end"
    assert np.isfinite(found.agreement).all()


def test_each_question_has_its_route() -> None:
    assert [PATHS[form] for form in (ChangesAsk, AlignmentAsk, StitchingAsk)] == [
        f"weights/{name}" for name in ("changes", "alignment", "stitching")
    ]
