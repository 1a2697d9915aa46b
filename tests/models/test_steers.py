"""The shelf says what is known of a steer and whether it fits; a steer of another model is refused before any run."""

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256

import pytest
import torch

from backend import errors
from backend.models.asking import ask_model
from backend.models.cache import Draft, sweep_all
from backend.models.steers import DAMAGED, SLIDER, UNKNOWN, Fit, Steers, fit_of, shelved, stands, vocabulary_digest
from backend.models.vectors import Vectors
from backend.schema import Limits, ResidualAdd, Steer, SteerCard, VectorCard, View
from tests import tiny

NUMBERS = {"left": torch.ones(32, 2), "right": torch.arange(64.0).reshape(2, 32)}


@pytest.fixture(scope="module")
def llama():
    return tiny.loaded("llama")


def card_for(loaded, **changes) -> SteerCard:
    told = {
        "kind": "steer", "name": "mood", "id": "0" * 64, "plus": "glad", "minus": "sad", "model": loaded.name,
        "digest": loaded.conditions.digest, "vocabulary": loaded.anatomy.vocabulary, "width": 32, "rank": 2,
    }  # fmt: skip
    return SteerCard(**told | changes)


def test_a_vocabulary_is_named_by_its_tokens_in_order(llama):
    tokens = [llama.tokenizer.convert_ids_to_tokens(id) for id in range(len(llama.tokenizer))]
    plain = json.dumps(tokens, ensure_ascii=False, separators=(",", ":")).encode()
    assert llama.anatomy.vocabulary == vocabulary_digest(llama.tokenizer) == sha256(plain).hexdigest()
    assert tiny.loaded("gpt2").anatomy.vocabulary != llama.anatomy.vocabulary


def test_a_steer_is_named_by_its_numbers_and_comes_back_after_a_restart(llama, tmp_path):
    card = Steers(tmp_path).keep(card_for(llama), NUMBERS)
    assert card.id == Vectors(tmp_path).keep(VectorCard(kind="steer", name="other"), NUMBERS).id
    after = Steers(tmp_path)
    assert after.get(card.id) == card
    assert card in after.cards()
    assert (tmp_path / "steers" / f"mood@{card.id[:12]}" / SLIDER).is_file()
    other = card_for(llama, name="bea", plus="happy", owner="Bea")
    kept = after.keep(other, NUMBERS)
    assert kept == card, "the card that stands"
    assert stands(other, kept) == ("These numbers are on the shelf already as mood: that card stands.",)
    assert stands(card_for(llama), card) == ()
    assert [each.plus for each in after.cards() if each.id == card.id] == ["glad"]
    assert not list((tmp_path / "steers").glob("bea@*"))


def test_a_card_comes_with_the_numbers_or_not_at_all(llama, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("backend.models.cache._move", killed)
    with pytest.raises(KeyboardInterrupt):
        Steers(tmp_path).keep(card_for(llama), NUMBERS)
    assert [card for card in Steers(tmp_path).cards() if not card.ours] == []
    monkeypatch.undo()
    monkeypatch.setattr("backend.models.steers.write_slider", killed)
    card = Steers(tmp_path).keep(card_for(llama), NUMBERS)
    assert Steers(tmp_path).get(card.id) == card


@pytest.mark.parametrize("kind", ["steer", "direction"])
def test_a_damaged_card_is_none_and_says_so_and_may_be_made_again_or_deleted(llama, tmp_path, kind):
    numbers = NUMBERS if kind == "steer" else {"vector": torch.ones(32)}
    steers = Steers(tmp_path)
    made = card_for(llama, kind=kind, rank=2 if kind == "steer" else None, layer=None if kind == "steer" else 1)
    card = steers.keep(made, numbers)
    (file,) = tmp_path.glob(f"*/*/{SLIDER}")
    file.write_bytes(file.read_bytes()[:40])
    bare = steers.get(card.id)
    assert (bare.model, bare.width, bare.kind) == ("", 32, kind)
    told = shelved(bare, fit_of(llama))
    assert (told.fits, told.why) == (True, DAMAGED)
    stored = Vectors(tmp_path).steer(card.id) if kind == "steer" else Vectors(tmp_path).direction(card.id)
    assert stored.origin is None
    assert steers.keep(made, numbers) == card == steers.get(card.id)
    file.write_text('{"name": 3}')
    steers.remove(card.id)
    with pytest.raises(errors.UnknownVector):
        steers.get(card.id)


def test_what_is_deleted_while_it_is_read_is_unknown_and_leaves_nothing(llama, tmp_path, monkeypatch):
    steers = Steers(tmp_path)
    card = steers.keep(card_for(llama), NUMBERS)
    folder = Vectors(tmp_path).folder("steer", card.id)
    monkeypatch.setattr(Vectors, "folder", lambda *_: folder)
    monkeypatch.setattr(Vectors, "places", lambda *_: [folder])
    found = steers.get(card.id)
    steers.remove(card.id)
    monkeypatch.setattr(Steers, "get", lambda *_: found)
    for ask in (steers.remove, Vectors(tmp_path).steer):
        with pytest.raises(errors.UnknownVector):
            ask(card.id)
    monkeypatch.setattr("backend.models.steers.folders", lambda *_: [folder])
    monkeypatch.setattr("backend.models.steers.card_of", lambda _: VectorCard(kind="steer", name="x", shape=(32, 2)))
    assert [each for each in steers.cards() if each.id == card.id] == []
    assert list((tmp_path / "steers").iterdir()) == []


def test_drafts_of_the_dead_are_swept_and_those_of_the_living_stay(tmp_path):
    living = Draft(tmp_path / "steers" / "mood@1")
    script = f"""
import os, pathlib
from backend.models.cache import Draft
for name in ("steers/mood@2", "captures/at@2", "tables/states@2"):
    draft = Draft(pathlib.Path({str(tmp_path)!r}) / name)
    (draft.folder / "half").write_text("half")
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert len(list(tmp_path.glob("*/.*.tmp"))) == 4
    sweep_all(tmp_path)
    assert list(tmp_path.glob("*/.*.tmp")) == [living.folder]
    living.drop()
    assert [path for path in tmp_path.glob("*/*") if not path.is_dir()] == []


def test_a_steer_without_a_card_is_on_the_shelf_and_nothing_is_said_of_it(llama, tmp_path):
    stored = Vectors(tmp_path).keep(VectorCard(kind="steer", name="sent", recipe="by hand"), NUMBERS)
    Vectors(tmp_path).keep(VectorCard(kind="direction", name="captured"), {"vector": torch.ones(32)})
    bare = [card for card in Steers(tmp_path).cards() if not card.ours]
    assert [(card.id, card.width, card.rank, card.recipe) for card in bare] == [(stored.id, 32, 2, "by hand")]
    assert (bare[0].evidence, bare[0].range, bare[0].model) == (None, None, "")
    told = shelved(bare[0], fit_of(llama))
    assert (told.fits, told.why) == (True, UNKNOWN)


@pytest.mark.parametrize(
    ("changes", "fits", "words"),
    [
        ({}, True, ""),
        ({"digest": "f" * 64}, True, "other weights"),
        ({"vocabulary": "f" * 64}, False, "whose tokens are not those"),
        ({"width": 64}, False, "64 numbers a token, and tiny-llama has 32"),
        ({"kind": "direction", "rank": None, "layer": 2}, True, ""),
        ({"kind": "direction", "rank": None, "layer": 3}, False, "after block 3; tiny-llama has 3 blocks"),
    ],
)
def test_the_shelf_says_whether_a_steer_fits_and_why_not(llama, changes, fits, words):
    told = shelved(card_for(llama, **changes), fit_of(llama))
    assert told.fits == fits
    assert words in told.why
    assert bool(words) == bool(told.why)


def test_a_model_without_an_output_embedding_fits_no_steer(llama):
    bare = Fit("encoder", "", "", None, 32, 3)
    assert "takes no steer" in shelved(card_for(llama), bare).why
    assert shelved(card_for(llama, kind="direction", vocabulary=""), bare).fits


def test_those_that_fit_come_first(llama, tmp_path):
    steers = Steers(tmp_path)
    steers.keep(card_for(llama, name="a", vocabulary="f" * 64), NUMBERS)
    fitting = steers.keep(card_for(llama, name="z"), {name: tensor + 1 for name, tensor in NUMBERS.items()})
    shelf = [each for each in steers.shelf(fit_of(llama)).steers if not each.card.ours]
    assert [(each.card.id == fitting.id, each.fits) for each in shelf] == [(True, True), (False, False)]


@pytest.mark.parametrize("kind", ["steer", "direction"])
def test_a_steer_of_another_model_is_refused_in_words_before_any_run(llama, tmp_path, kind):
    numbers = NUMBERS if kind == "steer" else {"vector": torch.ones(32)}
    theirs = card_for(llama, kind=kind, model="somebody's", vocabulary="f" * 64, layer=1)
    card = Steers(tmp_path).keep(theirs, numbers)
    made_here = replace(llama, vectors=Vectors(tmp_path))
    edit = Steer(steer=card.id, by=1) if kind == "steer" else ResidualAdd(layer=1, vector=card.id, by=1)
    view = View(model=llama.name, text="The cat sat.", edits=(edit,))
    with pytest.raises(errors.CannotShow, match="“mood” does not fit this model") as refused:
        ask_model(made_here, view, Limits())
    assert "somebody's" in refused.value.why
    Steers(tmp_path).remove(card.id)
    Steers(tmp_path).keep(card_for(llama, kind=kind, layer=1), numbers)
    assert ask_model(made_here, view, Limits()).plan is not None


def test_a_steer_is_deleted_whole_and_one_of_the_product_stays(llama, tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    ours = Steers(shipped).keep(card_for(llama, name="ours"), NUMBERS)
    for module in ("steers", "vectors"):
        monkeypatch.setattr(f"backend.models.{module}.SHIPPED", shipped)
    steers = Steers(tmp_path / "cache")
    card = steers.keep(card_for(llama), {name: tensor + 1 for name, tensor in NUMBERS.items()})
    assert [(each.name, each.ours) for each in steers.cards()] == [("ours", True), ("mood", False)]
    assert torch.equal(Vectors(tmp_path / "cache").steer(ours.id).right_KD, NUMBERS["right"])
    steers.remove(card.id)
    assert [each.name for each in steers.cards()] == ["ours"]
    assert list((tmp_path / "cache" / "steers").iterdir()) == []
    with pytest.raises(errors.Forbidden, match="cannot be deleted"):
        steers.remove(ours.id)
    for id in (card.id, "*", "["):
        with pytest.raises(errors.UnknownVector):
            steers.remove(id)
