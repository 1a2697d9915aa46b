"""Slots: the places of the shelf. Plain bookkeeping; every method is called with the shelf's lock held."""

import time
from dataclasses import dataclass, field
from typing import Literal

from backend import errors
from backend.models.loaded import Loaded
from backend.models.reference import Reference

SHORTEST_REVISION = 7
"""Digits of a commit or digest that are enough to name it."""
Key = tuple[str, str, str]


@dataclass(eq=False)
class Slot:
    """One model at one revision: being loaded, loaded, failed, or gone from the shelf."""

    reference: Reference
    state: Literal["loading", "loaded", "failed", "gone"] = "loading"
    bytes: int = 0
    """Reserved while loading, measured after."""
    estimated: int = 0
    loaded: Loaded | None = None
    in_use: int = 0
    used: float = field(default_factory=time.monotonic)
    report: tuple[str, float, float | None, str] = ("waiting to load", 0, None, "")
    problem: errors.LmscopeError | None = None

    def touch(self) -> None:
        """Used just now: the last to be put away."""
        self.used = time.monotonic()

    def is_at(self, revision: str) -> bool:
        """Whether it holds the commit or digest that starts with `revision`."""
        if self.loaded is None or len(revision) < SHORTEST_REVISION:
            return False
        card = self.loaded.card
        return card.revision.startswith(revision) or card.digest.startswith(revision)


class Slots:
    """All slots, by model and revision; one slot may have several revisions' names (`main` and its commit)."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Slot] = {}

    def all(self) -> list[Slot]:
        """Every slot once, oldest first."""
        return list(dict.fromkeys(self._by_key.values()))

    @property
    def used_bytes(self) -> int:
        """Bytes reserved and measured together."""
        return sum(slot.bytes for slot in self.all())

    @property
    def held_bytes(self) -> int:
        """Bytes of slots that cannot be put away now."""
        return sum(slot.bytes for slot in self.all() if slot.in_use or slot.loaded is None)

    def find(self, reference: Reference) -> Slot | None:
        """The slot that a reference means."""
        wanted = reference.revision or ""
        if found := self._by_key.get((*reference.key, wanted)):
            return found
        return next((s for s in self.all() if s.reference.key == reference.key and s.is_at(wanted)), None)

    def put(self, slot: Slot, reference: Reference, revision: str | None) -> None:
        """Make `slot` the answer for this model at this revision."""
        self._by_key[(*reference.key, revision or "")] = slot

    def twin(self, slot: Slot, digest: str) -> Slot | None:
        """Another slot with the same weights of the same model."""
        for other in self.all():
            same = other is not slot and other.reference.key == slot.reference.key
            if same and other.loaded is not None and other.loaded.card.digest == digest:
                return other
        return None

    def forget(self, slot: Slot) -> Loaded | None:
        """Take a slot off the shelf; returns its model for release."""
        loaded, slot.loaded = slot.loaded, None
        slot.state, slot.bytes = "gone", 0
        for key in [key for key, other in self._by_key.items() if other is slot]:
            del self._by_key[key]
        return loaded

    def forget_old_failures(self, most: int) -> None:
        """Keep the newest failures only: what one person mistyped is no news to everybody for ever."""
        failed = [slot for slot in self.all() if slot.state == "failed"]
        for slot in failed[: max(0, len(failed) - most)]:
            self.forget(slot)

    def idle(self) -> list[Slot]:
        """Loaded and unused, least recently used first."""
        return sorted((slot for slot in self.all() if slot.loaded and not slot.in_use), key=lambda slot: slot.used)

    def put_away(self, excess: int, keep: Slot) -> list[Loaded | None]:
        """Take idle slots off until `excess` bytes are gone or none is left."""
        dropped: list[Loaded | None] = []
        for slot in self.idle():
            if excess <= 0:
                break
            if slot is not keep:
                excess -= slot.bytes
                dropped.append(self.forget(slot))
        return dropped
