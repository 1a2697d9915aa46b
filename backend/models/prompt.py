"""The prompt of a view as the tokenizer is given it, and which characters of it are the person's own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from backend.errors import BadQuestion, CannotShow
from backend.schema.view import Turn, View

Span = tuple[int, int]


@dataclass(frozen=True)
class Prompt:
    """One text, or two for a pair, before tokenisation."""

    text: str
    second: str | None = None
    own: tuple[Span, ...] = ()
    """Spans that the person wrote, in `text` followed by `second`; the rest belongs to the template."""
    templated: bool = False
    notices: tuple[str, ...] = ()


def read_prompt(tokenizer: Any, view: View) -> Prompt:
    """Put the prompt together. Raises `BadQuestion` when it is empty and `CannotShow` when it needs a template."""
    _check_characters(view)
    _check_empty(view)
    if view.templated:
        return _templated(tokenizer, view)
    if view.pair is not None:
        border, end = len(view.pair[0]), len(view.pair[0]) + len(view.pair[1])
        return Prompt(view.pair[0], view.pair[1], own=((0, border), (border, end)))
    if view.turns is not None:
        return _joined(view.turns)
    text = view.text or ""
    return Prompt(text, own=((0, len(text)),))


def _contents(view: View) -> list[str]:
    if view.turns is not None:
        return [turn.content for turn in view.turns]
    return list(view.pair) if view.pair is not None else [view.text or ""]


def _check_characters(view: View) -> None:
    for text in [*_contents(view), view.continuation or ""]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadQuestion(
                "The text holds half a character",
                f"character {error.start} is the lone surrogate U+{ord(text[error.start]):04X}, "
                "which stands for nothing by itself",
                "Remove it; it often comes from text that was cut in the middle of an emoji.",
            ) from error


def _check_empty(view: View) -> None:
    contents = _contents(view)
    if view.pair is not None and not all(contents):
        raise BadQuestion("One text of the pair is empty", "a pair needs two texts", "Fill in both, or give one text.")
    if not any(contents):
        raise BadQuestion("The text is empty", "there is no token to look at", "Type a word or a sentence.")


def _joined(turns: Sequence[Turn]) -> Prompt:
    text, own = "", []
    for turn in turns:
        text += "\n\n" if text else ""
        own.append((len(text), len(text) + len(turn.content)))
        text += turn.content
    return Prompt(
        text,
        own=tuple(own),
        notices=("The chat template is off: the turns are joined by an empty line, without names.",),
    )


def _templated(tokenizer: Any, view: View) -> Prompt:
    if view.pair is not None:
        raise BadQuestion(
            "A pair cannot go through a chat template", "the template knows turns, not segments",
            "Switch the template off, or write the two texts as one.",
        )  # fmt: skip
    if not getattr(tokenizer, "chat_template", None):
        raise CannotShow(
            "This model has no chat template", "its tokenizer does not say how turns are written",
            "Switch the template off and give plain text, or choose a model made for chat.",
        )  # fmt: skip
    turns = view.turns or (Turn(role="user", content=view.text or ""),)
    asks = turns[-1].role != "assistant"
    notices = []
    if view.turns is None:
        notices.append("The text is read as one user turn of the chat template, up to where the answer begins.")
    elif not asks:
        notices.append("The last turn is the assistant's, so the template does not open another answer.")
    text = _render(tokenizer, turns, asks)
    own, found = _own_spans(text, _skeleton(tokenizer, turns, asks), turns)
    return Prompt(text, own=own, templated=True, notices=(*notices, *found))


def _render(tokenizer: Any, turns: Sequence[Turn], asks: bool) -> str:
    messages = [{"role": turn.role, "content": turn.content} for turn in turns]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asks))
    except TemplateError as error:
        raise BadQuestion(
            "The model's chat template refuses these turns", str(error)[:300],
            "Change the order or the roles of the turns.",
        ) from error  # fmt: skip


@dataclass(frozen=True)
class _Skeleton:
    """The template with its contents taken out: literals, and between them the numbers of the turns."""

    literals: tuple[str, ...]
    turns: tuple[int, ...]


def _skeleton(tokenizer: Any, turns: Sequence[Turn], asks: bool) -> _Skeleton | None:
    mark = next(mark for mark in map(chr, range(0xF0000, 0xFFFFE)) if all(mark not in turn.content for turn in turns))
    blank = [Turn(role=turn.role, content=f"{mark}{number}{mark}") for number, turn in enumerate(turns)]
    try:
        parts = re.split(f"{mark}(\\d+){mark}", _render(tokenizer, blank, asks))
    except BadQuestion:
        return None
    return _Skeleton(tuple(parts[::2]), tuple(map(int, parts[1::2])))


def _own_spans(
    text: str, skeleton: _Skeleton | None, turns: Sequence[Turn]
) -> tuple[tuple[Span, ...], tuple[str, ...]]:
    """Where the turns' contents lie in the rendered text, and what the template did to them."""
    placed = _fit(text, skeleton, turns) if skeleton is not None else None
    if placed is None:
        placed = _search(text, turns)
    notices = []
    present = {number for number, _ in placed}
    for number, turn in enumerate(turns):
        if number not in present and turn.content:
            notices.append(f"The chat template leaves out turn {number} ({turn.role}), or rewrites it.")
    trimmed = sorted({number for number, (start, end) in placed if text[start:end] != turns[number].content})
    if trimmed:
        numbers = ", ".join(map(str, trimmed[:8]))
        notices.append(f"The chat template removes the white space around the content of turn {numbers}.")
    return tuple(span for _, span in placed), tuple(notices)


def _fit(text: str, skeleton: _Skeleton, turns: Sequence[Turn]) -> list[tuple[int, Span]] | None:
    if not text.startswith(skeleton.literals[0]):
        return None
    at, placed = len(skeleton.literals[0]), []
    for number, literal in zip(skeleton.turns, skeleton.literals[1:], strict=True):
        content = turns[number].content
        for kept in (content, content.strip(), content.rstrip(), content.lstrip()):
            if text.startswith(kept + literal, at):
                placed.append((number, (at, at + len(kept))))
                at += len(kept) + len(literal)
                break
        else:
            return None
    return placed if at == len(text) else None


def _search(text: str, turns: Sequence[Turn]) -> list[tuple[int, Span]]:
    at, placed = 0, []
    for number, turn in enumerate(turns):
        kept = turn.content.strip()
        start = text.find(kept, at)
        if kept and start >= 0:
            at = start + len(kept)
            placed.append((number, (start, at)))
    return placed
