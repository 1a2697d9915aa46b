"""Prompt sets are named by what they hold, whole or absent; one of ordinary prose comes with the product."""

import json
from hashlib import sha256

import pytest

from backend import errors
from backend.models.sets import TEXT_MOST, Sets
from backend.schema import SetAsk

TEXTS = ("The cat sat on the mat.", "Zwölf Boxkämpfer, 東京 🙂")


def test_the_set_that_comes_with_the_product_is_prose_of_many_subjects_and_free(tmp_path):
    ours = Sets(tmp_path).get(None)
    assert (ours.card.name, ours.card.licence, ours.card.ours) == ("plain-english-prose", "CC0-1.0", True)
    assert len(set(ours.texts)) == ours.card.texts == 40
    assert all(2 <= text.count(". ") + text.count("? ") + 1 <= 4 for text in ours.texts)
    assert Sets(tmp_path).get(ours.card.id) == ours
    assert Sets(tmp_path).cards().sets == (ours.card,)


def test_an_id_is_the_digest_of_the_texts_as_any_program_computes_it(tmp_path):
    card = Sets(tmp_path).keep(SetAsk(name="mine", texts=TEXTS))
    plain = json.dumps(TEXTS, ensure_ascii=False, separators=(",", ":")).encode()
    assert card.id == sha256(plain).hexdigest()
    assert (card.texts, card.characters, card.ours) == (2, sum(map(len, TEXTS)), False)


def test_what_is_stored_comes_back_after_a_restart_and_equal_texts_are_one_set(tmp_path):
    card = Sets(tmp_path).keep(SetAsk(name="mine", texts=TEXTS, licence="CC BY 4.0", about="two texts"))
    after = Sets(tmp_path)
    assert after.get(card.id).texts == TEXTS
    assert after.cards().sets == (after.ours.card, card)
    assert after.keep(SetAsk(name="again", texts=TEXTS)) == card
    assert after.keep(SetAsk(name="again", texts=TEXTS[::-1])).id != card.id
    assert after.keep(SetAsk(name="theirs", texts=after.ours.texts)) == after.ours.card
    assert (tmp_path / "sets" / f"mine@{card.id[:12]}" / "card.json").is_file()


def test_half_a_set_is_no_set(tmp_path):
    card = Sets(tmp_path).keep(SetAsk(name="mine", texts=TEXTS))
    (tmp_path / "sets" / f"mine@{card.id[:12]}" / "texts.json").write_text("[")
    with pytest.raises(errors.UnknownSet) as refused:
        Sets(tmp_path).get(card.id)
    assert "send it again" in refused.value.instead


@pytest.mark.parametrize(
    ("texts", "kind", "words"),
    [
        (("a", " \n"), errors.BadQuestion, "Text 1 of the set is empty"),
        (("a" * (TEXT_MOST + 1),), errors.TooLarge, "too long"),
    ],
)
def test_a_text_that_cannot_be_averaged_over_is_refused(tmp_path, texts, kind, words):
    with pytest.raises(kind, match=words):
        Sets(tmp_path).keep(SetAsk(name="mine", texts=texts))
    assert len(Sets(tmp_path).cards().sets) == 1
