"""Pieces: what each token looks like to a reader, and where it lies in the text."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass

Span = tuple[int, int]
SPACE_MARK = "\u2581"
"""SentencePiece's sign for a space; a text may hold it as well, and then its token covers it."""
Utf8 = getincrementaldecoder("utf-8")


@dataclass(frozen=True)
class Piece:
    """What to print for one token, and its place among the tokens that share its characters."""

    text: str
    part: int = 0
    parts: int = 1
    whole: str = ""
    """Everything its group completes, also on the members that print nothing."""


def read_pieces(bytes_of: Sequence[bytes], alone: Sequence[bool]) -> list[Piece]:
    """Join tokens that share a character: the first prints it, the others print nothing.

    `alone` marks tokens that share nothing with their neighbours (special tokens). Bytes that are not UTF-8 print
    as U+FFFD.
    """
    pieces: list[Piece] = []
    decoder = Utf8("replace")
    shown, members = "", 0

    def close() -> None:
        nonlocal shown, members
        shown += decoder.decode(b"", final=True)
        decoder.reset()
        pieces.extend(_group(shown, members))
        shown, members = "", 0

    for own, is_alone in zip(bytes_of, alone, strict=True):
        if is_alone and members:
            close()
        shown += decoder.decode(own)
        members += 1
        if is_alone or not decoder.getstate()[0]:
            close()
    if members:
        close()
    return pieces


def _group(shown: str, members: int) -> list[Piece]:
    if members == 1:
        return [Piece(shown, whole=shown)]
    return [Piece(shown if part == 1 else "", part, members, shown) for part in range(1, members + 1)]


def place(text: str, bytes_of: Sequence[bytes], offsets: Sequence[Span] | None) -> list[Span] | None:
    """Where each token lies in `text`, in characters; None when nobody can say.

    Exact when the tokens' bytes are the text's bytes (at most with one space put before them); otherwise the
    tokenizer's own offsets, with the white space they leave out given back.
    """
    exact = _by_bytes(text, bytes_of)
    if exact is not None or offsets is None:
        return exact
    return _tidied(text, bytes_of, offsets)


def _by_bytes(text: str, bytes_of: Sequence[bytes]) -> list[Span] | None:
    joined, raw = b"".join(bytes_of), text.encode()
    before = len(joined) - len(raw)
    if before not in (0, 1) or joined != b" " * before + raw:
        return None
    character_at = [0] * before
    for index, character in enumerate(text):
        character_at += [index] * len(character.encode())
    character_at.append(len(text))
    spans, at = [], 0
    for own in bytes_of:
        first, after = max(at, before), at + len(own)
        start = character_at[first]
        spans.append((start, character_at[after - 1] + 1 if after > first else start))
        at = after
    return spans


def _tidied(text: str, bytes_of: Sequence[bytes], offsets: Sequence[Span]) -> list[Span]:
    spans: list[Span] = []
    begun = covered = 0
    for own, (start, end) in zip(bytes_of, offsets, strict=True):
        start, end = max(start, begun), max(end, start, begun)
        shown = own.decode("utf-8", "replace")
        leading = len(shown) - len(shown.lstrip())
        if leading == len(shown) and text[start:end].strip() not in ("", SPACE_MARK):
            end = start
        while leading and start > covered and text[start - 1].isspace() and not text[start:end][:1].isspace():
            start, leading = start - 1, leading - 1
        spans.append((start, end))
        begun, covered = start, max(covered, end)
    return spans
