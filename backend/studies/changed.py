"""What two models were found to differ in: sizes by layer and group, and the vectors that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from backend.models.changes import Size
from backend.schema import (
    ChangedGroup,
    ChangedVector,
    ChangesAnswer,
    ChangesAsk,
    ChangeSize,
    ClassifierVector,
    ReadAs,
)
from backend.studies.two_models import (
    Shared,
    Side,
)

ABOUT = (
    "Changes: each parameter of {other} less that of {model}. Relative: norm of the difference over the norm before. "
    "Words: the difference read in the vocabulary of {model}, {reading}; first what it moves the vector towards, then "
    "what it moves it away from. Embeddings and classifiers are read by the bare product with the embedding. Source: "
    "Dar et al. 2023, §4.3."
)
READINGS: dict[ReadAs, str] = {
    "folded": "through the gains of that model's norms (for a part that reads the stream that before it, for one that "
    "writes the final norm's)",
    "raw": "as published: the bare product with the input embedding (parts that read) or output embedding (that write)",
}
SAME = "No number differs: both have the same parameters."
SAME_BUT = "No number that was compared differs."


@dataclass(frozen=True)
class Candidate:
    """A vector that changed, and its rank."""

    rank: float
    vector: ChangedVector


@dataclass
class Found:
    """The study as it stands."""

    ask: ChangesAsk
    sides: tuple[Side, Side]
    shared: Shared
    reading: ReadAs
    why: dict[str, str]
    notices: list[str]
    sizes: dict[tuple[int | None, ChangedGroup], Size] = field(default_factory=dict)
    best: dict[ChangedGroup, list[Candidate]] = field(default_factory=dict)
    left_out: bool = False
    """Whether there is a parameter that was not compared."""
    words: dict[str, str] = field(default_factory=dict)
    other_words: dict[str, str] = field(default_factory=dict)
    classifier: list[ClassifierVector] = field(default_factory=list)

    def size(self, layer: int | None, group: ChangedGroup, more: Size) -> None:
        """Count some numbers."""
        known = self.sizes.get((layer, group))
        self.sizes[layer, group] = more if known is None else known + more

    def leave_out(self, notice: str, names: Sequence[str] = ()) -> None:
        """Say what is not compared."""
        self.left_out = True
        self.notices.append(notice.format(", ".join(names[:5]) + (" and others" if names[5:] else "")))

    def least(self, group: ChangedGroup) -> float:
        """The rank above which a vector is listed."""
        listed = self.best.get(group, [])
        return listed[-1].rank if len(listed) >= self.ask.limit else 0.0

    def add(self, group: ChangedGroup, more: Sequence[Candidate]) -> None:
        """Keep what changed most; of equal ones what came first."""
        every = [*self.best.get(group, []), *more]
        self.best[group] = sorted(every, key=lambda each: -each.rank)[: self.ask.limit]

    def answer(self) -> ChangesAnswer:
        """For the wire."""
        one, other = self.sides
        vectors = tuple(each.vector for listed in self.best.values() for each in listed)
        equal = not any(size.changed for size in self.sizes.values())
        same = equal and not self.left_out
        first = [SAME if same else SAME_BUT] if equal and self.sizes else []
        return ChangesAnswer(
            conditions=one.conditions, other_conditions=other.conditions, shared=self.shared.told,
            reading=self.reading, same=same, sizes=tuple(_told(*key, size) for key, size in self.sizes.items()),
            vectors=vectors, classifier=tuple(self.classifier), why=self.why, words=self._words(vectors),
            other_words=self.other_words,
            about=ABOUT.format(model=one.name, other=other.name, reading=READINGS[self.reading]),
            notices=tuple(dict.fromkeys([*first, *self.notices])),
        )  # fmt: skip

    def _words(self, vectors: Sequence[ChangedVector]) -> dict[str, str]:
        """Those of what is listed now."""
        ends = [each.ends for each in vectors]
        ends += [end for one in self.classifier if one.side == "model" for end in (one.ends, one.contrast)]
        needed = {str(id) for each in ends for id in (*each.highest, *each.lowest)}
        return {id: word for id, word in self.words.items() if id in needed}


def _told(layer: int | None, group: ChangedGroup, size: Size) -> ChangeSize:
    norm, before = size.squares**0.5, size.before**0.5
    return ChangeSize(
        layer=layer, group=group, norm=norm, before=before, relative=norm / before if before else None,
        numbers=size.numbers, changed=size.changed,
    )  # fmt: skip
