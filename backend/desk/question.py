"""What the desk is asked: who asks it, how it is answered, and how long it may wait."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from pydantic import BaseModel

from backend import errors
from backend.models.decoding import Chosen, Line
from backend.schema import Conditions

Cancel = Callable[[], None]
"""Raises `errors.Cancelled` when the question should stop; taps call it once a layer."""

Send = Callable[[bytes], None]
"""Takes the next piece of an answer, and waits while its reader is behind."""


class Kept(Protocol):
    """What a model keeps for the next click."""

    def clear(self) -> None: ...


class Loaded(Protocol):
    """What the desk knows of a loaded model."""

    conditions: Conditions

    @property
    def kept(self) -> Kept: ...


class Writing(Protocol):
    """A continuation in the making: lines of the model's batch, one token further at every step."""

    @property
    def lines(self) -> list[Line]:
        """The lines that go on; with none left it is at its end."""

    @property
    def bytes(self) -> int:
        """What it holds from its first token to its last, beyond what is loaded."""

    def take(self, line: Line, chosen: Chosen) -> None:
        """The next token of one of its lines."""

    def answer(self) -> BaseModel | None:
        """The whole, at its end; None: it went another way."""


def nothing(loaded: Any) -> None:
    """Whom nothing refuses beforehand."""


@dataclass(frozen=True)
class Question:
    """One question about one model. `answer` and `cost` run on the model's thread."""

    instrument: str
    key: str
    """Digest of everything asked; with the model's conditions it names the answer."""
    answer: Callable[[Any, Cancel], BaseModel | Writing | None]
    """None: the answer went another way, and nothing is kept. With `rows`, what is to be written."""
    cost: Callable[[Any], int]
    """Bytes that answering will need beyond what is loaded."""
    rows: int = 0
    """Rows of the model's batch that are written; 0: it is answered in one go."""
    check: Callable[[Any], None] = nothing
    """Raises what the model's card alone refuses, such as a layer that it has not: called on the event loop, before the
    question waits for anybody. It must take no time."""
    of_job: bool = False
    """A job asks it, which is remembered itself: a load that it needs is not, once it has ended."""


class Sender(Protocol):
    """Takes the next piece of an answer and what to do while its reader is behind."""

    def __call__(self, piece: bytes, cancel: Cancel) -> None: ...


class Pieces(Protocol):
    """A question whose answer is handed on in pieces."""

    @property
    def instrument(self) -> str: ...

    def question(self, send: Sender) -> Question:
        """The question, once it is known where the pieces go."""


@dataclass(frozen=True)
class Stream:
    """One question whose answer is made in pieces. `pour` and `cost` run on the model's thread."""

    instrument: str
    pour: Callable[[Any, Send, Cancel], None]
    cost: Callable[[Any], int]
    """As of a question. What it raises, the caller gets before any piece."""

    def question(self, send: Sender) -> Question:
        """Its answer pours, and waits while the reader is behind."""

        def answer(loaded: Any, cancel: Cancel) -> None:
            self.pour(loaded, partial(send, cancel=cancel), cancel)

        return Question(self.instrument, uuid4().hex, answer, self.cost)


@dataclass(frozen=True)
class WriteStream:
    """A continuation that is handed on token by token. `begin` and `cost` run on the model's thread."""

    instrument: str
    begin: Callable[[Any, Callable[[bytes], None]], Writing]
    """Given where its pieces go: nobody waits for their reader, so they are small."""
    cost: Callable[[Any], int]
    rows: int

    def question(self, send: Sender) -> Question:
        """What is written goes to the reader alone; nothing is kept."""

        def begin(loaded: Any, cancel: Cancel) -> Writing:
            return self.begin(loaded, partial(send, cancel=cancel))

        return Question(self.instrument, uuid4().hex, begin, self.cost, self.rows)


@dataclass(eq=False)
class Ask:
    """One waiting caller. Several asks may share one work."""

    tab: str
    instrument: str
    model: str
    future: asyncio.Future[bytes]
    id: str = field(default_factory=lambda: uuid4().hex)
    work: "Work | None" = None
    job: str | None = None
    """The load that it waits for, before there is work."""

    def fail(self, error: errors.LmscopeError) -> None:
        """Turn the caller away, unless it has its answer already."""
        if not self.future.done():
            self.future.set_exception(error)

    def close(self) -> None:
        """The caller has gone: nobody will look at an error any more."""
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()


@dataclass(eq=False)
class Work:
    """One answer in the making: waiting in a lane, or running on the model's thread."""

    digest: str
    question: Question
    loaded: Loaded
    tab: str
    """Whose turn it takes: the tab that asked first."""
    lease: ExitStack
    """Keeps the model on the shelf until the work has ended."""
    asks: list[Ask] = field(default_factory=list)
    needed: int = 0
    """Bytes that answering was priced at."""
    reserved: int = 0
    """Bytes that it has spoken for now."""
    cancelled: bool = False
    running: bool = False

    def check(self) -> None:
        """Raise `Cancelled` when nobody waits for it any more; called between layers."""
        if self.cancelled:
            raise self.stopped()

    def stopped(self) -> errors.Cancelled:
        """What is said, to nobody, of an answer that nobody waits for."""
        return errors.Cancelled("This question was stopped", "nobody waits for its answer", "Ask again")
