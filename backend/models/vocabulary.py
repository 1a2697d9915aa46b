"""The vocabulary as filters need it: what every token reads, and which tokens are one word. Axes: V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from backend import errors
from backend.models.words import words_of

if TYPE_CHECKING:
    from backend.models.loaded import Loaded
    from backend.schema import Filters


@dataclass(frozen=True)
class Vocabulary:
    """Every token once."""

    texts: tuple[str, ...]
    named_V: Tensor
    """bool: some token has this row of the embedding."""
    letters_V: Tensor
    ascii_V: Tensor
    word_V: Tensor
    """int64: equal for the spellings of one word (case and white space around it aside)."""
    words: dict[str, int]

    @classmethod
    def of(cls, loaded: Loaded) -> Vocabulary:
        """Read once, and kept."""
        found: Vocabulary | None = loaded.kept.find("vocabulary")
        if found is None:
            found = cls._read(loaded)
            loaded.kept.keep("vocabulary", found, sum(80 + len(text) for text in found.texts) + 11 * len(found.texts))
        return found

    @classmethod
    def _read(cls, loaded: Loaded) -> Vocabulary:
        size = loaded.anatomy.shape.vocabulary
        names = loaded.tokenizer.convert_ids_to_tokens(list(range(size)))
        by_id = words_of(loaded.tokenizer, range(size))
        texts = tuple(by_id[str(id)] for id in range(size))
        words: dict[str, int] = {}
        word = [words.setdefault(_word(text), len(words)) for text in texts]
        return cls(
            texts, torch.tensor([name is not None for name in names]),
            torch.tensor([text.removeprefix(" ").isalpha() for text in texts]),
            torch.tensor([text.isascii() for text in texts]), torch.tensor(word), words,
        )  # fmt: skip

    def like(self, word: str) -> Tensor:
        """bool [V]: the spellings of a word."""
        return self.word_V == self.words.get(_word(word), -1)


@dataclass(frozen=True)
class Allowed:
    """Which tokens a search may pair."""

    rows: Tensor
    """int64 ids, ascending."""
    columns: Tensor
    group_V: Tensor | None
    """Tokens of one group are no pair."""
    notices: tuple[str, ...] = ()

    @property
    def pairs(self) -> int:
        """How many pairs are left."""
        every = len(self.rows) * len(self.columns)
        if self.group_V is None:
            return every
        groups = int(self.group_V.max()) + 1
        rows_G, columns_G = (self.group_V[ids].bincount(minlength=groups) for ids in (self.rows, self.columns))
        return every - int((rows_G * columns_G).sum())

    def check(self) -> None:
        """Raise `CannotShow` where no pair is left."""
        if not self.pairs:
            raise errors.CannotShow(
                "The filters leave no pair", "every row left is one of the same token or word as every column left",
                "Take one of the filters away, or let them apply to one side.",
            )  # fmt: skip


def allowed(loaded: Loaded, filters: Filters) -> Allowed:
    """Filters as lists of ids. Raises `CannotShow` where no token is left."""
    vocabulary = Vocabulary.of(loaded)
    every_V = vocabulary.named_V.clone()
    notices = []
    if unnamed := int((~every_V).sum()):
        notices.append(f"{unnamed:,} rows of the embedding that no token has are left out.")
    if filters.letters:
        every_V &= vocabulary.letters_V
    if filters.ascii:
        every_V &= vocabulary.ascii_V
    chosen_V = every_V.clone()
    if filters.text is not None:
        ids = loaded.tokenizer(filters.text, add_special_tokens=False)["input_ids"]
        chosen_V &= torch.isin(torch.arange(len(chosen_V)), torch.tensor(ids, dtype=torch.int64))
    if filters.words is not None:
        listed_V, missing = _listed(vocabulary, filters.words)
        chosen_V &= listed_V
        if missing:
            shown = ", ".join(f"“{word[:40]}”" for word in missing[:8]) + (" …" if len(missing) > 8 else "")
            notices.append(f"No single token reads like {shown}.")
    rows_V = chosen_V if filters.side != "columns" else every_V
    columns_V = chosen_V if filters.side != "rows" else every_V
    for side, left_V in (("row", rows_V), ("column", columns_V)):
        if not bool(left_V.any()):
            raise errors.CannotShow(
                "The filters leave no pair",
                " ".join([f"no token of this vocabulary may be a {side} under them.", *notices]).removesuffix("."),
                "Take one of the filters away.",
            )  # fmt: skip
    groups = {"any": None, "tokens": torch.arange(len(every_V)), "words": vocabulary.word_V}
    return Allowed(rows_V.nonzero()[:, 0], columns_V.nonzero()[:, 0], groups[filters.apart], tuple(notices))


def _listed(vocabulary: Vocabulary, words: tuple[str, ...]) -> tuple[Tensor, list[str]]:
    numbers = {word: vocabulary.words.get(_word(word)) for word in words}
    known = torch.tensor([number for number in numbers.values() if number is not None], dtype=torch.int64)
    return torch.isin(vocabulary.word_V, known), [word for word, number in numbers.items() if number is None]


def _word(text: str) -> str:
    """What the spellings of a word have in common."""
    return text.strip().casefold() or text
