"""Prompt sets: named lists of texts, known by the digest of the texts; one comes with the product.

`<cache>/sets/<name>@<digest12>/` holds `texts.json` beside its card, whole or absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from backend import errors
from backend.models.cache import putting, read_card, whole_folders, write_card, write_errors
from backend.schema import PromptSet, PromptSets, SetAsk, SetCard
from backend.schema.view import canonical_json

FILE = "texts.json"
OURS = Path(__file__).with_name("prose.json")
TEXT_MOST = 20_000
"""Characters of one text."""


class Sets:
    """The prompt sets below one cache folder, and ours."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir)

    @cached_property
    def ours(self) -> PromptSet:
        """Ordinary English prose, which comes with the product."""
        told: dict[str, Any] = json.loads(OURS.read_text(encoding="utf-8"))
        ask = SetAsk.model_validate(told)
        return PromptSet(card=_card(ask).model_copy(update={"ours": True}), texts=ask.texts)

    def cards(self) -> PromptSets:
        """Every set: ours, then by name."""
        return PromptSets(sets=(self.ours.card, *(_read_card(folder) for folder in self._folders("*"))))

    def get(self, id: str | None) -> PromptSet:
        """A set with its texts; None: ours. Raises `UnknownSet`."""
        if id is None or id == self.ours.card.id:
            return self.ours
        for folder in self._folders(f"*@{id[:12]}" if id.isalnum() else "nothing"):
            if (card := _read_card(folder)).id == id:
                return PromptSet(card=card, texts=json.loads((folder / FILE).read_text(encoding="utf-8")))
        raise errors.UnknownSet(
            f"This server does not hold the prompt set {id[:12]}",
            "a set is named by the digest of its texts and stays on the server that it was sent to",
            "send it again (POST /api/v1/sets), or take the set that comes with LMScope",
        )

    def keep(self, ask: SetAsk) -> SetCard:
        """Store texts under the digest they have; texts that are stored already stay under the name they have.

        Raises `BadQuestion` for a text that is empty or no text, `TooLarge` for one that is too long.
        """
        for place, text in enumerate(ask.texts):
            _check(place, text)
        card = _card(ask)
        try:
            return self.get(card.id).card
        except errors.UnknownSet:
            pass
        with write_errors(self.root), putting(self.root / "sets" / f"{card.name}@{card.id[:12]}") as draft:
            (draft / FILE).write_text(json.dumps(ask.texts, ensure_ascii=False), encoding="utf-8")
            size = (draft / FILE).stat().st_size
            write_card(draft, {**card.model_dump(mode="json"), "files": {FILE: {"bytes": size}}})
        return card

    def _folders(self, pattern: str) -> Iterator[Path]:
        yield from whole_folders(self.root / "sets", pattern, FILE)


def _card(ask: SetAsk) -> SetCard:
    return SetCard(
        name=ask.name, id=sha256(canonical_json(ask.texts).encode()).hexdigest(), texts=len(ask.texts),
        characters=sum(map(len, ask.texts)), licence=ask.licence, about=ask.about,
    )  # fmt: skip


def _read_card(folder: Path) -> SetCard:
    return SetCard.model_validate(
        {key: value for key, value in read_card(folder).items() if key in SetCard.model_fields}
    )


def _check(place: int, text: str) -> None:
    if not text.strip():
        raise errors.BadQuestion(
            f"Text {place} of the set is empty", "it has no token to average over", "Leave it out."
        )
    if len(text) > TEXT_MOST:
        raise errors.TooLarge(
            f"Text {place} of the set is too long",
            f"it has {len(text):,} characters, and a text of a set has at most {TEXT_MOST:,}",
            "Cut it into several texts.", needed=len(text), available=TEXT_MOST,
        )  # fmt: skip
