"""Attention that calls no shared function is watched: every page has its answer, and what is no map is refused."""

import dataclasses

import pytest
import torch
from torch import Tensor

from backend import errors
from backend.models import attention, forward
from backend.schema import HeadAsk, HeadName, HeadScale, Limits, OverviewAsk, Reading, View
from tests import families
from tests.questions import some_ids

WATCHED = tuple(kind for kind in families.OPENED if families.FAMILIES[kind].watched)


@pytest.mark.parametrize("kind", ["falcon", "mpt", "xglm", "gpt_neo"])
def test_watched_maps_are_float32_where_the_model_is_not(kind):
    loaded = families.loaded(kind)
    loaded.model.to(torch.bfloat16)
    found: list[Tensor] = []
    ids = [some_ids(loaded)]
    asked = forward.run(loaded, ids, see=lambda call, maps: found.append(maps))
    for maps in found:
        assert maps.dtype == torch.float32
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]), rtol=0, atol=1e-5)
    assert torch.equal(asked, forward.run(loaded, ids)), "what the model goes on with is its own"


def test_watched_attention_stops_when_nobody_waits():
    loaded, layers = families.opened("bloom"), []

    def enough() -> None:
        if layers:
            raise errors.Cancelled("stopped", "nobody waits", "")

    with pytest.raises(errors.Cancelled):
        forward.run(loaded, [some_ids(loaded)], see=lambda call, maps: layers.append(call.layer), cancel=enough)
    assert layers == [0]
    assert forward.run(loaded, [some_ids(loaded)]).isfinite().all()


def test_a_text_from_which_keys_stand_for_several_tokens_is_refused_in_words(monkeypatch):
    """As sparse attention does beyond some length: its maps are not of tokens on tokens."""
    family = families.FAMILIES["deepseek_v4"]
    kinds = {"layer_types": ["heavily_compressed_attention"] * 2, "max_position_embeddings": 512}
    late = dataclasses.replace(family, config=family.config | kinds, type="deepseek_v4", refused="")
    monkeypatch.setitem(families.FAMILIES, "late", late)
    loaded = families.loaded("late")
    long = some_ids(loaded, tokens=140)
    assert forward.run(loaded, [long[:40]], see=lambda call, maps: None).isfinite().all()
    with pytest.raises(errors.CannotShow, match="where the text has 140 tokens"):
        forward.run(loaded, [long], see=lambda call, maps: None)
    assert forward.run(loaded, [long]).isfinite().all(), "without maps nothing is in the way"


@pytest.mark.parametrize("kind", WATCHED)
def test_watched_attention_answers_every_question_of_a_page(kind):
    """Two rows with edits, kept inputs, value-weighted: as of any other family, and equal to the plain model."""
    loaded = families.opened(kind)
    edits = () if families.FAMILIES[kind].heads else (HeadScale(layer=0, head=1, by=0),)
    text = "The quick brown fox jumps over the lazy dog."
    view = View(model=kind, text=text, edits=edits, compare=bool(edits))
    whole = attention.overview(loaded, OverviewAsk(view=view), Limits())
    assert (whole.unedited is not None) is bool(edits)
    heads = (HeadName(layer=1, head=1),)
    exact = attention.head(loaded, HeadAsk(view=view, heads=heads), Limits())
    with torch.no_grad():
        maps = families.plain(kind)(input_ids=torch.tensor([whole.ids]), output_attentions=True).attentions
    plain = exact.unedited or exact.edited
    found = torch.frombuffer(bytearray(plain.map.data), dtype=torch.float32).reshape(maps[1].shape[2:])
    torch.testing.assert_close(found, maps[1][0, 1], rtol=0, atol=1e-5)
    if not edits:
        return
    weighted = view.model_copy(update={"reading": Reading(weighted=True)})
    assert attention.head(loaded, HeadAsk(view=weighted, heads=heads), Limits()).unit == "norm"
