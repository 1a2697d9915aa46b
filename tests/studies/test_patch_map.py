"""Every cell of a map is a solo run with that one patch."""

from typing import Any

import pytest
import torch

from backend import errors
from backend.measure.array import from_array
from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.patch import patch
from backend.models.plan import Row, fold
from backend.models.vectors import Vectors
from backend.schema import Explain, HeadName, HeadScale, Limits, PatchAsk, PatchMapAsk, PatchPlace, View
from backend.studies.patch_map import begin, measure
from tests import tiny

TEXT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def llama() -> Loaded:
    return tiny.loaded("llama")


def views(**more: Any) -> dict[str, View]:
    return {
        "view": View(model="tiny-llama", text=TEXT, **more),
        "source": View(model="tiny-llama", text="The dog sat on the mat."),
    }


def mapped(loaded: Loaded, ask: PatchMapAsk):
    found = begin(loaded, lambda: None, ask=ask, limits=Limits())
    while found.done < len(found.cells):
        measure(loaded, lambda: None, found=found, most=5)
    return found.answer()


def difference(loaded: Loaded, answer: Any, ids: tuple[int, ...], edits: tuple, vectors: Any) -> float:
    plan = fold(loaded.anatomy, [Row(edits, len(ids))], len(ids), vectors)
    logits_V = forward.run(loaded, [ids], plan, logits=True)[0, answer.explained.token]
    return float(logits_V[answer.explained.target] - logits_V[answer.explained.foil])


@pytest.mark.parametrize("tap", ["residual", "heads", "ffn_out"])
def test_every_cell_equals_a_solo_run_with_that_one_patch(llama, tmp_path, tap):
    edits, vectors = (HeadScale(layer=0, head=2, by=2),), Vectors(tmp_path)
    asked = views(edits=edits)
    answer = mapped(llama, PatchMapAsk(**asked, tap=tap, explain=Explain(token=6)))
    logits_RT = from_array(answer.logits)
    assert logits_RT.shape == (3, 8)
    for layer in range(3):
        for token in range(8):
            places = [
                PatchPlace(tap=tap, layer=layer, head=head, token=token)
                for head in (range(4) if tap == "heads" else (None,))
            ]
            put = patch(llama, PatchAsk(**asked, places=tuple(places)), Limits(), vectors).edits
            expected = difference(llama, answer, answer.ids, edits + put, vectors)
            assert float(logits_RT[layer, token]) == pytest.approx(expected, abs=2e-5), (layer, token)
    assert answer.unpatched == pytest.approx(difference(llama, answer, answer.ids, edits, vectors), abs=1e-5)
    assert answer.source == pytest.approx(difference(llama, answer, answer.source_ids, (), vectors), abs=1e-5)
    assert (logits_RT[:, 7] == logits_RT[0, 7]).all(), "nothing after the explained token reaches it"


def test_cells_that_hold_the_same_in_both_runs_are_not_run(llama):
    found = begin(llama, lambda: None, ask=PatchMapAsk(**views()), limits=Limits())
    logits_RT = from_array(found.answer().logits)
    first = 2  # of the token that differs
    assert {token for _, token in found.cells} == set(range(first, 8))
    assert bool(torch.isnan(logits_RT[:, first:]).all())
    assert bool((logits_RT[:, :first] == found.base.pair.explained.logits).all())


def test_the_last_block_s_cell_at_the_explained_token_gives_the_source_s_answer(llama):
    answer = mapped(llama, PatchMapAsk(**views()))
    assert float(from_array(answer.logits)[-1, -1]) == pytest.approx(answer.source, abs=1e-5)
    assert answer.rows == ("after block 0", "after block 1", "after block 2")


def test_heads_that_are_named_have_a_row_each(llama):
    heads = (HeadName(layer=2, head=1), HeadName(layer=0, head=3))
    answer = mapped(llama, PatchMapAsk(**views(), tap="heads", heads=heads))
    assert answer.rows == ("head 2.1", "head 0.3")
    assert from_array(answer.logits).shape == (2, 8)


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        ({"heads": (HeadName(layer=0, head=0),)}, errors.BadQuestion, "would be ignored"),
        ({"tap": "heads", "heads": (HeadName(layer=5, head=0),)}, errors.CannotShow, "no layer 5"),
        ({"explain": Explain(token=8)}, errors.CannotShow, "no token 8"),
        ({"source": View(model="tiny-llama", text="The cat.")}, errors.CannotShow, "different numbers of tokens"),
    ],
)
def test_what_cannot_be_mapped_is_refused_in_words(llama, more, kind, words):
    with pytest.raises(kind, match=words):
        begin(llama, lambda: None, ask=PatchMapAsk(**views() | more), limits=Limits())


def test_a_map_that_is_too_large_is_refused_with_both_numbers(llama, monkeypatch):
    monkeypatch.setattr("backend.studies.patch_map.CELLS_MOST", 20)
    with pytest.raises(errors.TooLarge) as refused:
        begin(llama, lambda: None, ask=PatchMapAsk(**views()), limits=Limits())
    assert (refused.value.needed, refused.value.available) == (24, 20)
