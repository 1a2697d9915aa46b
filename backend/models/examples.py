"""Labelled texts that steers are made from: checked before any training, and known by the digest of their rows.

`<cache>/sets/<name>@<digest12>/` holds `examples.json` beside its card, whole or absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from backend import errors
from backend.models.cache import putting, read_card, whole_folders, write_card, write_errors
from backend.models.labelled import SHOWN, Labelled, given_rows, label_of, text_of
from backend.schema import Example, ExamplesAsk, ExamplesCard, ExamplesShelf
from backend.schema.reasons import short
from backend.schema.steers import EXAMPLES_MOST
from backend.schema.view import canonical_json

FILE = "examples.json"
POLE_LEAST = 20
"""Different texts of each pole that a steer needs."""
HELD_LEAST = 4
"""Texts of each pole that are held out at least: two to stop by, and two to judge by, for one has no interval."""
FAULTS_SHOWN = 3
"""Rows that a refusal names beside the first; the others are counted."""
BEHIND = ""
"""In place of a row: what ended the reading of a file."""


@dataclass(frozen=True)
class Kept:
    """Examples as they are kept: different texts, none of them labelled 0."""

    card: ExamplesCard
    rows: tuple[Example, ...]

    def check_pairs(self) -> None:
        """Raise `BadQuestion` where texts were left out: those behind one would meet another's partner."""
        gone = self.card.duplicates + self.card.neutral
        if gone:
            raise errors.BadQuestion(
                "These examples are no pairs any more",
                f"the first text of + goes with the first of −, and so on, and {gone} texts were left out when they "
                f"were sent ({self.card.duplicates} came more than once, {self.card.neutral} were labelled 0)",
                "Send each pair once, with different texts, or take the difference of means.",
            )


@dataclass(frozen=True)
class Split:
    """Examples apart: those that train, those that decide when to stop, and those that judge."""

    train: tuple[Example, ...]
    stop: tuple[Example, ...]
    judge: tuple[Example, ...]


def split(rows: Sequence[Example], share: float, *, paired: bool = False) -> Split:
    """Apart by the SHA-256 of each text, so that whoever has the rows and the share finds the same parts again.

    Of each pole those texts are held out whose digest comes first, `share` of them and four at least; of these every
    second one decides when to stop, and the others judge. `paired` texts (the k-th of + with the k-th of −) go by the
    digest of the + text and stay together; every part keeps their order. Raises `BadQuestion` where they are no pairs.
    """
    poles = [[row.text for row in rows if row.label * pole > 0] for pole in (1, -1)]
    if paired and len(poles[0]) != len(poles[1]):
        raise errors.BadQuestion(
            "These examples are no pairs",
            f"the first text of + goes with the first of −, and so on, and there are {len(poles[0])} of + and "
            f"{len(poles[1])} of − (texts that came twice and those labelled 0 are left out)",
            "Send as many different texts of each pole, in the same order, or take the difference of means.",
        )
    held: dict[str, int] = {}
    for texts in poles[: 1 if paired else 2]:
        first = sorted(texts, key=_order)[: max(HELD_LEAST, round(share * len(texts)))]
        held |= {text: place % 2 for place, text in enumerate(first)}
    if paired:
        held |= {other: held[text] for text, other in zip(*poles, strict=True) if text in held}

    def part(which: int | None) -> tuple[Example, ...]:
        return tuple(row for row in rows if held.get(row.text) == which)

    return Split(train=part(None), stop=part(0), judge=part(1))


def _order(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class Examples:
    """The examples below one cache folder."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir)

    def cards(self) -> ExamplesShelf:
        """Every set of examples, by name."""
        return ExamplesShelf(sets=tuple(_read_card(folder) for folder in self._folders("*")))

    def get(self, id: str) -> Kept:
        """Examples with their texts. Raises `UnknownSet`."""
        folder, card = self._find(id)
        told = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Kept(card, tuple(Example(text=text, label=label) for text, label in told))

    def card(self, id: str) -> ExamplesCard:
        """What is known of examples, without reading them. Raises `UnknownSet`."""
        return self._find(id)[1]

    def _find(self, id: str) -> tuple[Path, ExamplesCard]:
        for folder in self._folders(f"*@{id[:12]}" if id.isalnum() else "nothing"):
            if (card := _read_card(folder)).id == id:
                return folder, card
        raise errors.UnknownSet(
            f"This server does not hold the examples {id[:12]}",
            "examples are named by the digest of their rows and stay on the server that they were sent to",
            "send them again (POST /api/v1/steers/examples)",
        )

    def keep(self, ask: ExamplesAsk) -> ExamplesCard:
        """Check and store examples; equal rows that are stored already stay under the name and licence they have.

        The card then has the counts of what was sent now, and says under which name the rows are kept.
        Raises `BadQuestion` in words for whatever no steer can be made from, `TooLarge` for a text that is too long.
        """
        rows, card = checked(ask)
        try:
            return _again(card, self.card(card.id))
        except errors.UnknownSet:
            pass
        with write_errors(self.root), putting(self.root / "sets" / f"{card.name}@{card.id[:12]}") as draft:
            (draft / FILE).write_text(json.dumps(_plain(rows), ensure_ascii=False), encoding="utf-8")
            size = (draft / FILE).stat().st_size
            write_card(draft, {**card.model_dump(mode="json"), "files": {FILE: {"bytes": size}}})
        return card

    def _folders(self, pattern: str) -> Iterator[Path]:
        yield from whole_folders(self.root / "sets", pattern, FILE)


def _again(sent: ExamplesCard, kept: ExamplesCard) -> ExamplesCard:
    """The card of rows that are kept already: what was counted now, under the name and licence that stand."""
    notices = sent.notices
    if (sent.name, sent.licence) != (kept.name, kept.licence):
        notices += (f"These rows are kept here already as {kept.name}, licence: {kept.licence}. Both stand.",)
    return sent.model_copy(update={"name": kept.name, "licence": kept.licence, "notices": notices})


def checked(ask: ExamplesAsk) -> tuple[tuple[Example, ...], ExamplesCard]:
    """The rows to keep and their card. Raises as `Examples.keep`."""
    others: dict[str, None] = {}
    given = given_rows(ask, others)
    labels: dict[str, float] = {}
    places: dict[str, str] = {}
    count = 0
    faults: dict[str, errors.BadQuestion] = {}
    for each in _so_many(given, faults) if ask.file is not None else given:
        count += 1
        try:
            text, label = text_of(each), label_of(each)
            if text in labels and labels[text] != label:
                raise _two_labels(each, text, labels[text], label, places[text])
        except errors.BadQuestion as fault:
            faults[each.where] = fault
            continue
        labels.setdefault(text, label)
        places.setdefault(text, each.where)
    if faults:
        raise _first_of(faults)
    rows = tuple(Example(text=text, label=label) for text, label in labels.items() if label != 0)
    card = ExamplesCard(
        id=digest(rows, left_out=count > len(rows)), name=ask.name, licence=ask.licence, rows=len(rows),
        plus=sum(row.label > 0 for row in rows), minus=sum(row.label < 0 for row in rows),
        neutral=len(labels) - len(rows), duplicates=count - len(labels),
        longest=max((len(row.text) for row in rows), default=0),
        notices=_unread(others, "Columns" if ask.format == "csv" else "Fields"),
    )  # fmt: skip
    _check_poles(card)
    return rows, card


def _first_of(faults: Mapping[str, errors.BadQuestion]) -> errors.BadQuestion:
    """The first fault, by where it stands, with the places of the next and the number of all."""
    rows = {where: fault for where, fault in faults.items() if where != BEHIND}
    (_, first), *others = rows.items()
    why = first.why
    if others:
        shown = [f"{where[:1].lower()}{where[1:]}" for where, _ in others[:FAULTS_SHOWN]]
        if len(others) > FAULTS_SHOWN:
            shown.append(f"{len(others) - FAULTS_SHOWN:,} more")
        also = " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
        why += f"; {len(rows):,} rows in all cannot be taken, also {also}"
    if BEHIND in faults:
        what = faults[BEHIND].what
        why += f"; what follows was not read, for {what[:1].lower()}{what[1:]}"
    return type(first)(first.what, why, first.instead, needed=first.needed, available=first.available)


def digest(rows: Sequence[Example], *, left_out: bool = False) -> str:
    """SHA-256 of the rows, each [text, label], as canonical JSON.

    Rows from which something was `left_out` are told apart from the same rows as somebody sent them: their order pairs
    nothing any more.
    """
    plain = _plain(rows)
    return sha256(canonical_json(["left out", plain] if left_out else plain).encode()).hexdigest()


def _plain(rows: Sequence[Example]) -> list[list[Any]]:
    return [[row.text, row.label] for row in rows]


def _read_card(folder: Path) -> ExamplesCard:
    return ExamplesCard.model_validate(
        {key: value for key, value in read_card(folder).items() if key in ExamplesCard.model_fields}
    )


def _so_many(given: Iterable[Labelled], faults: dict[str, errors.BadQuestion]) -> Iterator[Labelled]:
    """Rows of a file, as many as the form allows of those that are not in a file. Raises `TooLarge`.

    A fault of the file itself, behind which nothing can be read, joins those of its rows.
    """
    rest = iter(given)
    try:
        yield from islice(rest, EXAMPLES_MOST)
    except errors.BadQuestion as fault:
        if not faults:
            raise
        faults[BEHIND] = fault
        return
    if more := sum(1 for _ in rest):
        raise errors.TooLarge(
            "The file has too many rows",
            f"it has {EXAMPLES_MOST + more:,}, and one set of examples has at most {EXAMPLES_MOST:,}",
            "Leave some of them out; a few hundred of each pole make a steer.",
            needed=EXAMPLES_MOST + more, available=EXAMPLES_MOST,
        )  # fmt: skip


def _unread(others: Iterable[str], what: str) -> tuple[str, ...]:
    """What is said of columns or fields beside the two."""
    names = ", ".join(short(name, 40) for name in islice(others, 10))
    return (f"{what} that were not read: {names}.",) if names else ()


def _two_labels(each: Labelled, text: str, first: float, second: float, place: str) -> errors.BadQuestion:
    return errors.BadQuestion(
        "One text has two labels",
        f"“{short(text, SHOWN)}” is labelled {first:g} ({place[:1].lower()}{place[1:]}) and {second:g} "
        f"({each.where[:1].lower()}{each.where[1:]})",
        "Keep one of them.",
    )


def _check_poles(card: ExamplesCard) -> None:
    least = min(card.plus, card.minus)
    if least >= POLE_LEAST:
        return
    counts = f"there are {card.plus} different texts above 0 and {card.minus} below"
    if card.neutral:
        counts += f", and {card.neutral} labelled 0, which teach nothing"
    what = "The examples have one class only" if least == 0 else "There are too few examples"
    raise errors.BadQuestion(
        what, f"{counts}; a steer needs {POLE_LEAST} of each, for some of them must judge it unseen",
        f"Add {'texts of the other pole' if least == 0 else 'more texts'}; a few hundred of each make a better steer.",
        needed=POLE_LEAST, available=least,
    )  # fmt: skip
