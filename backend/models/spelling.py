"""How a tokenizer spells bytes: the names in its vocabulary, and the bytes of text that each stands for."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backend.models.pieces import SPACE_MARK

_BYTE_NAME = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class Spelling:
    """What turns a name of the vocabulary into bytes; asked of the tokenizer's own parts, not of its class name."""

    byte_level: bool
    """Names are byte-level glyphs, one for each byte."""
    space: str | None
    """The character that stands for a space."""
    continuing: str
    """Prefix of a name that continues a word."""
    ending: str
    """Suffix of a name that ends a word."""
    byte_letters: bool
    """Names are the letters U+0000 to U+00FF, one for each byte."""
    byte_names: bool
    """Names such as <0xE6> stand for one byte."""
    added: dict[int, str]
    """Tokens that were added to the vocabulary; they are spelled as they are."""
    special: frozenset[int]
    unknown: int | None

    @classmethod
    def of(cls, tokenizer: Any) -> "Spelling":
        """Read the rules from a tokenizer; without a fast backend those of SentencePiece are taken."""
        added = {int(id): token for id, token in tokenizer.added_tokens_decoder.items()}
        parts = list(_parts(tokenizer))
        model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
        return cls(
            byte_level=any(part.get("type") == "ByteLevel" for part in parts),
            space=_space(parts) if model is not None else SPACE_MARK,
            continuing=getattr(model, "continuing_subword_prefix", None) or "",
            ending=getattr(model, "end_of_word_suffix", None) or _decoder_suffix(parts),
            byte_letters=model is None and _is_byte_letters(tokenizer, added),
            byte_names=all(_knows(tokenizer, name) for name in ("<0x00>", "<0xFF>")),
            added={id: token.content for id, token in added.items()},
            special=frozenset(id for id, token in added.items() if token.special) | _named_specials(tokenizer),
            unknown=tokenizer.unk_token_id,
        )

    def bytes_of(self, id: int, name: str, covered: str | None = None) -> bytes:
        """The bytes a token stands for.

        `covered` is the part of the text that it lies on: it tells a byte's token from its name typed as text.
        """
        if self.byte_names and covered != name and (byte := _BYTE_NAME.fullmatch(name)):
            return bytes([int(byte[1], 16)])
        if id in self.added:
            return self.added[id].encode()
        if self.byte_level:
            return _from_glyphs(name)
        if self.byte_letters:
            return name.encode("latin-1")
        if self.continuing and name.startswith(self.continuing):
            name = name.removeprefix(self.continuing)
        if self.ending:
            name = name.removesuffix(self.ending)
        return (name.replace(self.space, " ") if self.space else name).encode()

    def tokens_of(self, tokenizer: Any, text: str) -> list[int]:
        """Every token that stands for exactly this text, by the names that it may have in the vocabulary."""
        if self.byte_level:
            names = ["".join(_GLYPHS[byte] for byte in text.encode())]
        else:
            spaced = text.replace(" ", self.space) if self.space else text
            names = [spaced, self.continuing + spaced, spaced + self.ending]
        found = []
        for name in dict.fromkeys([*names, text]):
            id = _id_of(tokenizer, name)
            if id is not None and self.bytes_of(id, name) == text.encode():
                found.append(id)
        return found

    def is_special(self, id: int, covered: str | None) -> bool:
        """Whether a token is special here: an unknown or byte token that covers text of its own is not."""
        name = self.added.get(id, "")
        stands_for_text = id == self.unknown or (self.byte_names and _BYTE_NAME.fullmatch(name))
        if stands_for_text:
            return covered is not None and covered.strip() == name
        return id in self.special


def _parts(tokenizer: Any) -> Iterator[dict[str, Any]]:
    """Every part of a fast tokenizer's pipeline, parts of sequences included, as plain data."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        part = getattr(backend, name, None)
        if part is not None:
            yield from _flat(json.loads(part.__getstate__()))


def _flat(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield part
    for key in ("normalizers", "pretokenizers", "decoders"):
        for inner in part.get(key) or ():
            yield from _flat(inner)


def _space(parts: list[dict[str, Any]]) -> str | None:
    for part in parts:
        if part.get("type") == "Metaspace":
            return str(part["replacement"])
        if part.get("type") == "Replace" and part.get("content") == SPACE_MARK:
            return SPACE_MARK
    return None


def _decoder_suffix(parts: list[dict[str, Any]]) -> str:
    return next((str(part["suffix"]) for part in parts if part.get("type") == "BPEDecoder"), "")


def _knows(tokenizer: Any, name: str) -> bool:
    id = _id_of(tokenizer, name)
    return id is not None and id != tokenizer.unk_token_id


def _id_of(tokenizer: Any, name: str) -> int | None:
    """The token of exactly this name."""
    try:
        id = tokenizer.convert_tokens_to_ids(name)
    except ValueError:  # a tokenizer of single characters takes no longer name
        return None
    return id if id is not None and tokenizer.convert_ids_to_tokens(id) == name else None


def _is_byte_letters(tokenizer: Any, added: dict[int, Any]) -> bool:
    """Whether a slow tokenizer's own names are the 256 letters of Latin-1, as in models that read bytes."""
    if tokenizer.vocab_size > 2 * 256:
        return False
    return {name for name, id in tokenizer.get_vocab().items() if id not in added} == set(map(chr, range(256)))


def _named_specials(tokenizer: Any) -> frozenset[int]:
    return frozenset(int(id) for id in tokenizer.all_special_ids if id is not None)


def _glyphs() -> dict[str, int]:
    """The byte-level alphabet of GPT-2: printable Latin-1 stands for itself, the rest is shifted above U+0100."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + place): byte for place, byte in enumerate(rest)}


_BYTE_OF_GLYPH = _glyphs()
_GLYPHS = {byte: glyph for glyph, byte in _BYTE_OF_GLYPH.items()}


def _from_glyphs(name: str) -> bytes:
    if all(glyph in _BYTE_OF_GLYPH for glyph in name):
        return bytes(_BYTE_OF_GLYPH[glyph] for glyph in name)
    return name.encode()
