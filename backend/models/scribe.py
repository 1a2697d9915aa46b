"""Scribe: the text of a continuation, token by token, in whole characters, up to a text that stops it.

What was handed out is never taken back: bytes of a character that is not whole yet are held, and so are characters with
which a stop text may begin. All pieces together are the whole text.
"""

from collections.abc import Sequence
from typing import Any

from backend.models.pieces import Utf8
from backend.models.spelling import Spelling


class Scribe:
    """Writes one continuation down."""

    def __init__(self, tokenizer: Any, spelling: Spelling, before: int, stops: Sequence[str] = ()) -> None:
        """`before`: the id of the last token of the prompt."""
        self._tokenizer, self._spelling, self._stops = tokenizer, spelling, tuple(stops)
        self._decoder = Utf8("replace")
        self._held = ""
        self._word_ended = self._ends_word(before, self._name(before))

    def add(self, id: int) -> tuple[str, bool]:
        """What a token adds to the text, and whether a stop text came: then the text ends before it."""
        self._held += self._decoder.decode(self._bytes(id))
        found = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if found:
            piece, self._held = self._held[: min(found)], ""
            self._decoder.reset()
            return piece, True
        last = len(self._held) - self._begins_stop()
        piece, self._held = self._held[:last], self._held[last:]
        return piece, False

    def close(self) -> str:
        """What was held, when nothing follows; bytes that became no character are U+FFFD."""
        piece, self._held = self._held + self._decoder.decode(b"", final=True), ""
        return piece

    def _begins_stop(self) -> int:
        """How many of the last characters held may be the beginning of a stop text."""
        longest = max((len(stop) for stop in self._stops), default=0) - 1
        sizes = range(min(longest, len(self._held)), 0, -1)
        return next((size for size in sizes if any(stop.startswith(self._held[-size:]) for stop in self._stops)), 0)

    def _name(self, id: int) -> str | None:
        name: str | None = self._tokenizer.convert_ids_to_tokens(id)
        return name

    def _bytes(self, id: int) -> bytes:
        name = self._name(id)
        if name is None:  # a row of the embedding beyond the tokenizer
            return b""
        apart = self._word_ended or self._begins_word(id, name)
        self._word_ended = self._ends_word(id, name)
        return b" " * apart + self._spelling.bytes_of(id, name)

    def _ends_word(self, id: int, name: str | None) -> bool:
        """Whether the next token stands behind a space, in vocabularies that mark where words end."""
        ending = self._spelling.ending
        return bool(ending) and name is not None and id not in self._spelling.added and name.endswith(ending)

    def _begins_word(self, id: int, name: str) -> bool:
        """Whether it stands behind a space, in vocabularies that mark what continues a word."""
        continuing = self._spelling.continuing
        return bool(continuing) and id not in self._spelling.added and not name.startswith(continuing)
