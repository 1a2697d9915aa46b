"""How a method of `AsyncClient`, which is awaited, becomes one that waits: `pairs = patient(AsyncClient.pairs)`.

The method that waits has the signature and the docstring of the other, to editors (`ParamSpec`) and to `help`.
"""

import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, Self, TypeVar, overload

from backend.schema import Job
from lmscope.client import AsyncClient, Progress, Refused
from lmscope.client.connection import ANSWER_S
from lmscope.looping import LoopThread
from lmscope.transport import Application

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
Face = TypeVar("Face")
Item = TypeVar("Item")
ATTEMPTS = 3
"""How often a patient question is asked: a full shelf may take its model away again."""


class OfModel(Protocol):
    """What names a model: a view, or a question about a model without a text."""

    @property
    def model(self) -> str: ...
    @property
    def revision(self) -> str | None: ...


class Named(NamedTuple):
    """A model by its name."""

    model: str
    revision: str | None = None


class Waiting:
    """A client on an event loop of its own.

    `patient`: a question about a model that is still being loaded waits for it instead of being refused.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8050",
        *,
        app: Application | None = None,
        tab: str | None = None,
        key: str | None = None,
        timeout_s: float = ANSWER_S,
        patient: bool = True,
    ) -> None:
        self._thread, self._patient = LoopThread(), patient
        self._client = self._run(opened(base_url, app=app, tab=tab, key=key, timeout_s=timeout_s))
        # A client that is forgotten in a notebook closes its connections as well.
        self._end = weakref.finalize(self, self._thread.close, self._client.aclose)

    def close(self) -> None:
        """Close the connections and end the thread; once is enough."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self._thread.run(work)

    def _ask(self, about: Callable[[], OfModel], question: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        return self._run(patiently(self._client, about, question) if self._patient else question())

    def _each(self, events: AsyncGenerator[Item, None]) -> Iterator[Item]:
        """What comes on a stream, as it comes; leaving closes it."""
        try:
            while (event := self._run(next_of(events))) is not None:
                yield event
        finally:
            if not self._thread.loop.is_closed():
                self._run(events.aclose())


Question = Callable[Concatenate[Any, Asked], Coroutine[Any, Any, Answer]]
Method = Callable[Concatenate[Waiting, Asked], Answer]


def waits(question: Question[Asked, Answer]) -> Method[Asked, Answer]:
    """The method that waits for the answer to this one."""

    def method(self: Waiting, *given: Asked.args, **options: Asked.kwargs) -> Answer:
        return self._run(question(self._client, *given, **options))

    return like(question, method)


@overload
def patient(question: Question[Asked, Answer]) -> Method[Asked, Answer]: ...
@overload
def patient(question: Question[Asked, Answer], face: Callable[[Answer], Face]) -> Method[Asked, Face]: ...
def patient(question: Callable[..., Any], face: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """The same for a question about a model (by a `view`, an `ask`, or `model` and `revision`): it waits for the model.

    `face`: what makes the answer a thing for notebooks, such as `PairsInNumpy`.
    """

    def method(self: Waiting, /, *given: Any, **options: Any) -> Any:
        answer = self._ask(
            lambda: model_of(question, *given, **options), lambda: question(self._client, *given, **options)
        )
        return answer if face is None else face(answer)

    return like(question, method, face)


def like(question: Callable[..., Any], method: Callable[..., Any], face: Any = None) -> Callable[..., Any]:
    """The method with name, docstring and signature of the question; what it returns is the face where there is one."""
    like_it: Any = wraps(question)(method)
    told = signature(question)
    like_it.__signature__ = told if face is None else told.replace(return_annotation=face)
    return like_it


def model_of(question: Callable[..., Any], /, *given: Any, **options: Any) -> OfModel:
    """The model that this call of a question is about."""
    named = signature(question).bind(None, *given, **options).arguments
    about = named.get("view", named.get("ask"))
    about = getattr(about, "view", about)
    return about or Named(named["model"], options.get("revision"))


async def opened(base_url: str, **options: Any) -> AsyncClient:
    """A client that belongs to the loop it is made on."""
    return AsyncClient(base_url, **options)


async def loaded(client: AsyncClient, model: str, revision: str | None, progress: Progress | None) -> Job:
    """Load and wait."""
    return await client.wait(await client.load(model, revision), progress)


async def patiently(
    client: AsyncClient, about: Callable[[], OfModel], question: Callable[[], Coroutine[Any, Any, Answer]]
) -> Answer:
    """Ask; while the model is being loaded, wait for that and ask again."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await question()
        except Refused as refused:
            if refused.problem.type != "loading":
                raise
        model = about()
        await loaded(client, model.model, model.revision, None)
    return await question()


async def next_of(events: AsyncGenerator[Item, None]) -> Item | None:
    """The next event, or None after the last."""
    return await anext(events, None)
