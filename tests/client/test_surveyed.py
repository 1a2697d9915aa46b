"""All heads and the studies of weights through every client: typed, blocking, and in numpy with tables and figures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend.measure import intervals, keep
from backend.models.kept_answers import KeptAnswers
from backend.models.sets import Sets
from backend.schema import ActiveAsk, Filters, KeepAsk, SetAsk, SimilarityAsk, SummariesAsk, TablesAsk
from backend.studies import active, head_tables, keeping, similarity
from lmscope import blocking, notebook
from lmscope.client import PATHS, AsyncClient
from tests import tiny
from tests.client.stand_in import StandIn
from tests.studies.direct import Direct, Reported, Shelves

LOADED = tiny.Once()
STUDIES: dict[type, Any] = {
    TablesAsk: head_tables.tables, SummariesAsk: head_tables.summaries, KeepAsk: keeping.study,
    ActiveAsk: active.study, SimilarityAsk: similarity.study,
}  # fmt: skip
METHODS: dict[str, tuple[dict[str, Any], Any]] = {
    "head_tables": (
        {"circuit": "qk", "top": 6, "filters": Filters(letters=True)},
        TablesAsk(model="m", circuit="qk", top=6, filters=Filters(letters=True)),
    ),
    "head_summaries": ({"top": 4, "reading": "raw"}, SummariesAsk(model="m", top=4, reading="raw")),
    "kept_words": (
        {"ks": (3, 9), "count": 6, "vectors": ("normal",)},
        KeepAsk(model="m", ks=(3, 9), count=6, vectors=("normal",)),
    ),
    "active_words": ({"k": 7, "groups": ("values",)}, ActiveAsk(model="m", k=7, groups=("values",))),
    "similarity": ({"k": 8, "pairings": ("keys_values",)}, SimilarityAsk(model="m", k=8, pairings=("keys_values",))),
}  # fmt: skip


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the clients asked; a study answers without a server."""
    for module in (intervals, keep):
        monkeypatch.setattr(module, "RESAMPLES", 20)
    texts = ("The cat sat on the mat, and the dog barked at the cat.", "Off with her head! said the Queen.")
    sets, seen = Sets(tmp_path), list[Any]()
    sets.__dict__["ours"] = sets.get(sets.keep(SetAsk(name="small", texts=texts)).id)
    shelves = Shelves(sets=sets, kept=KeptAnswers(tmp_path))

    async def study(self: AsyncClient, ask: Any, progress: Any) -> Any:
        seen.append(ask)
        return await STUDIES[type(ask)](Direct(LOADED["llama"]), ask, shelves, Reported())

    monkeypatch.setattr(AsyncClient, "_study", study)
    return seen


@pytest.mark.parametrize("name", METHODS)
async def test_each_study_is_one_method_with_a_typed_answer(asked: list[Any], name: str) -> None:
    options, ask = METHODS[name]
    async with AsyncClient(app=StandIn().app) as client:
        found = await getattr(client, name)("m", **options)
    with blocking.Client(app=StandIn().app) as other:
        assert getattr(other, name)("m", **options) == found
    assert asked == [ask, ask]
    assert PATHS[type(ask)].startswith("weights/")


def test_studies_in_numpy_have_arrays_tables_and_figures(asked: list[Any]) -> None:
    with notebook.Client(app=StandIn().app) as client:
        tables, heads, kept, moved, alike = (getattr(client, name)("m", **METHODS[name][0]) for name in METHODS)
    assert tables.score.shape == (12, 6)
    assert len(tables.table()) == 72
    seventh = tables.table()[6]
    assert (seventh["head"], seventh["row_id"], seventh["row"]) == ("0.1", tables.row_ids[1, 0], tables.rows[1][0])
    assert tables.figure().data[0].z[0][1] == pytest.approx(tables.same[1] / 6)
    assert heads.table()[5] == {"head": "1.1"} | {
        name: pytest.approx(getattr(heads, name)[1, 1]) for name in ("largest", "first", "rank", "copying", "same")
    }
    np.testing.assert_allclose(heads.figure("rank").data[0].z, heads.rank)
    assert (kept.curves, kept.k.tolist()) == ((("normal", "transpose"), ("normal", "pseudo")), [3, 9])
    assert kept.table()[3]["apart_low"] == kept.apart[1, 1, 1]
    assert set(moved.group) == {"values"}
    assert moved.table()[1]["shuffled_high"] == moved.shuffled[1, 2]
    assert alike.layer.tolist() == [0, 1, 2, -1]
    assert (alike.table()[3]["layer"], alike.table()[3]["more"]) == ("all", alike.more[3, 0])
    for study, drawn in ((kept, 2), (moved, 4), (alike, 3)):
        assert len(study.figure().data) == drawn
        assert study.notices[0] == study.answer.about
        assert study.csv().count("\n") == len(study.table()) + 1
