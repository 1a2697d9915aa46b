"""One prompt continued under several settings at once: lines of the model's batch that share their random numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from backend.models.cost import forward_bytes
from backend.models.decoding import Chosen, Line
from backend.models.likelihood import Setting
from backend.models.loaded import Loaded
from backend.models.plan import Row
from backend.models.scribe import Scribe
from backend.models.spelling import Spelling
from backend.models.tokens import read_tokens
from backend.models.vectors import Beside
from backend.models.write import check_open, check_writes, ends_of, held_bytes
from backend.schema import Limits, Sampling, View

NEUTRAL = Path(__file__).with_name("neutral.json")


@cache
def neutral_prompts() -> tuple[str, ...]:
    """Fifty openings that may turn out either way, which come with the product."""
    return tuple(json.loads(NEUTRAL.read_text(encoding="utf-8"))["texts"])


@dataclass
class Continuation:
    """What one setting made of the prompt."""

    line: Line
    scribe: Scribe
    ids: list[int] = field(default_factory=list)
    text: str = ""
    ended: bool = False


class Continuations:
    """As `Writer`, for the desk's decode loop: it has lines that go on, and takes their tokens; there is no answer."""

    def __init__(
        self, loaded: Loaded, prompt: str, settings: Sequence[Setting], sampling: Sampling, beside: Beside,
        limits: Limits,
    ) -> None:  # fmt: skip
        """Raises `CannotShow` where a model does not write, and as `read_tokens`."""
        check_writes(loaded)
        view = View(model=loaded.name, text=prompt)
        read = read_tokens(loaded, view, limits)
        check_open(read, view)
        spelling = Spelling.of(loaded.tokenizer)
        self._ends, self._context = ends_of(loaded), loaded.context
        self.bytes = held_bytes(loaded, len(settings), len(read.ids) + sampling.tokens)
        self.found = [
            Continuation(
                Line(list(read.ids), Row(setting, read.prompt), sampling, 0, read.token_type_ids, beside),
                Scribe(loaded.tokenizer, spelling, read.ids[-1], ()),
                ended=self._full(len(read.ids)),
            )
            for setting in settings
        ]  # fmt: skip

    @property
    def lines(self) -> list[Line]:
        """The lines that go on."""
        return [each.line for each in self.found if not each.ended]

    def take(self, line: Line, chosen: Chosen) -> None:
        """The next token of one of its lines."""
        each = next(each for each in self.found if each.line is line)
        line.ids.append(chosen.id)
        each.ended = chosen.id in self._ends or not line.left or self._full(len(line.ids))
        if chosen.id not in self._ends:
            each.ids.append(chosen.id)
            each.text += each.scribe.add(chosen.id)[0]
        if each.ended:
            each.text += each.scribe.close()

    def answer(self) -> None:
        """Nothing: what was written is in `found`."""

    def _full(self, tokens: int) -> bool:
        return self._context is not None and tokens >= self._context


def continuations_bytes(loaded: Loaded, prompt: str, rows: int, tokens: int, limits: Limits) -> int:
    """Bytes for reading a prompt in so many rows, and for what goes on being held."""
    view = View(model=loaded.name, text=prompt)
    ahead = len(read_tokens(loaded, view, limits).ids) + tokens
    return rows * forward_bytes(loaded, view, limits) + held_bytes(loaded, rows, ahead)
