"""Tokenizers of every way of spelling, made in code: what real ones do, small enough to think about."""

from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.tiny import CORPUS, byte_level, tokenizer_of

SPACE = "\u2581"
WORDS = ("the", "quick", "brown", "fox", "lazy", "dog", "Hello", "world", "cat", "mat")


def _merged(words: tuple[str, ...], known: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary with these words and the merges that build each from its left."""
    letters = sorted({letter for word in words for letter in word} | {SPACE, ".", ",", "a", "b"})
    names = [*known, *letters]
    merges: list[tuple[str, str]] = []
    for word in words:
        built = word[0]
        for letter in word[1:]:
            if (built, letter) not in merges:
                merges.append((built, letter))
                names.append(built + letter)
            built += letter
    return {name: id for id, name in enumerate(dict.fromkeys(names))}, merges


def _byte_fallback() -> Tokenizer:
    known = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words = (*(SPACE + word for word in WORDS), *WORDS)
    vocabulary, merges = _merged(words, known)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return tokenizer


def _wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def sentencepiece_anew() -> PreTrainedTokenizerBase:
    """Llama 2's way: a space before the text, spaces as U+2581, unknown characters as bytes, `<s>` in front."""
    tokenizer = _byte_fallback()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return _wrapped(tokenizer)


@cache
def sentencepiece() -> PreTrainedTokenizerBase:
    """The same, made once."""
    return sentencepiece_anew()


@cache
def sentencepiece_legacy() -> PreTrainedTokenizerBase:
    """The same spelled with normalisers, which put a space after every special token as well."""
    tokenizer = _byte_fallback()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    return _wrapped(tokenizer)


@cache
def unigram() -> PreTrainedTokenizerBase:
    """T5's and XLM-R's way: Unicode is made plainer, spaces are collapsed, some characters have no token."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=90, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return _wrapped(tokenizer)


@cache
def composed() -> PreTrainedTokenizerBase:
    """Qwen's way: byte-level after NFC; and offsets without the leading space, as RoBERTa has them."""
    tokenizer = byte_level(["<|endoftext|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


@cache
def spaced() -> PreTrainedTokenizerBase:
    """glassllm's way: spaces become U+2581 letters of a plain BPE, and nothing is put around the text."""
    vocabulary, merges = _merged((*(SPACE + word for word in WORDS), *WORDS), ["<unk>", "\n"])
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", SPACE)])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"\n|{SPACE}*[^{SPACE}\n]+|{SPACE}+"), "isolated")
    tokenizer.decoder = decoders.Replace(SPACE, " ")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


@cache
def byte_level_plain() -> PreTrainedTokenizerBase:
    """GPT-2's way: nothing is lost and nothing is put around the text."""
    return tokenizer_of("gpt2")


@cache
def byte_level_chat() -> PreTrainedTokenizerBase:
    """Byte-level with `<s>` in front, and a chat template that writes `<s>` itself."""
    return tokenizer_of("llama")


@cache
def word_pieces() -> PreTrainedTokenizerBase:
    """BERT's way: lower case, no accents, `[CLS] A [SEP] B [SEP]`."""
    return tokenizer_of("bert")


ALL = {
    made.__name__: made
    for made in (
        byte_level_plain, byte_level_chat, composed, sentencepiece, sentencepiece_legacy, unigram, spaced, word_pieces,
    )
}  # fmt: skip
