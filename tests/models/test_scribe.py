"""The text of a continuation: equal to the tokenizer's own, however it is cut into tokens and pieces."""

import pytest
import torch

from backend.models.scribe import Scribe
from backend.models.spelling import Spelling
from tests.models import spellers

TEXTS = (
    " the quick brown fox", "Zwölf Boxkämpfer, año", " 東京 naïve", "e\u0301 👩🏽‍🚀 🇫🇷!", "\n\n  the   cat \t mat",
    "नमस्ते दुनिया", "مرحبا بالعالم", "שלום", "ไทย", "한국어 日本語", "\ufffd \u200d", "world.",
)  # fmt: skip
WRITERS = tuple(name for name in spellers.ALL if name != "word_pieces")


def scribe(tokenizer, before: int, *stops: str) -> Scribe:
    return Scribe(tokenizer, Spelling.of(tokenizer), before, stops)


def written(tokenizer, before: int, ids: list[int], *stops: str) -> tuple[list[str], bool]:
    one, pieces = scribe(tokenizer, before, *stops), []
    for id in ids:
        piece, stopped = one.add(id)
        pieces.append(piece)
        if stopped:
            return pieces, True
    return [*pieces, one.close()], False


def decoded(tokenizer, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", WRITERS)
def test_the_text_is_what_the_tokenizer_reads_behind_the_prompt(name, text):
    tokenizer = spellers.ALL[name]()
    ids = tokenizer("the cat" + text, add_special_tokens=False)["input_ids"]
    prompt = len(tokenizer("the", add_special_tokens=False)["input_ids"])
    whole, before = decoded(tokenizer, ids), decoded(tokenizer, ids[:prompt])
    pieces, _ = written(tokenizer, ids[prompt - 1], ids[prompt:])
    assert "".join(pieces) == whole[len(before) :]
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in whole


@pytest.mark.parametrize("name", ["byte_level_plain", "composed", "byte_level_chat"])
def test_any_bytes_at_all_read_as_the_tokenizer_reads_them(name):
    tokenizer = spellers.ALL[name]()
    dice = torch.Generator().manual_seed(1)
    for _ in range(200):
        ids = torch.randint(0, len(tokenizer), (12,), generator=dice).tolist()
        pieces, _ = written(tokenizer, ids[0], ids)
        assert "".join(pieces) == decoded(tokenizer, ids)


def test_a_character_comes_out_once_it_is_whole():
    tokenizer = spellers.byte_level_plain()
    ids = [tokenizer.convert_tokens_to_ids(glyph) for glyph in ("ð", "Ł", "ĺ", "Ģ")]  # f0 9f 98 80
    pieces, _ = written(tokenizer, ids[0], ids)
    assert pieces == ["", "", "", "😀", ""]
    assert written(tokenizer, ids[0], ids[:2])[0] == ["", "", "\ufffd"]


def test_words_that_mark_their_end_stand_apart():
    """The way of the first GPT: `the</w>` ends a word, `ca` does not."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    names = {"c": 0, "a": 1, "t</w>": 2, "ca": 3, "cat</w>": 4, "sat</w>": 5, "s": 6, "at</w>": 7}
    backend = Tokenizer(models.BPE(names, [("c", "a"), ("ca", "t</w>")], end_of_word_suffix="</w>"))
    backend.decoder = decoders.BPEDecoder("</w>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    for ids in ([4, 5, 3, 2], [3, 2, 5], [4, 6, 7, 4]):
        pieces, _ = written(tokenizer, ids[0], ids[1:])
        assert decoded(tokenizer, ids[:1]) + "".join(pieces) == decoded(tokenizer, ids)


def test_a_token_that_the_tokenizer_does_not_know_adds_nothing():
    tokenizer = spellers.byte_level_plain()
    assert written(tokenizer, 3, [len(tokenizer) + 5])[0] == ["", ""]


@pytest.mark.parametrize(
    ("stops", "said", "text", "stopped"),
    [
        (("fox",), ["the", " qu", "ick", " f", "ox", " dog"], "the quick ", True),
        (("\n\n",), ["a", "\n", "b", "\n", "\n", "c"], "a\nb", True),
        (("aab",), ["a", "a", "a", "a", "b"], "aa", True),
        (("xyz", "he c"), ["t", "h", "e", " ", "c"], "t", True),
        (("abc",), ["a", "b"], "ab", False),
        (("b", "ab"), ["a", "b"], "", True),
        (("é",), ["caf", "\u00c3", "\u00a9", "x"], "caf", True),
    ],
)
def test_a_stop_text_ends_the_text_and_is_never_begun(stops, said, text, stopped):
    tokenizer = spellers.byte_level_plain()
    ids: list[int] = []
    for each in said:
        bytes_ = bytes([ord(each)]) if each in ("\u00c3", "\u00a9") else None
        ids += (
            [tokenizer.convert_tokens_to_ids(each)]
            if bytes_
            else tokenizer(each, add_special_tokens=False)["input_ids"]
        )
    pieces, found = written(tokenizer, ids[0], ids, *stops)
    assert ("".join(pieces), found) == (text, stopped)
    given = ""
    for piece in pieces:
        given += piece
        assert text.startswith(given), "what was handed out is never taken back"
