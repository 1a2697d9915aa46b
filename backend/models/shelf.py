"""The shelf: several models open at once within a byte budget, the least recently used put away first.

Loading happens on the caller's thread, outside the lock; whoever asks for a model that is being loaded waits for that
same load. A model in use (leased) is never put away.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from backend import errors
from backend.models import memory
from backend.models.checkpoint import memory_of
from backend.models.loaded import Loaded
from backend.models.opening import open_folder
from backend.models.progress import Progress, silent
from backend.models.reference import ALLOWED
from backend.models.slots import Slot, Slots
from backend.models.sources import Provided, Sources
from backend.models.vectors import Vectors
from backend.schema import ModelCard, Models

POLL_S = 0.2
FAILURES_KEPT = 16


class Shelf:
    """The models of one server. Every method may be called from any thread."""

    def __init__(
        self,
        *,
        cache_dir: Path | str,
        budget_bytes: int | None = None,
        device: str = "auto",
        dtype: str = "auto",
        allow: Iterable[str] = ALLOWED,
        hub_token: str | None = None,
        hub_endpoint: str | None = None,
        kept_bytes: int = 512 * 1024 * 1024,
        models: Iterable[str] = (),
        opener: Callable[..., Loaded] = open_folder,
    ) -> None:
        """`budget_bytes` None: half of what is free on the device now. `models`: LMSCOPE_MODELS, first the default."""
        self.vectors = Vectors(Path(cache_dir))
        self.sources = Sources(Path(cache_dir), models, allow, hub_token, hub_endpoint)
        self.device = memory.device_named(device)
        self.dtype = memory.dtype_named(dtype, self.device)
        self.dtype_bytes = memory.DTYPES[self.dtype]
        self.budget = memory.free_bytes(self.device) // 2 if budget_bytes is None else budget_bytes
        self.kept_bytes = kept_bytes
        self._opener = opener
        self._slots = Slots()
        self._changed = threading.Condition()
        self._opening = threading.Lock()

    @property
    def default(self) -> str:
        """The model a page opens with."""
        return self.sources.default

    def cards(self) -> Models:
        """Every model that is known, in the cache, loading, loaded, or failed."""
        with self._changed:
            slots, used = self._slots.all(), self._slots.used_bytes
        known = {card.name: card for card in self.sources.listing(self.dtype_bytes)}
        cards: dict[str, list[ModelCard]] = {name: [] for name in known}
        for slot in slots:
            name = slot.reference.name
            cards.setdefault(name, []).append(self._card(slot, known.get(name)))
        # A model that works stands before one of the same name that did not open.
        ordered = (sorted(of, key=lambda card: card.state == "failed") or [known[name]] for name, of in cards.items())
        shown = tuple(card for of_one_name in ordered for card in of_one_name)
        return Models(default=self.default, budget_bytes=self.budget, used_bytes=used, models=shown)

    def card(self, name: str, revision: str | None = None) -> ModelCard:
        """One model's card. Raises `UnknownModel` and `Forbidden`."""
        reference = self.sources.names.parse(name, revision)
        with self._changed:
            slot = self._slots.find(reference)
        return self._card(slot, None) if slot else self.sources.card(reference, self.dtype_bytes)

    def _card(self, slot: Slot, known: ModelCard | None) -> ModelCard:
        known = known or self.sources.card(slot.reference, self.dtype_bytes)
        loaded, problem, estimated = slot.loaded, slot.problem, slot.estimated or known.estimated_bytes
        if loaded is not None:
            now = {"in_use": slot.in_use, "about": known.about, "estimated_bytes": estimated}
            return loaded.card.model_copy(update=now)
        if problem is not None:
            return known.model_copy(update={"state": "failed", "problem": problem.problem()})
        return known.model_copy(update={"state": "loading", "estimated_bytes": estimated})

    @contextmanager
    def lease(self, name: str, revision: str | None = None) -> Iterator[Loaded]:
        """Use a loaded model; it stays while the block runs. Keep no reference to it afterwards.

        Raises `Loading` when it is not loaded (yet), `UnknownModel` and `Forbidden`.
        """
        reference = self.sources.names.parse(name, revision)
        with self._changed:
            slot = self._slots.find(reference)
            if slot is None or slot.loaded is None:
                why = "it is still loading" if slot and slot.state == "loading" else "nobody has asked for it yet"
                raise errors.Loading(f"{reference.name} is not loaded", why, "load it, then ask again")
            slot.in_use += 1
            slot.touch()
            loaded = slot.loaded
        try:
            yield loaded
        finally:
            with self._changed:
                slot.in_use -= 1
                slot.touch()
                self._changed.notify_all()

    def unload(self, name: str, revision: str | None = None) -> None:
        """Put a model away and return its memory. Raises `Busy` while it is in use or loading, `UnknownModel`."""
        reference = self.sources.names.parse(name, revision)
        with self._changed:
            slot = self._slots.find(reference)
            if slot is None:
                instead = "see `lmscope models` or GET /api/v1/models for what is loaded"
                raise errors.UnknownModel(f"{reference.name} is not loaded", "there is nothing to unload", instead)
            if slot.in_use or slot.state == "loading":
                why = f"{slot.in_use} questions use it" if slot.in_use else "it is being loaded"
                raise errors.Busy(f"{reference.name} cannot be unloaded now", why, "stop that, or wait, and try again")
            dropped = [self._slots.forget(slot)]
        _release(dropped)

    def load(self, name: str, revision: str | None = None, progress: Progress = silent) -> Loaded:
        """Load a model (or wait for the load that is running); returns it at once when it is there.

        Raises what `Sources.provide` and `open_folder` raise, `OverBudget`, `Busy`, `OutOfMemory`, and `Cancelled`
        through `progress`; a waiting caller that cancels leaves the load to the others.
        """
        reference = self.sources.names.parse(name, revision)
        while True:
            with self._changed:
                slot = self._slots.find(reference)
                mine = slot is None or slot.state == "failed"
                if slot is None or mine:
                    if slot is not None:
                        self._slots.forget(slot)
                    slot = Slot(reference)
                    self._slots.put(slot, reference, reference.revision)
            loaded = self._load(slot, progress) if mine else self._join(slot, progress)
            if loaded is not None:
                return loaded

    def _join(self, slot: Slot, progress: Progress) -> Loaded | None:
        """Wait for another caller's load; None when it was cancelled there or put away since: start again."""
        while True:
            with self._changed:
                if slot.state == "loading":
                    self._changed.wait(POLL_S)
                if slot.state == "loaded":
                    slot.touch()
                    return slot.loaded
                if slot.problem is not None:
                    raise _again(slot.problem)
                if slot.state == "gone":
                    return None
                report = slot.report
            progress(*report)

    def _load(self, slot: Slot, progress: Progress) -> Loaded:
        def report(what: str, done: float, total: float | None, unit: str) -> None:
            slot.report = (what, done, total, unit)
            progress(what, done, total, unit)

        try:
            with _in_our_words(slot.reference.name):
                return self._loaded(slot, report)
        except errors.Cancelled:
            self._end(slot, None)
            raise
        except errors.LmscopeError as error:
            self._end(slot, _again(error))
            raise
        except BaseException:
            self._end(slot, None)
            raise

    def _end(self, slot: Slot, problem: errors.LmscopeError | None) -> None:
        """After a load that came to nothing: remember why, unless it was stopped, mistyped or only ill-timed."""
        with self._changed:
            slot.problem = problem
            if problem is None or isinstance(problem, (errors.NotFound, errors.NotNow, errors.Forbidden)):
                self._slots.forget(slot)
            else:
                slot.state, slot.bytes = "failed", 0
                self._slots.forget_old_failures(FAILURES_KEPT)
            self._changed.notify_all()

    def _loaded(self, slot: Slot, report: Progress) -> Loaded:
        provided = self.sources.provide(slot.reference, report, lambda found: self._admit(slot, found))
        with self._changed:
            if twin := self._slots.twin(slot, provided.digest):
                self._slots.forget(slot)
                self._slots.put(twin, slot.reference, slot.reference.revision)
                twin.touch()
                self._changed.notify_all()
                assert twin.loaded is not None
                return twin.loaded
        self._reserve(slot, provided.checkpoint.bytes_in(self.dtype_bytes))
        loaded = self._opened(provided, report)
        with self._changed:
            slot.bytes, slot.loaded, slot.state = loaded.card.memory_bytes, loaded, "loaded"
            slot.touch()
            self._slots.put(slot, slot.reference, provided.revision)
            # it may measure more than was reserved
            dropped = self._slots.put_away(self._slots.used_bytes - self.budget, keep=slot)
            self._changed.notify_all()
        _release(dropped)
        return loaded

    def _opened(self, provided: Provided, report: Progress) -> Loaded:
        # one at a time: transformers sets torch's default dtype for the whole process while it opens a model
        while not self._opening.acquire(timeout=POLL_S):
            report(f"waiting to open {provided.name}", 0, None, "")
        try:
            loaded = self._opener(
                provided.folder, name=provided.name, revision=provided.revision, source=provided.source,
                digest=provided.digest, device=self.device, dtype=self.dtype, kept_bytes=self.kept_bytes,
                progress=report,
            )  # fmt: skip
            memory.take_off_file(loaded.model)
            loaded.vectors = self.vectors
            return loaded
        finally:
            self._opening.release()

    def _admit(self, slot: Slot, elements: dict[str, int]) -> None:
        """Refuse a model that could never fit, before its weights are downloaded."""
        slot.estimated = memory_of(elements, self.dtype_bytes)
        if slot.estimated > self.budget:
            raise errors.OverBudget(
                f"{slot.reference.name} is too large for this server",
                f"it needs {_mb(slot.estimated)} in {self.dtype}; all models together may have {_mb(self.budget)}",
                "choose a smaller model, set LMSCOPE_DTYPE=bfloat16, or raise LMSCOPE_MEMORY_BYTES",
                needed=slot.estimated, available=self.budget,
            )  # fmt: skip

    def _reserve(self, slot: Slot, needed: int) -> None:
        """Make room within the budget. Raises `OverBudget`, or `Busy` when only models in use could make room."""
        self._admit(slot, {"U8": needed})
        with self._changed:
            left = self.budget - self._slots.held_bytes
            if needed > left:
                raise errors.Busy(
                    f"There is no room for {slot.reference.name} now",
                    f"it needs {_mb(needed)}; {_mb(left)} are not held by models in use or loading",
                    "wait until their questions end, or unload one",
                    needed=needed, available=max(left, 0),
                )  # fmt: skip
            dropped = self._slots.put_away(self._slots.used_bytes + needed - self.budget, keep=slot)
            slot.bytes = needed
        _release(dropped)


def _release(dropped: list[Loaded | None]) -> None:
    """Let go of models that no slot holds any more; `dropped` must be their last list."""
    if not dropped:
        return
    while dropped:
        if (loaded := dropped.pop()) is not None:
            loaded.kept.clear()
        loaded = None
    memory.give_back()


def _again(error: errors.LmscopeError) -> errors.LmscopeError:
    """The same error without its traceback, whose frames would hold on to half a model."""
    return type(error)(error.what, error.why, error.instead, needed=error.needed, available=error.available)


@contextmanager
def _in_our_words(name: str) -> Iterator[None]:
    """What a library raises while a model opens, as an error of ours."""
    try:
        yield
    except errors.LmscopeError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise errors.OutOfMemory(
            f"The memory ran out while {name} was opened", _first_line(error),
            "unload another model, choose a smaller one, or lower LMSCOPE_MEMORY_BYTES",
        ) from error  # fmt: skip
    except Exception as error:
        raise errors.ModelRefused(
            f"{name} could not be opened",
            f"transformers cannot make a language model of its files: {type(error).__name__}: {_first_line(error)}",
            "check that it is a text model whose files belong together; if others of its kind open, report it",
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["nothing more is known"])[0][:300]


def _mb(size: float) -> str:
    return f"{max(size, 0) / 1e6:,.0f} MB"
