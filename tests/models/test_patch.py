"""A patch puts in what the source's run holds there, and texts that do not fit are refused so that it helps."""

from typing import Any

import pytest
import torch
from torch import Tensor

from backend import errors
from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.patch import patch
from backend.models.plan import Row, fold
from backend.models.vectors import Vectors
from backend.schema import Edit, HeadScale, Limits, PatchAsk, PatchPlace, View
from tests import families, tiny
from tests.package_models import package_loaded

TEXT, SOURCE = "The cat sat on the mat.", "The dog sat on the mat."
EVERY_TAP = ("residual", "heads", "ffn_out")


def ask(loaded: Loaded, places: list[PatchPlace], **more: Any) -> PatchAsk:
    view = View(model=loaded.name, text=more.pop("text", TEXT), edits=more.pop("edits", ()))
    source = View(model=loaded.name, text=more.pop("source", SOURCE), edits=more.pop("source_edits", ()))
    return PatchAsk(view=view, source=source, places=tuple(places))


def run(loaded: Loaded, ids: tuple[int, ...], edits: tuple[Edit, ...], vectors: Any, taps: tuple[str, ...] = ()):
    """Logits [T, V], and what taps held."""
    found: dict[str, Tensor] = {}
    read = {tap: lambda held, tap=tap: found.__setitem__(tap, held.reshape(len(ids), -1).clone()) for tap in taps}
    plan = fold(loaded.anatomy, [Row(edits, len(ids))], len(ids), vectors)
    return forward.run(loaded, [ids], plan, logits=True, read=read)[0], found


def places_of(kind: str, layer: int, token: int) -> list[PatchPlace]:
    """One place a tap that the family lets be edited."""
    family = families.FAMILIES[kind]
    offered = {"residual": not family.stream, "heads": not family.heads, "ffn_out": not family.fed}
    return [
        PatchPlace(tap=tap, layer=layer, head=1 if tap == "heads" else None, token=token)
        for tap in EVERY_TAP if offered[tap]
    ]  # fmt: skip


@pytest.mark.parametrize("kind", families.OPENED)
def test_a_patch_from_the_same_run_is_a_no_op_and_from_another_puts_its_numbers_there(kind, tmp_path):
    loaded, vectors = families.opened(kind), Vectors(tmp_path)
    layer, token = families.FAMILIES[kind].layers[-1], 2
    places = places_of(kind, layer, token)
    if not places:
        return
    same = patch(loaded, ask(loaded, places, source=TEXT), Limits(), vectors)
    plain, _ = run(loaded, same.ids, (), vectors)
    for edit in same.edits:
        again, _ = run(loaded, same.ids, (edit,), vectors)
        assert torch.equal(again, plain), edit
    assert any("is there already" in notice for notice in same.notices)
    taps = tuple(f"{place.tap}.{layer}" for place in places)
    other = patch(loaded, ask(loaded, places), Limits(), vectors)
    _, theirs = run(loaded, other.source_ids, (), vectors, taps)
    for place, edit in zip(places, other.edits, strict=True):
        tap = f"{place.tap}.{layer}"
        _, held = run(loaded, other.ids, (edit,), vectors, (tap,))
        width = loaded.anatomy.shape.head_width
        part = slice(place.head * width, (place.head + 1) * width) if place.tap == "heads" else slice(None)
        assert torch.equal(held[tap][token, part], theirs[tap][token, part])
        assert edit.at == (token,)


@pytest.fixture(scope="module")
def llama() -> Loaded:
    return tiny.loaded("llama")


def test_the_last_token_of_the_last_stream_moves_the_whole_answer_to_the_source_s(llama, tmp_path):
    vectors = Vectors(tmp_path)
    place = PatchPlace(tap="residual", layer=2, token=7)
    answer = patch(llama, ask(llama, [place]), Limits(), vectors)
    patched, _ = run(llama, answer.ids, answer.edits, vectors)
    theirs, _ = run(llama, answer.source_ids, (), vectors)
    plain, _ = run(llama, answer.ids, (), vectors)
    torch.testing.assert_close(patched[-1], theirs[-1], rtol=0, atol=1e-5)
    assert torch.equal(patched[:-1], plain[:-1])


def test_the_source_s_own_edits_act_in_its_run_and_the_vector_says_how_it_was_made(llama, tmp_path):
    vectors = Vectors(tmp_path)
    place = PatchPlace(tap="heads", layer=1, head=3, token=4)
    plain, edited = (
        patch(llama, ask(llama, [place], source_edits=edits), Limits(), vectors).edits[0]
        for edits in ((), (HeadScale(layer=0, head=1, by=-3),))
    )
    assert plain.to != edited.to
    (card,) = (card for card in vectors.cards() if card.id == edited.to)
    assert card.name == "patch-head-1.3-token-4"
    assert all(words in card.recipe for words in ("head 1.3 at token 4", "tiny-llama", SOURCE, "head.scale"))


def test_texts_of_different_length_are_refused_with_both_counts_and_what_differs(llama, tmp_path):
    asked = ask(llama, [PatchPlace(tap="residual", layer=0, token=0)], source="The quick brown fox sat on the mat.")
    with pytest.raises(errors.CannotShow) as refused:
        patch(llama, asked, Limits(), Vectors(tmp_path))
    assert (refused.value.needed, refused.value.available) == (8, 10)
    assert 'from token 2 " cat" stands against " quick" " brown" " fox"' in refused.value.why
    assert "as many tokens" in refused.value.instead
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "kind", "words"),
    [
        ({"tap": "residual", "layer": 3, "token": 0}, errors.CannotShow, "no layer 3"),
        ({"tap": "residual", "layer": 0, "token": 8}, errors.CannotShow, "no token 8"),
        ({"tap": "heads", "layer": 0, "head": 4, "token": 0}, errors.CannotShow, "no head 0.4"),
        ({"tap": "heads", "layer": 0, "token": 0}, errors.BadQuestion, "is not a place"),
        ({"tap": "ffn_out", "layer": 0, "head": 1, "token": 0}, errors.BadQuestion, "is not a place"),
    ],
)
def test_a_place_that_is_not_there_is_refused(llama, tmp_path, place, kind, words):
    place = PatchPlace.model_validate(place)
    with pytest.raises(kind) as refused:
        patch(llama, ask(llama, [place]), Limits(), Vectors(tmp_path))
    assert words in refused.value.what
    assert not list(tmp_path.iterdir())


def test_what_a_family_does_not_let_be_edited_is_refused_with_the_reason(tmp_path):
    for kind, tap, words in (("falcon_h1", "ffn_out", "mamba.out_proj"), ("openai-gpt", "residual", "one residual")):
        loaded = families.opened(kind)
        with pytest.raises(errors.CannotShow) as refused:
            patch(loaded, ask(loaded, [PatchPlace(tap=tap, layer=0, token=0)]), Limits(), Vectors(tmp_path))
        assert words in refused.value.why


def test_two_models_are_refused(llama, tmp_path):
    view = View(model="tiny-llama", text=TEXT)
    places = (PatchPlace(tap="residual", layer=0, token=0),)
    both = PatchAsk(view=view, source=view.model_copy(update={"model": "gpt2"}), places=places)
    with pytest.raises(errors.BadQuestion, match="different models"):
        patch(llama, both, Limits(), Vectors(tmp_path))


@pytest.mark.pretrained
def test_the_last_token_carries_the_name_late_and_not_early_in_a_real_model(tmp_path):
    """Indirect objects: the source's answer is the other name, and late in the model the last token holds it."""
    loaded, vectors = package_loaded("smollm2-135m-instruct"), Vectors(tmp_path)
    view, source = (
        View(model=loaded.name, text=f"When {one} and {other} went to the store, {other} gave a drink to")
        for one, other in (("Mary", "John"), ("John", "Mary"))
    )
    mary, john = (loaded.tokenizer(f" {name}").input_ids for name in ("Mary", "John"))
    said: dict[int | None, float] = {}
    for layer in (10, 27):
        places = (PatchPlace(tap="residual", layer=layer, token=13),)
        answer = patch(loaded, PatchAsk(view=view, source=source, places=places), Limits(), vectors)
        logits_TV, _ = run(loaded, answer.ids, answer.edits, vectors)
        said[layer] = float(logits_TV[-1, mary] - logits_TV[-1, john])
    plain_TV, _ = run(loaded, answer.ids, (), vectors)
    theirs_TV, _ = run(loaded, answer.source_ids, (), vectors)
    here, there = (float(logits_TV[-1, mary] - logits_TV[-1, john]) for logits_TV in (plain_TV, theirs_TV))
    assert here > 5
    assert there < -5
    assert said[10] > 5, "early, the last token does not know the name yet"
    assert said[27] < -3, "late, it holds the source's"
