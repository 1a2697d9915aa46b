"""What a tokenizer loses or changes, in sentences: the model does not read what the person wrote."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
_EXAMPLES = 5
_LONGEST = 24


@dataclass(frozen=True)
class Reading:
    """A stretch of text (one token, or several that share a character) and what the model reads there."""

    span: Span
    reads: str
    unknown: bool = False


def describe_losses(text: str, readings: Sequence[Reading], taken: Iterable[Span] = ()) -> list[str]:
    """Sentences on characters that were dropped, are unknown, or were changed. `taken`: spans of special tokens."""
    return [
        *_dropped(text, [*(reading.span for reading in readings), *taken]),
        *_unknown(text, readings),
        *_changed(text, readings),
    ]


def _dropped(text: str, spans: Iterable[Span]) -> list[str]:
    left, at = [], 0
    for start, end in sorted(spans):
        if start > at:
            left.append(text[at:start])
        at = max(at, end)
    left.append(text[at:])
    lost = Counter(character for part in left for character in part if not character.isspace())
    sentences = []
    if lost:
        sentences.append(f"The tokenizer drops {_list(_name(character) for character in lost)}.")
    gaps = ["".join(filter(str.isspace, part)) for part in left]
    if any(gap not in ("", " ") for gap in gaps):
        sentences.append("The tokenizer keeps no line breaks and no repeated spaces.")
    return sentences


def _unknown(text: str, readings: Sequence[Reading]) -> list[str]:
    unknown = Counter(text[slice(*reading.span)].strip() for reading in readings if reading.unknown)
    if not unknown:
        return []
    name = next(reading.reads for reading in readings if reading.unknown)
    return [f"The tokenizer has no token for {_list(map(quote, unknown))}: the model reads {name} there."]


def _changed(text: str, readings: Sequence[Reading]) -> list[str]:
    found: dict[str, dict[tuple[str, str], None]] = {}
    for reading in _merged(text, readings):
        wrote, reads = text[slice(*reading.span)].strip(), reading.reads.strip()
        if not reading.unknown and wrote != reads:
            found.setdefault(_kind(wrote, reads), {})[wrote, reads or reading.reads] = None
    return [
        f"The tokenizer {kind}: {_list(f'{quote(wrote)} is read as {quote(reads)}' for wrote, reads in pairs)}."
        for kind, pairs in found.items()
    ]


def _merged(text: str, readings: Sequence[Reading]) -> list[Reading]:
    """Pieces of one word are one reading, and so are several tokens on the same characters (a ligature)."""
    merged: list[Reading] = []
    for reading in readings:
        if merged and _belongs(text, merged[-1], reading):
            last = merged.pop()
            reading = Reading((last.span[0], reading.span[1]), last.reads + reading.reads)
        merged.append(reading)
    return merged


def _belongs(text: str, last: Reading, reading: Reading) -> bool:
    if last.unknown or reading.unknown:
        return False
    if last.span == reading.span or reading.span[0] < last.span[1]:
        return True
    word = text[last.span[0] : reading.span[1]].strip()
    touching = last.span[1] == reading.span[0]
    return touching and len(word) <= _LONGEST and word.isalpha() and reading.reads.isalpha()


def _kind(wrote: str, reads: str) -> str:
    if wrote.lower() == reads:
        return "makes letters small"
    if _bare(wrote) == reads:
        return "removes accents"
    if _bare(wrote).lower() == reads or _bare(wrote.lower()) == reads:
        return "makes letters small and removes accents"
    if unicodedata.normalize("NFC", wrote) == unicodedata.normalize("NFC", reads):
        return "writes the same characters another way"
    if unicodedata.normalize("NFKC", wrote) == unicodedata.normalize("NFKC", reads):
        return "replaces characters by plainer ones"
    return "changes the text"


def _bare(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


def quote(text: str) -> str:
    """A short, printable rendering in quotation marks; a single invisible character by its code point and name."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    if len(short) == 1:
        return _name(short)
    return f"“{''.join(character if character.isprintable() else _point(character) for character in short)}”"


def _name(character: str) -> str:
    if character.isprintable() and not unicodedata.category(character).startswith(("M", "Z")):
        return f"“{character}”"
    name = unicodedata.name(character, "")
    return f"{_point(character)} {name}".rstrip()


def _point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _list(items: Iterable[str]) -> str:
    every = list(items)
    rest = len(every) - _EXAMPLES
    return ", ".join(every[:_EXAMPLES]) + (f" and {rest} more" if rest > 0 else "")
