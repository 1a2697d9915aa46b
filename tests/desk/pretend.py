"""A shelf and models that only pretend, so that the desk's promises can be tested to the layer."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from backend import errors
from backend.desk.question import Cancel, Question
from backend.models.progress import Progress
from backend.schema import Conditions, Job, ModelCard, Models, Source, Waiting
from backend.schema.frozen import Frozen


class Said(Frozen):
    """The answer of a pretended question."""

    text: str


class Kept:
    """Counts how often it was told to forget."""

    cleared = 0

    def clear(self) -> None:
        self.cleared += 1


@dataclass
class PretendModel:
    """What the desk knows of a model."""

    conditions: Conditions
    kept: Kept = field(default_factory=Kept)
    threads: set[int] = field(default_factory=set)


def conditions(name: str) -> Conditions:
    return Conditions(
        model=name, revision="", digest="0" * 64, quantisation="none", dtype="float32", device="cpu", kernel="eager",
        versions={},
    )  # fmt: skip


class PretendShelf:
    """Knows every model but `unknown`; the open ones are in `models`.

    A load stands at step `held_at`, telling of it again and again, until `open` is set.
    """

    def __init__(self, *names: str, steps: int = 3, step_s: float = 0.0) -> None:
        self.models = {name: PretendModel(conditions(name)) for name in names}
        self.leases: dict[str, int] = {}
        self.loads = 0
        self.budget = 2**62
        self.steps, self.step_s = steps, step_s
        self.failure: Exception | None = None
        self.held_at: int | None = None
        self.open = threading.Event()

    def card(self, name: str, revision: str | None = None) -> ModelCard:
        if name == "unknown":
            raise errors.UnknownModel("There is no such model", "it is not on the shelf", "Choose another")
        state = "loaded" if name in self.models else "cached"
        return ModelCard(name=name, revision=revision or "", state=state, source=Source(kind="package", name=name))

    def cards(self) -> Models:
        cards = tuple(map(self.card, self.models))
        return Models(default="a", budget_bytes=1, used_bytes=0, models=cards)

    @contextmanager
    def lease(self, name: str, revision: str | None = None) -> Iterator[PretendModel]:
        self.card(name)
        if name not in self.models:
            raise errors.Loading("Not loaded", "it is not", "Load it")
        self.leases[name] = self.leases.get(name, 0) + 1
        try:
            yield self.models[name]
        finally:
            self.leases[name] -= 1

    def load(self, name: str, revision: str | None, progress: Progress) -> PretendModel:
        self.loads += 1
        for step in range(self.steps):
            progress(f"reading {name}", step, self.steps, "steps")
            time.sleep(self.step_s)
            while step == self.held_at and not self.open.wait(0.002):
                progress(f"reading {name}", step, self.steps, "steps")
        if self.failure is not None:
            raise self.failure
        return self.models.setdefault(name, PretendModel(conditions(name)))

    def unload(self, name: str, revision: str | None = None) -> None:
        if self.leases.get(name, 0):
            raise errors.Busy("In use", "questions are running on it", "Wait")
        self.models.pop(name, None)


class Gate:
    """Work that waits at its first layer until it is let through, and counts what happened to it."""

    def __init__(self) -> None:
        self.open, self.reached = threading.Event(), threading.Event()
        self.begun = self.finished = self.stopped = 0

    def answer(self, text: str) -> Callable[[Any, Cancel], Said]:
        def run(loaded: PretendModel, cancel: Cancel) -> Said:
            self.begun += 1
            self.reached.set()
            while not self.open.wait(0.002):
                try:
                    cancel()
                except errors.Cancelled:
                    self.stopped += 1
                    raise
            self.finished += 1
            return Said(text=text)

        return run

    def question(self, key: str, instrument: str = "attention", cost: int = 0) -> Question:
        return Question(instrument, key, self.answer(key), lambda _: cost)


def said(text: str, instrument: str = "attention", cost: int = 0, pause_s: float = 0.0) -> Question:
    """A question that is answered with its own key."""

    def answer(loaded: PretendModel, cancel: Cancel) -> Said:
        loaded.threads.add(threading.get_ident())
        time.sleep(pause_s)
        cancel()
        return Said(text=text)

    return Question(instrument, text, answer, lambda _: cost)


def raising(error: BaseException, key: str = "broken") -> Question:
    """A question that fails."""

    def answer(_: PretendModel, __: Cancel) -> Said:
        raise error

    return Question("attention", key, answer, lambda _: 0)


def states(waiting: tuple[Waiting, ...]) -> list[tuple[str, int]]:
    return [(one.state, one.position) for one in waiting]


def unfinished(jobs: tuple[Job, ...]) -> list[Job]:
    return [job for job in jobs if job.state in ("queued", "running")]
