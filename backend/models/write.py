"""The write instrument: a view is continued, edited and unedited side by side under the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from backend import errors
from backend.models.asking import NOTHING_TO_COMPARE
from backend.models.checks import check_edits, idle
from backend.models.cost import SCRATCH, forward_bytes
from backend.models.decoding import Chosen, Line
from backend.models.loaded import Loaded
from backend.models.plan import Row
from backend.models.scribe import Scribe
from backend.models.sliders import NO_SLIDER, is_slider, without
from backend.models.spelling import Spelling
from backend.models.tokens import Tokenised, read_tokens
from backend.models.words import words_of
from backend.schema import Acted, Edit, Limits, View, WriteAnswer, WriteAsk, WriteEvent, Written, WrittenSide
from backend.schema.write import Ended, Side

Told = Callable[[WriteEvent], None]
SIDES: tuple[Side, Side] = ("edited", "unedited")
ROUNDED = (
    "This model runs in {dtype}: who else writes at the same time may change the last bits of a step, and with them, "
    "where two tokens are nearly as likely, the text."
)
SLOW = "This model keeps no cache that can be used here, so every token runs the whole text again: right, but slower."
NUMBERS_AT_ONCE = 8
"""Copies of the logits, in float64, that drawing a token holds."""


def sides_of(ask: WriteAsk) -> dict[Side, tuple[Edit, ...]]:
    """The edits of each side: the other one has none, or, where ratios are asked for, all but the sliders."""
    edits = ask.view.active_edits
    others = without(edits) if ask.ratio else ()
    sides: dict[Side, tuple[Edit, ...]] = {"edited": edits}
    if ask.view.compare and edits != others:
        sides["unedited"] = others
    return sides


def rows_of(ask: WriteAsk) -> int:
    """Rows of the model's batch that a continuation takes: one a side, and one that follows it where states differ."""
    return len(sides_of(ask)) * (2 if ask.ratio and _moves_states(ask.view.active_edits) else 1)


def _moves_states(edits: tuple[Edit, ...]) -> bool:
    """Whether the model with the sliders has other states than without them, not only another read-out."""
    return any(is_slider(edit) and edit.kind != "steer" for edit in edits)


def check_limits(ask: WriteAsk, limits: Limits) -> None:
    """Raise `BadQuestion` with both numbers for more tokens, or more rows, than this server allows."""
    wanted = {
        "tokens": (ask.view.sampling.tokens, limits.new_tokens, "Ask for fewer tokens, and go on from there."),
        "rows": (rows_of(ask), limits.rows, "Ask for the edited and the unedited text one after the other."),
    }
    for what, (needed, available, instead) in wanted.items():
        if needed > available:
            raise errors.BadQuestion(
                f"So many {what} cannot be written", f"{needed} are asked for, and this server allows {available}",
                instead, needed=needed, available=available,
            )  # fmt: skip


def cost(loaded: Loaded, ask: WriteAsk, limits: Limits) -> int:
    """Bytes for the pass over the prompt and for what goes on being held. Raises as `tokenise`."""
    return forward_bytes(loaded, ask.view, limits) + _held_bytes(loaded, ask, limits)


def _held_bytes(loaded: Loaded, ask: WriteAsk, limits: Limits) -> int:
    return held_bytes(loaded, rows_of(ask), len(read_tokens(loaded, ask.view, limits).ids) + ask.view.sampling.tokens)


def held_bytes(loaded: Loaded, rows: int, tokens: int) -> int:
    """A cache of the whole text, twice while it is moved, and the logits that a token is drawn from."""
    shape = loaded.anatomy.shape
    column = 2 * shape.layers * shape.kv_heads * shape.head_width * loaded.model.dtype.itemsize
    return 2 * rows * tokens * column + rows * shape.vocabulary * 8 * NUMBERS_AT_ONCE + SCRATCH


@dataclass
class _Told:
    """One side as far as it is written."""

    line: Line
    scribe: Scribe
    tokens: list[Written] = field(default_factory=list)
    ended: Ended | None = None
    sign: int = 1
    """Of the ratio that its line is told."""

    def whole(self) -> WrittenSide:
        """Once it has ended."""
        assert self.ended is not None
        text = "".join(token.text for token in self.tokens)
        return WrittenSide(text=text, tokens=tuple(self.tokens), ended=self.ended)


class Writer:
    """One continuation: its lines go into the model's batch, its tokens come back one by one."""

    def __init__(
        self, loaded: Loaded, ask: WriteAsk, limits: Limits, told: Told | None = None, *, kept: bool = True
    ) -> None:
        """`told` hears of every event; not `kept`: it alone, and there is no answer at the end.

        Raises `CannotShow` where a model does not write, and as `ask_model`.
        """
        check_writes(loaded)
        check_limits(ask, limits)
        read = read_tokens(loaded, ask.view, limits)
        check_open(read, ask.view)
        edits, ahead = ask.view.active_edits, len(read.ids) + ask.view.sampling.tokens
        check_edits(loaded.anatomy, edits, ahead, loaded.vectors, loaded.card.edits)
        self._loaded, self._told, self._ids, self._kept = loaded, told, read.ids, kept
        self._edits = ask.view.edits
        self.bytes = _held_bytes(loaded, ask, limits)
        self._notices = read.notices + _notices(loaded, ask, read, ahead)
        self._ends = ends_of(loaded)
        self._spelling = Spelling.of(loaded.tokenizer)
        self._sides = {
            side: _Told(
                _line(ask, read, own), Scribe(loaded.tokenizer, self._spelling, read.ids[-1], ask.view.sampling.stop),
                sign=1 if side == "edited" else -1,
            )
            for side, own in sides_of(ask).items()
        }  # fmt: skip
        self._begun = False
        if self._full(len(read.ids)):
            self._begin()
            for side in self._sides:
                self._end(side, "full")

    @property
    def lines(self) -> list[Line]:
        """The lines that go on, each behind the one that follows it."""
        going = [told.line for told in self._sides.values() if told.ended is None]
        return [one for line in going for one in (line.other, line) if isinstance(one, Line)]

    def take(self, line: Line, chosen: Chosen) -> None:
        """The next token of one of its lines."""
        if line.follows:
            line.ids.append(chosen.id)
            return
        self._begin()
        side, told = next((side, told) for side, told in self._sides.items() if told.line is line)
        line.ids.append(chosen.id)
        text, ended = self._written(told, chosen.id)
        written = Written(
            id=chosen.id, text=text, probability=chosen.probability, top=chosen.top,
            top_probability=chosen.top_probability,
            ratio=None if chosen.ratio is None else told.sign * chosen.ratio,
        )  # fmt: skip
        told.tokens.append(written)
        self._tell(WriteEvent(kind="token", side=side, token=written, words=self._words([written])))
        if ended is not None:
            self._end(side, ended)

    def answer(self) -> WriteAnswer | None:
        """The whole, once no line goes on."""
        if not self._kept:
            return None
        edited, unedited = (self._sides[side].whole() if side in self._sides else None for side in SIDES)
        assert edited is not None
        tokens = [*edited.tokens, *(unedited.tokens if unedited else ())]
        return WriteAnswer(
            conditions=self._loaded.conditions, ids=self._ids, edited=edited, unedited=unedited,
            parted=None if unedited is None else parted(edited, unedited), acted=self._acted(),
            words=self._words(tokens),
            notices=self._notices,
        )  # fmt: skip

    def _written(self, told: _Told, id: int) -> tuple[str, Ended | None]:
        """What the token adds to the text, and why the text ends with it."""
        if id in self._ends:
            return told.scribe.close(), "end"
        text, stopped = told.scribe.add(id)
        if stopped:
            return text, "stop"
        ended: Ended | None = "length" if not told.line.left else "full" if self._full(len(told.line.ids)) else None
        return text + (told.scribe.close() if ended else ""), ended

    def _full(self, tokens: int) -> bool:
        context = self._loaded.context
        return context is not None and tokens >= context

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._tell(
                WriteEvent(kind="begun", conditions=self._loaded.conditions, ids=self._ids, notices=self._notices)
            )

    def _end(self, side: Side, ended: Ended) -> None:
        self._sides[side].ended = ended
        acted = self._acted() if side == "edited" else ()
        self._tell(WriteEvent(kind="ended", side=side, ended=ended, acted=acted))

    def _acted(self) -> tuple[Acted, ...]:
        return self._sides["edited"].line.acting.told(self._edits)

    def _tell(self, event: WriteEvent) -> None:
        if self._told is not None:
            self._told(event)

    def _words(self, tokens: list[Written]) -> dict[str, str]:
        return words_of(
            self._loaded.tokenizer, {id for token in tokens for id in (token.id, *token.top)}, self._spelling
        )


def _line(ask: WriteAsk, read: Tokenised, edits: tuple[Edit, ...]) -> Line:
    """The line of one side; where ratios are asked for, with what its tokens are judged by."""
    own = Line(list(read.ids), Row(edits, read.prompt), ask.view.sampling, ask.top, read.token_type_ids)
    every = ask.view.active_edits
    if not ask.ratio or not any(map(is_slider, every)):
        return own
    judging = Row(without(every) if edits == every else every, read.prompt)
    if not _moves_states(every):
        steers = tuple(edit for edit in judging.edits if edit.kind == "steer")
        own.other = Row(steers, read.prompt)
        return own
    greedy = ask.view.sampling.model_copy(update={"temperature": 0.0})  # it draws nothing, so its draw shall be cheap
    own.other = Line(list(read.ids), judging, greedy, 0, read.token_type_ids, follows=True)
    return own


def parted(edited: WrittenSide, unedited: WrittenSide) -> int | None:
    """The first token at which two continuations differ, or one has ended; None: they are the same."""
    one, other = ([token.id for token in side.tokens] for side in (edited, unedited))
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def ends_of(loaded: Loaded) -> frozenset[int]:
    """The tokens with which the model ends a text: those of its generation config, else the tokenizer's."""
    told = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    if told is None:
        told = loaded.tokenizer.eos_token_id
    return frozenset(() if told is None else (told,) if isinstance(told, int) else map(int, told))


def check_writes(loaded: Loaded) -> None:
    """Raise `CannotShow` for a model that does not write."""
    ability = loaded.card.can.get("write")
    if ability is None or ability.can:
        return
    why = ability.why if loaded.anatomy.shape.causal else "it reads every token with the whole text around it"
    raise errors.CannotShow(
        "This model does not write", why, "Choose a model that reads from left to right and foresees the next token."
    )


def check_open(read: Tokenised, view: View) -> None:
    """Raise `CannotShow` for a text that the tokenizer closes, or a pair: nothing can follow them."""
    last = read.tokens[-1]
    closed = len(read.ids) > 1 and last.role == "special" and last.start is None
    if closed or view.pair is not None:
        why = f"its tokenizer closes it with {last.piece}" if closed else "it is a pair of texts"
        raise errors.CannotShow("This prompt cannot be continued", why, "Give one text, to a model that writes.")


def _notices(loaded: Loaded, ask: WriteAsk, read: Tokenised, ahead: int) -> tuple[str, ...]:
    edits, dtype = ask.view.active_edits, loaded.conditions.dtype
    said: tuple[str, ...] = (NOTHING_TO_COMPARE,) if ask.view.compare and not edits else ()
    said += (NO_SLIDER,) if ask.ratio and not any(map(is_slider, edits)) else ()
    said += idle(edits, ahead, read.prompt)
    said += (SLOW,) if loaded.writes == "again" else ()
    return said + ((ROUNDED.format(dtype=dtype),) if dtype not in ("float32", "float64") else ())
