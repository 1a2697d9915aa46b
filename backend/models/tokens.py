"""One tokenisation and one offset table for every page, and how the model reads each token."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backend.errors import BadQuestion, CannotShow, TooLong
from backend.measure.array import to_array
from backend.measure.tokens import BLOCK_BYTES, TokenScores, score_tokens
from backend.models import forward
from backend.models.checks import check_edits, idle
from backend.models.continuation import append_continuation
from backend.models.encoding import Encoded, count, encode
from backend.models.loaded import Loaded
from backend.models.marking import holds_text, mark_tokens
from backend.models.plan import Plan, Row, fold
from backend.models.prompt import Prompt, read_prompt
from backend.models.spelling import Spelling
from backend.models.taps import Cancel
from backend.schema.limits import Limits
from backend.schema.tokens import Scores, Token, TokensAnswer, TokensAsk
from backend.schema.view import Focus, Reading, View

FAR = 2
"""A text of so many times the tokens allowed is refused by a count alone; that one may be a few tokens off."""
TEXTS_REMEMBERED = 4
READ_OUT = "last lens row equals the logits"
"""The promise, checked at load, that scores rest on."""


@dataclass(frozen=True)
class Tokenised:
    """What every instrument knows about the text of a view."""

    ids: tuple[int, ...]
    tokens: tuple[Token, ...]
    text: str
    """What the offsets refer to: the prompt as it was given to the tokenizer (a pair joined), then the continuation."""
    prompt: int
    """How many tokens belong to the prompt; the rest is the continuation."""
    segments: tuple[int, ...]
    token_type_ids: tuple[int, ...] | None
    """What the model takes as such; None when it takes none."""
    templated: bool
    notices: tuple[str, ...] = ()


def tokenise(
    tokenizer: Any, view: View, *, context: int | None, limits: Limits, vocabulary: int | None = None
) -> Tokenised:
    """Tokenise the view's prompt and continuation. No model is asked.

    Raises `BadQuestion` for a text of which no token is left, `TooLong` with the tokens needed and available, and
    `CannotShow` for a form that this tokenizer does not know. `vocabulary`: rows of the model's embedding.
    """
    prompt = read_prompt(tokenizer, view)
    available = limits.tokens if context is None else min(limits.tokens, context)
    if (total := count_tokens(tokenizer, prompt, view)) > FAR * available:
        raise _too_long(total, available, context)
    encoded = encode(tokenizer, prompt.text, prompt.second, specials=not prompt.templated)
    encoded, notices = _without_doubled(encoded, prompt)
    _check_pair(encoded, prompt)
    length = len(encoded.ids)
    spelling = Spelling.of(tokenizer)
    if view.continuation:
        encoded, said = append_continuation(tokenizer, spelling, prompt, encoded, view.continuation)
        notices += said
    if len(encoded.ids) > available:
        raise _too_long(len(encoded.ids), available, context)
    _check_vocabulary(encoded, vocabulary)
    text = prompt.text + (prompt.second or "") + (view.continuation or "")
    tokens, said = mark_tokens(tokenizer, spelling, prompt, encoded, text, length)
    if not holds_text(tokens[:length], prompt):
        raise BadQuestion(
            "No token is left of this text", "the tokenizer drops every character of it",
            "Type letters that the model knows.",
        )  # fmt: skip
    return Tokenised(
        ids=encoded.ids, tokens=tokens, text=text, prompt=length, segments=tuple(token.segment for token in tokens),
        token_type_ids=encoded.type_ids, templated=prompt.templated, notices=(*prompt.notices, *notices, *said),
    )  # fmt: skip


def read_tokens(loaded: Loaded, view: View, limits: Limits) -> Tokenised:
    """The tokens of a view, within the context of this model and the limits; the last few texts are remembered."""
    text = view.model_copy(update={"edits": (), "compare": False, "focus": Focus(), "reading": Reading()})
    key = (text.canonical(), limits.tokens)
    if key not in loaded.read:
        loaded.read[key] = tokenise(
            loaded.tokenizer, view, context=loaded.context, limits=limits, vocabulary=loaded.anatomy.shape.vocabulary
        )
        while len(loaded.read) > TEXTS_REMEMBERED:
            loaded.read.pop(next(iter(loaded.read)))
    return loaded.read[key]


def _without_doubled(encoded: Encoded, prompt: Prompt) -> tuple[Encoded, tuple[str, ...]]:
    """Leave out a special token that the text itself already begins or ends with."""
    notices: tuple[str, ...] = ()
    for place, beside, edge in ((0, 1, "begins"), (-1, -2, "ends")):
        if len(encoded.ids) < 2 or not encoded.added[place] or encoded.added[beside]:
            continue
        if encoded.ids[place] == encoded.ids[beside]:
            notices += (f"The text already {edge} with {encoded.names[place]}, so it was not added a second time.",)
            encoded = encoded.without(place % len(encoded.ids))
    return encoded, notices


def _check_pair(encoded: Encoded, prompt: Prompt) -> None:
    """A pair needs something between its texts, and one beginning."""
    if prompt.second is None:
        return
    turn = next((place for place, sequence in enumerate(encoded.sequence) if sequence == 1), None)
    separated = turn is not None and encoded.added[turn - 1]
    doubled = encoded.added[0] and any(
        added and id == encoded.ids[0] for id, added in list(zip(encoded.ids, encoded.added, strict=True))[1:]
    )
    if not separated or doubled:
        raise CannotShow(
            "This model does not read pairs", "its tokenizer has no mark that separates two texts",
            "Write the two texts as one.",
        )  # fmt: skip


def count_tokens(tokenizer: Any, prompt: Prompt, view: View) -> int:
    """How many tokens prompt and continuation have: cheap, for places are not asked for.

    Exact without a continuation; with one the border may be cut otherwise.
    """
    return count(tokenizer, prompt.text, prompt.second, specials=not prompt.templated) + (
        count(tokenizer, view.continuation, specials=False) if view.continuation else 0
    )


def _too_long(needed: int, available: int, context: int | None) -> TooLong:
    whose = "the model was made for" if available == context else "this server allows for one question"
    return TooLong(
        f"The text has {needed:,} tokens", f"{available:,} are the most that {whose}",
        "Shorten the text.", needed=needed, available=available,
    )  # fmt: skip


def _check_vocabulary(encoded: Encoded, vocabulary: int | None) -> None:
    if vocabulary is None:
        return
    for id, name in zip(encoded.ids, encoded.names, strict=True):
        if id >= vocabulary:
            raise CannotShow(
                f"The model does not know the token {name[:40]}",
                f"its number is {id}, and the model has {vocabulary} embeddings",
                "Remove it from the text; tokenizer and model do not fit each other.",
            )


def answer(loaded: Loaded, ask: TokensAsk, limits: Limits, cancel: Cancel | None = None) -> TokensAnswer:
    """The tokens of a view and how the model reads them, with its edits and, when it compares, without.

    Raises what `tokenise` raises, and `CannotShow` for an edit of a part that the model does not have.
    """
    read = read_tokens(loaded, ask.view, limits)
    check_edits(loaded.anatomy, ask.view.active_edits, len(read.ids), loaded.vectors, loaded.card.edits)
    notices = read.notices + idle(ask.view.active_edits, len(read.ids), read.prompt)
    why = _why_not(loaded, ask)
    scores = unedited = None
    if not why:
        scores, unedited = _scores(loaded, ask.view, read, cancel)
    return TokensAnswer(
        conditions=loaded.conditions, ids=read.ids, text=read.text, tokens=read.tokens, prompt=read.prompt,
        templated=read.templated, notices=notices, scores=scores, unedited=unedited, scores_why=why,
    )  # fmt: skip


def answer_bytes(loaded: Loaded, ask: TokensAsk, limits: Limits | None = None) -> int:
    """Bytes that the answer needs beside the model: states, one layer's scores, blocks of logits. 0 without a forward.

    Raises `BadQuestion` for an empty text; what is too long counts as the longest allowed, for it will be refused.
    """
    if _why_not(loaded, ask):
        return 0
    tokens = count_tokens(loaded.tokenizer, read_prompt(loaded.tokenizer, ask.view), ask.view)
    tokens = min(tokens, loaded.context or tokens, limits.tokens if limits else tokens)
    shape = loaded.anatomy.shape
    rows = 2 if ask.view.compare and ask.view.active_edits else 1
    states = 20 * tokens * shape.width * loaded.model.dtype.itemsize
    scores = 3 * shape.heads * tokens**2 * 4
    return rows * (states + scores) + 4 * BLOCK_BYTES


def _why_not(loaded: Loaded, ask: TokensAsk) -> str:
    """Why there are no scores; empty when there are."""
    if not ask.scores:
        return "Only the tokens were asked for."
    if not loaded.anatomy.shape.causal:
        return (
            "This model reads every token with the whole text around it, so no token has a surprisal "
            "given only what stands to its left."
        )
    if loaded.anatomy.unembedding is None:
        return "This model ends with its states and predicts no tokens."
    broken = next(
        (promise for promise in loaded.card.promises if promise.name == READ_OUT and promise.kept is False), None
    )
    return f"The read-out of this model cannot be repeated: {broken.detail}." if broken else ""


def _scores(loaded: Loaded, view: View, read: Tokenised, cancel: Cancel | None) -> tuple[Scores, Scores | None]:
    """The edited and, when the view compares, the unedited model, as rows of one batch."""
    edits = view.active_edits
    rows = [Row(edits, read.prompt)] + ([Row((), read.prompt)] if view.compare and edits else [])
    plan = fold(loaded.anatomy, rows, len(read.ids), loaded.vectors)
    types_BT = None if read.token_type_ids is None else [read.token_type_ids] * len(rows)
    states_BTD = forward.run(loaded, [read.ids] * len(rows), plan, types_BT=types_BT, cancel=cancel)
    ids_T = torch.tensor(read.ids)
    plans = [None if plan is None else plan.row(place) for place in range(len(rows))]
    found = [_scored(loaded, states_TD, ids_T, row, cancel) for states_TD, row in zip(states_BTD, plans, strict=True)]
    return found[0], found[-1] if view.compare else None


def _scored(loaded: Loaded, states_TD: Tensor, ids_T: Tensor, plan: Plan | None, cancel: Cancel | None) -> Scores:
    def read(states_ND: Tensor, first: int) -> Tensor:
        return forward.read_out(loaded, states_ND, plan and plan.part(first, first + len(states_ND)))

    vocabulary = loaded.anatomy.shape.vocabulary
    return _packed(score_tokens(states_TD, ids_T, read, vocabulary=vocabulary, cancel=cancel))


def _packed(scored: TokenScores) -> Scores:
    return Scores(
        surprisal=to_array(scored.surprisal_T), probability=to_array(scored.probability_T),
        rank=to_array(scored.rank_T), entropy=to_array(scored.entropy_T),
    )  # fmt: skip
