"""From ids to the tokens a person may read: piece, bytes, place, role and marks of each."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.models.encoding import Encoded
from backend.models.losses import Reading, describe_losses, quote
from backend.models.pieces import Piece, Span, place, read_pieces
from backend.models.prompt import Prompt
from backend.models.spelling import Spelling
from backend.schema.tokens import Role, Token


@dataclass(frozen=True)
class _Mark:
    """One token while its parts are found out."""

    id: int
    name: str
    added: bool
    special: bool
    unknown: bool
    own: bytes


def mark_tokens(
    tokenizer: Any, spelling: Spelling, prompt: Prompt, encoded: Encoded, text: str, length: int
) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """All tokens, and sentences on what the tokenizer lost or changed. `length`: tokens of the prompt."""
    marks = _marks(spelling, prompt, encoded, text)
    spans = _spans(prompt, encoded, marks, text)
    pieces = read_pieces([mark.own for mark in marks], [mark.special or mark.unknown for mark in marks])
    separators = _separators(tokenizer, prompt, marks, spans)
    segments = encoded.sequence if encoded.type_ids is None or prompt.second is not None else encoded.type_ids
    tokens = tuple(
        Token(
            position=at,
            id=mark.id,
            piece=piece.text,
            hex=mark.own.hex(),
            start=None if span is None else span[0],
            end=None if span is None else span[1],
            role=_role(mark, span, at >= length, prompt),
            part=piece.part,
            parts=piece.parts,
            separator=at in separators,
            punctuation=not mark.special and is_punctuation(_covered(text, span) if mark.unknown else piece.whole),
            segment=segments[at],
        )
        for at, (mark, span, piece) in enumerate(zip(marks, spans, pieces, strict=True))
    )
    return tokens, tuple(_notices(text, prompt, marks, spans, pieces, length))


def holds_text(tokens: Sequence[Token], prompt: Prompt) -> bool:
    """Whether any token covers a character that the person wrote."""
    for token in tokens:
        if token.start is None or token.end is None:
            if token.role == "text":
                return True
        elif token.start < token.end and _is_own((token.start, token.end), prompt):
            return True
    return False


def is_punctuation(text: str) -> bool:
    """Every character but white space is of a Unicode category P, and there is one."""
    kept = [character for character in text if not character.isspace()]
    return bool(kept) and all(unicodedata.category(character).startswith("P") for character in kept)


def _marks(spelling: Spelling, prompt: Prompt, encoded: Encoded, text: str) -> list[_Mark]:
    marks = []
    for at, (id, name, added) in enumerate(zip(encoded.ids, encoded.names, encoded.added, strict=True)):
        span = None if added else _said(prompt, encoded, at)
        covered = None if span is None else text[slice(*span)]
        special = added or spelling.is_special(id, covered)
        unknown = not special and id == spelling.unknown
        marks.append(_Mark(id, name, added, special, unknown, spelling.bytes_of(id, name, covered)))
    return marks


def _said(prompt: Prompt, encoded: Encoded, at: int) -> Span | None:
    """Where the tokenizer says a token lies, in the whole text."""
    if encoded.offsets is None:
        return None
    base = len(prompt.text) if encoded.sequence[at] else 0
    start, end = encoded.offsets[at]
    return start + base, end + base


def _spans(prompt: Prompt, encoded: Encoded, marks: Sequence[_Mark], text: str) -> list[Span | None]:
    """Where each token lies in the whole text; None for those that were put around it."""
    border = len(text) if prompt.second is None else len(prompt.text)
    spans: list[Span | None] = [None] * len(marks)
    for sequence, (base, part) in enumerate(((0, text[:border]), (border, text[border:]))):
        places = [at for at, mark in enumerate(marks) if not mark.added and encoded.sequence[at] == sequence]
        offsets = None if encoded.offsets is None else [encoded.offsets[at] for at in places]
        found = place(part, [marks[at].own for at in places], offsets)
        for at, (start, end) in zip(places, found or (), strict=found is not None):
            spans[at] = (start + base, end + base)
    return spans


def _covered(text: str, span: Span | None) -> str:
    return "" if span is None else text[slice(*span)]


def _role(mark: _Mark, span: Span | None, continues: bool, prompt: Prompt) -> Role:
    if mark.special:
        return "special"
    if continues:
        return "continuation"
    return "text" if _is_own(span, prompt) else "template"


def _is_own(span: Span | None, prompt: Prompt) -> bool:
    """Whether a token covers something that the person wrote; without a template everything is."""
    if span is None:
        return not prompt.templated
    start, end = span
    return any((start < last and end > first) or first <= start == end < last for first, last in prompt.own)


def _separators(tokenizer: Any, prompt: Prompt, marks: Sequence[_Mark], spans: Sequence[Span | None]) -> set[int]:
    """Special tokens between or after texts: [SEP], the end of a text, and what follows each turn in a template."""
    ends = {tokenizer.sep_token_id, tokenizer.eos_token_id} - {None}
    found = {at for at, mark in enumerate(marks) if at > 0 and mark.special and mark.id in ends}
    if prompt.templated:
        turns = [last for _, last in prompt.own]
        at = 0
        for last in turns:
            while at < len(marks) and not (marks[at].special and (spans[at] or (0, 0))[0] >= last):
                at += 1
            if at < len(marks):
                found.add(at)
    return found


def _notices(
    text: str,
    prompt: Prompt,
    marks: Sequence[_Mark],
    spans: Sequence[Span | None],
    pieces: Sequence[Piece],
    length: int,
) -> list[str]:
    if any(span is None for mark, span in zip(marks, spans, strict=True) if not mark.added):
        return ["This tokenizer does not say which characters each token covers, so no loss can be shown."]
    taken = [span for mark, span in zip(marks, spans, strict=True) if mark.special and span is not None]
    return [
        *_specials_in_text(prompt, marks, spans, length),
        *describe_losses(text, _readings(marks, spans, pieces), taken),
    ]


def _specials_in_text(prompt: Prompt, marks: Sequence[_Mark], spans: Sequence[Span | None], length: int) -> list[str]:
    names = dict.fromkeys(
        mark.name
        for at, (mark, span) in enumerate(zip(marks, spans, strict=True))
        if mark.special and not mark.added and (at >= length or _is_own(span, prompt))
    )
    if not names:
        return []
    return [f"The text holds {', '.join(map(quote, list(names)[:5]))}: read as a special token, not as characters."]


def _readings(marks: Sequence[_Mark], spans: Sequence[Span | None], pieces: Sequence[Piece]) -> list[Reading]:
    """One reading for each group of tokens that share characters."""
    readings: list[Reading] = []
    at = 0
    while at < len(marks):
        group = [span for span in spans[at : at + pieces[at].parts] if span is not None]
        if group and not marks[at].special:
            span = (min(start for start, _ in group), max(end for _, end in group))
            readings.append(Reading(span, pieces[at].whole, marks[at].unknown))
        at += pieces[at].parts
    return readings
