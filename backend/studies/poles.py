"""By what stitched models are measured: which labels stand for the poles of texts, and the labelled texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backend import errors
from backend.desk.question import Cancel
from backend.models.loaded import Loaded
from backend.models.stitched import Measure, check_stream, measure_of, normed_at_the_end
from backend.schema import StitchingAsk
from backend.studies.library import Library

PLUS, MINUS = (re.compile(rf"(?<![a-z]){word}(?![a-z])") for word in ("pos(itive)?", "neg(ative)?"))
"""How classifiers name the labels of the two poles, in small letters."""


@dataclass(frozen=True)
class Ends:
    """What one model can be measured by."""

    measure: Measure
    labels: tuple[str, ...]
    vocabulary: int
    normed: bool
    """Whether a final norm stands behind its last block."""


@dataclass(frozen=True)
class Source:
    """Texts of the server's shelves, labelled ones or a set."""

    name: str
    examples: str | None = None
    set: str | None = None

    def __str__(self) -> str:
        id = (self.examples or self.set or "")[:12]
        kind = "the labelled texts" if self.examples else "the prompt set"
        return f"{kind} “{self.name}” ({id})"


def ends_of(loaded: Loaded, cancel: Cancel, *, labelled: bool) -> Ends:
    """Raises `CannotShow` where there is no stream."""
    check_stream(loaded)
    classifier = loaded.classifier
    labels = classifier.labels if classifier is not None and classifier.kind == "text" else ()
    measure = measure_of(loaded, labelled=labelled)
    return Ends(measure, labels, loaded.anatomy.shape.vocabulary, normed_at_the_end(loaded, cancel))


def poles_of(ask: StitchingAsk, name: str, labels: Sequence[str]) -> tuple[int, int]:
    """The labels that stand for + and − texts: as asked for, else by their names; of two, one tells the other.

    Raises `CannotShow` where labels do not tell which is which.
    """
    plus, minus = ask.positive, ask.negative
    for given in (plus, minus):
        if given is not None and given >= len(labels):
            raise errors.CannotShow(
                f"{name} has no label {given}", f"its labels are {', '.join(labels)}, counted from 0",
                f"Choose one below {len(labels)}.", needed=given + 1, available=len(labels),
            )  # fmt: skip
    plus = _named(PLUS, labels, minus) if plus is None else plus
    minus = _named(MINUS, labels, plus) if minus is None else minus
    if len(labels) == 2 and plus is None and minus is not None:
        plus = 1 - minus
    if len(labels) == 2 and minus is None and plus is not None:
        minus = 1 - plus
    if plus is None or minus is None or plus == minus:
        raise errors.CannotShow(
            f"The accuracy of {name} cannot be measured",
            f"its labels ({', '.join(labels)}) do not tell which one stands for + texts and which for − texts",
            "Name them, counted from 0, as `positive` and `negative`, or give texts without labels.",
        )  # fmt: skip
    return plus, minus


def _named(word: re.Pattern[str], labels: Sequence[str], taken: int | None) -> int | None:
    """The only label but the one taken that is named so; None: none is, or several are."""
    found = [place for place, label in enumerate(labels) if place != taken and word.search(label.lower())]
    return found[0] if len(found) == 1 else None


def labelled_texts(ask: StitchingAsk, library: Library) -> tuple[Source, Sequence[tuple[str, bool | None]]]:
    """Where the texts come from, and the first of them, of labelled ones as many of each label as there are."""
    if ask.examples is None:
        chosen = library.sets.get(ask.set)
        source = Source(chosen.card.name, set=chosen.card.id)
        return source, [(text, None) for text in chosen.texts[: ask.texts]]
    kept = library.examples.get(ask.examples)
    poles = [[row.text for row in kept.rows if (row.label > 0) == plus][: ask.texts // 2] for plus in (True, False)]
    labelled = [(text, plus) for plus, texts in zip((True, False), poles, strict=True) for text in texts]
    return Source(kept.card.name, examples=kept.card.id), labelled
