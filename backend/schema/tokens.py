"""The tokens instrument: one tokenisation and one offset table for every page."""

from typing import Literal

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.frozen import Frozen
from backend.schema.view import View

Role = Literal["text", "special", "template", "continuation"]


class Token(Frozen):
    """One token as a person may read it."""

    position: int
    id: int
    piece: str
    """What to print: the characters this token completes; spaces as they are, never byte-level glyphs."""
    hex: str
    """Its own bytes in hex (UTF-8 of its part of the text); for a special token, of its name."""
    start: int | None
    """First character of the text it covers (in `TokensAnswer.text`), None for tokens with no place in it."""
    end: int | None
    role: Role
    part: int = 0
    """0: whole characters of its own; else it shares a character: 1 is the first token of the group, 2 the next …"""
    parts: int = 1
    """How many tokens share the character; the first shows it, the others show a mark."""
    separator: bool = False
    """A token that separates segments, such as [SEP] or an end-of-turn mark."""
    punctuation: bool = False
    """All its characters are punctuation."""
    segment: int = 0
    """0 or 1 where the model has segments."""


class Scores(Frozen):
    """How the unedited and edited model read each token. Position 0 has no left context: NaN."""

    surprisal: Array
    """f4 [T], nats: −ln p(token | tokens to its left)."""
    probability: Array
    """f4 [T]."""
    rank: Array
    """i4 [T], 0 is the most likely token; −1 where undefined."""
    entropy: Array
    """f4 [T], nats: entropy of the distribution this token was drawn from."""


class TokensAsk(Frozen):
    """POST /api/v1/tokens."""

    view: View
    scores: bool = True
    """Also run the model; without it only the tokenizer is asked."""


class TokensAnswer(Frozen):
    """Tokens of the view's prompt and continuation."""

    conditions: Conditions
    ids: tuple[int, ...]
    text: str
    """The string the offsets refer to (after the template), before tokenisation."""
    tokens: tuple[Token, ...]
    prompt: int
    """How many tokens belong to the prompt; the rest is the continuation."""
    templated: bool
    notices: tuple[str, ...] = ()
    """What the tokenizer lost or changed, in sentences."""
    scores: Scores | None = None
    """Of the edited model where the view has edits."""
    unedited: Scores | None = None
    """When the view compares."""
    scores_why: str = ""
    """Why there are no scores, in a sentence."""
