"""One tokenisation: the ids are the tokenizer's own, every token is readable and has its place."""

import time
import unicodedata
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import ByT5Tokenizer, CanineTokenizer, PreTrainedTokenizerBase

from backend.errors import BadQuestion, CannotShow, TooLong
from backend.models.tokens import Tokenised, tokenise
from backend.schema import Limits, Token, Turn, View
from tests.models import spellers

ROOM = Limits.model_validate({"tokens": 4096})
ODD = (
    "é", "e\u0301", "👩‍👩‍👧", "👍🏽", "東京", "שלום", "مرحبا", "नमस्ते",
    "\x00", "\n", "  ", "\t", "\u200d", "\ufb01", "İ", "ẞ",
    "▁", "##", "don't", "Hello world", "...", "\u3000", "\x1c", "\ufeff", "\ufffd", "𝔘", "<0xE6>",
)  # fmt: skip
FRAGMENTS = ("t", "he", "th", "e", " t", " ", "qu", "ick", "at", " at")
SPECIAL = ("<s>", "</s>", "<|end|>", "<|endoftext|>", "[SEP]", "[UNK]", "<unk>")
characters = st.characters(exclude_categories=["Cs"])
words = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=4).map("".join)
plain_texts = st.lists(characters | st.sampled_from(ODD), min_size=1, max_size=12).map("".join)
texts = st.lists(characters | st.sampled_from(ODD + SPECIAL), min_size=1, max_size=12).map("".join)
every = pytest.mark.parametrize("make", spellers.ALL.values(), ids=spellers.ALL.keys())
quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Make = Callable[[], PreTrainedTokenizerBase]


def read(tokenizer: PreTrainedTokenizerBase, *, limits: Limits = ROOM, context: int | None = None, **view: object):
    return tokenise(tokenizer, View.model_validate({"model": "m", **view}), context=context, limits=limits)


def printed(tokens: tuple[Token, ...]) -> str:
    return "".join(token.piece for token in tokens if token.start is not None)


def groups_are_well_formed(tokens: tuple[Token, ...]) -> bool:
    at = 0
    while at < len(tokens):
        size = tokens[at].parts
        group = tokens[at : at + size]
        if size == 1:
            if tokens[at].part != 0:
                return False
        elif [token.part for token in group] != list(range(1, size + 1)) or any(token.piece for token in group[1:]):
            return False
        if any(token.parts != size for token in group):
            return False
        at += size
    return at == len(tokens)


def offsets_are_in_order(found: Tokenised) -> bool:
    placed = [(token.start, token.end) for token in found.tokens if token.start is not None]
    inside = all(0 <= start <= end <= len(found.text) for start, end in placed)
    return inside and all(before[0] <= after[0] for before, after in pairwise(placed))


@every
@quick
@given(text=texts)
def test_any_text_keeps_the_tokenizers_ids_and_every_token_has_its_place(make: Make, text: str) -> None:
    tokenizer = make()
    expected = tokenizer(text).input_ids
    try:
        found = read(tokenizer, text=text)
    except BadQuestion:
        assert tokenizer is spellers.word_pieces()
        return
    doubled = sum("a second time" in notice for notice in found.notices)
    assert len(found.ids) == len(expected) - doubled
    assert doubled or list(found.ids) == expected
    assert found.text == text
    assert [token.id for token in found.tokens] == list(found.ids)
    assert [token.position for token in found.tokens] == list(range(len(found.ids)))
    assert groups_are_well_formed(found.tokens)
    assert offsets_are_in_order(found)
    assert not any(0x100 <= ord(letter) < 0x144 and letter not in text for letter in printed(found.tokens))


@pytest.mark.parametrize("make", [spellers.byte_level_plain, spellers.byte_level_chat])
@quick
@given(text=texts)
def test_byte_level_pieces_and_bytes_reproduce_the_text(make: Make, text: str) -> None:
    found = read(make(), text=text)
    placed = [token for token in found.tokens if token.start is not None]
    assert printed(found.tokens) == text
    assert bytes.fromhex("".join(token.hex for token in placed)) == text.encode()
    assert all(token.piece in text[token.start :] for token in placed)
    assert {at for token in placed for at in range(token.start, token.end)} == set(range(len(text)))
    assert not [notice for notice in found.notices if "tokenizer" in notice]


@quick
@given(text=plain_texts.filter(lambda text: "▁" not in text))
def test_sentencepiece_pieces_reproduce_the_text_after_its_own_space(text: str) -> None:
    found = read(spellers.sentencepiece(), text=text)
    placed = [token for token in found.tokens if token.start is not None]
    assert printed(found.tokens).removeprefix(" ") == text.removeprefix(" ")
    assert bytes.fromhex("".join(token.hex for token in placed)).decode().removeprefix(" ") == text.removeprefix(" ")
    assert {at for token in placed for at in range(token.start, token.end)} == set(range(len(text)))


@quick
@given(text=plain_texts)
def test_word_pieces_cover_what_they_read(text: str) -> None:
    try:
        found = read(spellers.word_pieces(), text=text)
    except BadQuestion:
        return
    covered = {at for token in found.tokens if token.start is not None for at in range(token.start, token.end)}
    dropped = [letter for at, letter in enumerate(text) if at not in covered and not letter.isspace()]
    assert bool(dropped) == any("drops" in notice for notice in found.notices)
    assert all(not token.piece.startswith("##") for token in found.tokens if token.role == "text")


@every
@quick
@given(text=texts)
def test_notices_are_few_short_sentences(make: Make, text: str) -> None:
    try:
        found = read(make(), text=text * 20)
    except BadQuestion:
        return
    assert len(found.notices) <= 8
    assert all(len(notice) < 500 and notice.endswith(".") for notice in found.notices)
    assert all(letter.isprintable() for notice in found.notices for letter in notice if letter != "\ufffd")


@every
@quick
@given(text=plain_texts | words, continuation=plain_texts | words)
def test_a_continuation_never_changes_the_prompts_tokens(make: Make, text: str, continuation: str) -> None:
    tokenizer = make()
    try:
        alone = read(tokenizer, text=text)
        found = read(tokenizer, text=text, continuation=continuation)
    except BadQuestion:
        return
    assert found.prompt == len(alone.ids)
    assert found.ids[: found.prompt] == alone.ids
    assert found.text == text + continuation
    assert all(token.role in ("continuation", "special") for token in found.tokens[found.prompt :])
    assert offsets_are_in_order(found)
    together = tokenizer(text + continuation).input_ids
    assert (list(found.ids) == together) or any("apart" in notice for notice in found.notices)
    if make in (spellers.byte_level_plain, spellers.byte_level_chat, spellers.sentencepiece):
        written = "".join(token.piece for token in found.tokens[found.prompt :])
        assert "▁" in continuation or written == continuation


@pytest.mark.parametrize(
    ("make", "text", "continuation", "apart"),
    [
        (spellers.byte_level_plain, "The c", "at sat", True),
        (spellers.byte_level_plain, "The", " cat sat", False),
        (spellers.sentencepiece, "the qu", "ick fox", True),
        (spellers.sentencepiece, "the", " quick fox", False),
        (spellers.spaced, "the qu", "ick", True),
    ],
)
def test_a_word_cut_between_prompt_and_continuation_is_said(
    make: Make, text: str, continuation: str, apart: bool
) -> None:
    found = read(make(), text=text, continuation=continuation)
    assert found.ids[: found.prompt] == read(make(), text=text).ids
    assert any("apart" in notice for notice in found.notices) == apart
    assert "".join(token.piece for token in found.tokens[found.prompt :]) == continuation


@quick
@given(first=plain_texts, second=plain_texts)
def test_a_pair_keeps_the_tokenizers_ids_and_segments(first: str, second: str) -> None:
    tokenizer = spellers.word_pieces()
    expected = tokenizer(first, second)
    try:
        found = read(tokenizer, pair=(first, second))
    except BadQuestion:
        return
    if not any("a second time" in notice for notice in found.notices):
        assert list(found.ids) == expected.input_ids
        assert list(found.token_type_ids) == list(found.segments) == expected.token_type_ids
    assert offsets_are_in_order(found)
    assert found.text == first + second


def test_a_character_over_several_tokens_is_printed_once() -> None:
    found = read(spellers.byte_level_plain(), text="a😀b")
    assert [(token.piece, token.part, token.parts, token.hex) for token in found.tokens] == [
        ("a", 0, 1, "61"), ("😀", 1, 4, "f0"), ("", 2, 4, "9f"), ("", 3, 4, "98"), ("", 4, 4, "80"), ("b", 0, 1, "62"),
    ]  # fmt: skip
    assert [(token.start, token.end) for token in found.tokens] == [(0, 1), *[(1, 2)] * 4, (2, 3)]


def test_byte_fallback_is_printed_as_the_character_it_spells() -> None:
    found = read(spellers.sentencepiece(), text="the 東")
    assert [(token.piece, token.hex) for token in found.tokens] == [
        ("<s>", "3c733e"), (" the", "20746865"), (" ", "20"), ("東", "e6"), ("", "9d"), ("", "b1"),
    ]  # fmt: skip


def test_a_bytes_name_typed_as_text_stays_text() -> None:
    found = read(spellers.sentencepiece(), text="<0xE6>")
    assert printed(found.tokens).strip() == "<0xE6>"


def test_a_bytes_name_that_was_made_a_token_is_itself_when_typed() -> None:
    tokenizer = spellers.sentencepiece_anew()
    tokenizer.add_tokens(["<0xE6>"])
    typed, spelled = read(tokenizer, text="<0xE6>"), read(tokenizer, text="東")
    assert printed(typed.tokens).strip() == "<0xE6>"
    assert printed(spelled.tokens).strip() == "東"


def test_word_pieces_show_continuation_by_offsets_alone() -> None:
    found = read(spellers.word_pieces(), text="Attentional")
    inner = [token for token in found.tokens if token.role == "text"]
    assert "".join(token.piece for token in inner) == "attentional"
    assert all(before.end == after.start for before, after in pairwise(inner))


def test_white_space_is_printed_as_it_is() -> None:
    assert printed(read(spellers.byte_level_plain(), text=" a\n\tb  ").tokens) == " a\n\tb  "


def test_a_nul_is_kept_by_bytes_and_named_when_dropped() -> None:
    assert printed(read(spellers.byte_level_plain(), text="a\x00b").tokens) == "a\x00b"
    assert "The tokenizer drops U+0000." in read(spellers.word_pieces(), text="the \x00 cat").notices


def test_punctuation_is_what_unicode_calls_punctuation() -> None:
    flags = {
        token.piece.strip(): token.punctuation for token in read(spellers.byte_level_plain(), text="a, + $ —").tokens
    }
    assert flags[","]
    assert not flags["a"]
    assert not flags["+"]
    assert not flags["$"]
    assert [token.punctuation for token in read(spellers.byte_level_plain(), text="—").tokens] == [True] * 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello", "makes letters small: “Hello” is read as “hello”"),
        ("año", "removes accents: “año” is read as “ano”"),
        ("Naïve", "makes letters small and removes accents"),
        ("the 😀 mat", "no token for “😀”: the model reads [UNK] there"),
        ("the\ncat", "no line breaks"),
        ("the  cat", "repeated spaces"),
    ],
)
def test_what_the_tokenizer_loses_is_said(text: str, words: str) -> None:
    assert any(words in notice for notice in read(spellers.word_pieces(), text=text).notices)


def test_a_text_that_is_read_as_written_has_no_notice() -> None:
    for make, text in ((spellers.word_pieces, "the cat sat"), (spellers.byte_level_chat, "Zwölf  東京 😀\n")):
        assert read(make(), text=text).notices == ()


def test_a_ligature_is_said_to_become_plainer() -> None:
    assert any("“ﬁ” is read as “fi”" in notice for notice in read(spellers.unigram(), text="the \ufb01").notices)


def test_composed_characters_are_said_to_be_written_another_way() -> None:
    found = read(spellers.composed(), text="an\u0303o x")
    assert any("another way" in notice for notice in found.notices)
    assert printed(found.tokens) == unicodedata.normalize("NFC", found.text)


def test_the_beginning_stands_once() -> None:
    tokenizer = spellers.byte_level_chat()
    begin = tokenizer.bos_token_id
    asked = ({"text": "Hello"}, {"text": "<s>Hello"}, {"turns": [Turn(role="user", content="Hello")]})
    for view in (*asked, {"text": "Hello", "template": True}):
        assert read(tokenizer, **view).ids.count(begin) == 1
    assert any("a second time" in notice for notice in read(tokenizer, text="<s>Hello").notices)


def test_a_template_without_a_beginning_gets_none() -> None:
    tokenizer = spellers.tokenizer_of("llama")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"
    found = read(tokenizer, turns=[Turn(role="user", content="Hello")])
    assert tokenizer.bos_token_id not in found.ids


def test_the_end_of_text_in_front_is_no_separator() -> None:
    found = read(spellers.byte_level_plain(), text="<|endoftext|>a<|endoftext|>b")
    assert [token.separator for token in found.tokens] == [False, False, True, False]


def test_a_special_token_typed_as_text_is_said() -> None:
    found = read(spellers.byte_level_chat(), text="a<|end|>b")
    assert [token.role for token in found.tokens] == ["special", "text", "special", "text"]
    assert any("<|end|>" in notice and "special token" in notice for notice in found.notices)


turns = st.lists(
    st.builds(Turn, role=st.sampled_from(["system", "user", "assistant"]), content=texts), min_size=1, max_size=4
)


@quick
@given(turns=turns)
def test_turns_are_what_the_chat_template_makes_of_them(turns: list[Turn]) -> None:
    tokenizer = spellers.byte_level_chat()
    found = read(tokenizer, turns=turns)
    messages = [turn.model_dump() for turn in turns]
    asks = turns[-1].role != "assistant"
    assert list(found.ids) == tokenizer.apply_chat_template(messages, add_generation_prompt=asks, return_dict=False)
    assert found.text == tokenizer.apply_chat_template(messages, add_generation_prompt=asks, tokenize=False)
    assert found.templated
    assert printed(found.tokens) == found.text


def test_turns_tell_the_persons_words_from_the_templates() -> None:
    tokenizer = spellers.byte_level_chat()
    found = read(tokenizer, turns=[Turn(role="user", content="user"), Turn(role="assistant", content="Hello")])
    own = [token.piece for token in found.tokens if token.role == "text"]
    assert "".join(own) == "userHello"
    assert [token.piece for token in found.tokens if token.separator] == ["<|end|>", "<|end|>"]


def test_a_text_under_the_template_is_one_user_turn_and_says_so() -> None:
    tokenizer = spellers.byte_level_chat()
    found = read(tokenizer, text="Hello", template=True)
    assert found.ids == read(tokenizer, turns=[Turn(role="user", content="Hello")]).ids
    assert found.text.endswith("<|assistant|>")
    assert any("one user turn" in notice for notice in found.notices)


def test_turns_without_the_template_are_joined_and_it_is_said() -> None:
    both = [Turn(role="user", content="Hello"), Turn(role="assistant", content="world")]
    found = read(spellers.byte_level_chat(), turns=both, template=False)
    assert found.text == "Hello\n\nworld"
    assert not found.templated
    assert any("template is off" in notice for notice in found.notices)


def test_a_template_that_trims_is_followed_and_it_is_said() -> None:
    tokenizer = spellers.tokenizer_of("llama")
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"
    found = read(tokenizer, turns=[Turn(role="user", content=" a "), Turn(role="assistant", content="[a]")])
    assert found.text == "<s>[a][[a]]"
    assert [token.piece for token in found.tokens if token.role == "text"] == ["a", "[", "a", "]"]
    assert any("white space around the content of turn 0" in notice for notice in found.notices)


def test_a_template_that_refuses_says_why() -> None:
    tokenizer = spellers.tokenizer_of("llama")
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(BadQuestion, match="roles must alternate"):
        read(tokenizer, turns=[Turn(role="user", content="a")])


@pytest.mark.parametrize("view", [{"text": "a", "template": True}, {"turns": [{"role": "user", "content": "a"}]}])
def test_a_model_without_a_template_refuses_turns_with_words(view: dict) -> None:
    with pytest.raises(CannotShow, match="no chat template"):
        read(spellers.byte_level_plain(), **view)


def test_a_pair_under_a_template_is_refused() -> None:
    with pytest.raises(BadQuestion, match="segments"):
        read(spellers.byte_level_chat(), pair=("a", "b"), template=True)


@pytest.mark.parametrize("make", [spellers.byte_level_plain, spellers.byte_level_chat, spellers.sentencepiece])
def test_a_pair_needs_a_tokenizer_that_separates(make: Make) -> None:
    with pytest.raises(CannotShow, match="no mark that separates"):
        read(make(), pair=("Hello", "world"))


def test_separators_stand_between_and_after_texts() -> None:
    found = read(spellers.word_pieces(), pair=("the cat", "the dog"))
    assert [token.piece for token in found.tokens if token.separator] == ["[SEP]", "[SEP]"]
    assert [token.segment for token in found.tokens] == [0, 0, 0, 0, 1, 1, 1]
    assert [found.text[token.start : token.end] for token in found.tokens if token.role == "text"] == [
        "the", "cat", "the", "dog",
    ]  # fmt: skip


def test_a_closed_prompt_cannot_be_continued() -> None:
    with pytest.raises(CannotShow, match=r"\[SEP\]"):
        read(spellers.word_pieces(), text="the cat", continuation="sat")


@pytest.mark.parametrize("view", [{"text": ""}, {"pair": ("", "")}, {"pair": ("a", "")}, {"turns": [("user", "")]}])
def test_an_empty_text_is_refused_with_words(view: dict) -> None:
    if "turns" in view:
        view = {"turns": [{"role": role, "content": content} for role, content in view["turns"]]}
    with pytest.raises(BadQuestion, match="empty"):
        read(spellers.byte_level_chat(), **view)


@pytest.mark.parametrize("text", ["\x00", "  \n", "\u200d\u0301"])
def test_a_text_of_which_nothing_is_left_is_refused_with_words(text: str) -> None:
    with pytest.raises(BadQuestion, match="drops every character"):
        read(spellers.word_pieces(), text=text)


def test_one_token_is_a_text() -> None:
    assert len(read(spellers.byte_level_plain(), text="a").ids) == 1
    assert len(read(spellers.byte_level_plain(), text="\x00").ids) == 1


def test_half_a_character_is_refused_with_words() -> None:
    view = View.model_construct(model="m", text="a\ud83d", pair=None, turns=None, continuation=None, template=None)
    with pytest.raises(BadQuestion, match=r"U\+D83D"):
        tokenise(spellers.byte_level_plain(), view, context=None, limits=ROOM)


@pytest.mark.parametrize(("context", "allowed", "available"), [(8, 4096, 8), (None, 16, 16), (64, 16, 16)])
def test_too_long_names_both_numbers(context: int | None, allowed: int, available: int) -> None:
    limits = ROOM.model_copy(update={"tokens": allowed})
    with pytest.raises(TooLong) as refusal:
        read(spellers.byte_level_plain(), text="0" * 40, context=context, limits=limits)
    assert (refusal.value.needed, refusal.value.available) == (40, available)


def test_a_text_as_long_as_the_context_fits() -> None:
    assert len(read(spellers.byte_level_plain(), text="0" * 40, context=40).ids) == 40


@every
@pytest.mark.parametrize(
    "text", ["a" * 10**6, "Hello world, " * 77_000, "東é😀" * 100_000], ids=["word", "text", "odd"]
)
def test_a_megabyte_is_answered_in_a_moment(make: Make, text: str) -> None:
    tokenizer = make()
    one_word = make is spellers.word_pieces and text[1] == "a"
    began = time.thread_time()
    if one_word:
        assert len(read(tokenizer, text=text).ids) == 3
    else:
        with pytest.raises(TooLong):
            read(tokenizer, text=text)
    assert time.thread_time() - began < 8


def test_an_id_beyond_the_models_embedding_is_refused() -> None:
    view = View(model="m", text="Hello")
    with pytest.raises(CannotShow, match="embeddings"):
        tokenise(spellers.byte_level_plain(), view, context=None, limits=ROOM, vocabulary=10)


@quick
@given(text=plain_texts)
def test_a_slow_tokenizer_of_bytes_gets_its_places_by_its_bytes(text: str) -> None:
    tokenizer = ByT5Tokenizer()
    found = read(tokenizer, text=text)
    assert list(found.ids) == tokenizer(text).input_ids
    assert printed(found.tokens) == text
    assert groups_are_well_formed(found.tokens)
    assert offsets_are_in_order(found)


def test_a_slow_tokenizer_of_characters_gets_its_places() -> None:
    found = read(CanineTokenizer(), text="a 東\u0301")
    placed = [(token.piece, token.start, token.end) for token in found.tokens if token.start is not None]
    assert placed == [("a", 0, 1), (" ", 1, 2), ("東", 2, 3), ("\u0301", 3, 4)]
    assert found.tokens[0].role == "special"


def test_a_tokenizer_that_hides_its_places_says_so() -> None:
    found = read(ByT5Tokenizer(), text="a </s> b")
    assert any("does not say which characters" in notice for notice in found.notices)
    assert all(token.start is None for token in found.tokens)
