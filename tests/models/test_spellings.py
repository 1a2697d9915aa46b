"""A word is found as every single token that the tokenizer has for it, and refused with its pieces if there is none."""

import pytest

from backend import errors
from backend.models.spelling import Spelling
from backend.models.words import spellings
from tests import tiny
from tests.package_models import package_loaded


def found(tokenizer, *words: str) -> list[tuple[str, str]]:
    return [(one.word, one.text) for one in spellings(tokenizer, words, len(tokenizer))]


@pytest.fixture(scope="module")
def smollm2():
    return package_loaded("smollm2-135m-instruct").tokenizer


def test_a_word_is_found_bare_and_behind_a_space(smollm2):
    assert found(smollm2, "Paris", "the") == [("Paris", "Paris"), ("Paris", " Paris"), ("the", "the"), ("the", " the")]


def test_capitals_are_searched_only_where_they_are_written(smollm2):
    assert {text.strip() for _, text in found(smollm2, "city")} == {"city"}
    assert {text.strip() for _, text in found(smollm2, "City")} == {"City"}


def test_a_word_with_its_space_is_taken_as_it_stands(smollm2):
    assert found(smollm2, " Paris") == [(" Paris", " Paris")]
    assert found(smollm2, "\n") == [("\n", "\n")]


def test_special_tokens_and_punctuation_are_words_too(smollm2):
    assert ("<|im_end|>", "<|im_end|>") in found(smollm2, "<|im_end|>")
    assert ("!", "!") in found(smollm2, "!")


def test_a_word_of_several_tokens_is_refused_with_its_pieces(smollm2):
    with pytest.raises(errors.CannotShow) as caught:
        spellings(smollm2, ["Paris", "antidisestablishmentarianism", "🦜"], len(smollm2))
    assert "antidisestablishmentarianism” is" in caught.value.why
    assert "ant · idis" in caught.value.why
    assert "🦜" in caught.value.why
    assert "Paris" not in caught.value.why
    assert "pieces" in caught.value.instead


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_ordinary_token_is_found_by_what_it_reads(kind):
    """The way back: of every token that stands for whole characters, its own text finds it."""
    tokenizer = tiny.tokenizer_of(kind)
    spelling = Spelling.of(tokenizer)
    for id in range(len(tokenizer)):
        name = tokenizer.convert_ids_to_tokens(id)
        try:
            text = spelling.bytes_of(id, name).decode()
        except UnicodeDecodeError:
            continue
        if text and id != tokenizer.unk_token_id:
            assert id in [one.id for one in spellings(tokenizer, [text], len(tokenizer))], name


def test_what_the_tokenizer_does_not_know_is_said():
    with pytest.raises(errors.CannotShow, match="does not know"):
        spellings(tiny.tokenizer_of("bert"), ["日本"], 10**6)


def test_a_word_piece_that_goes_on_keeps_its_mark():
    tokenizer = tiny.tokenizer_of("bert")
    piece = next(name for name in tokenizer.get_vocab() if name.startswith("##") and len(name) > 2)
    assert piece in [text for _, text in found(tokenizer, piece.removeprefix("##"))]


def test_rows_beyond_the_embedding_are_no_words():
    tokenizer = tiny.tokenizer_of("llama")
    with pytest.raises(errors.CannotShow):
        spellings(tokenizer, ["the"], 3)
