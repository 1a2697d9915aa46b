"""What a tokenizer says about a text, in one form for fast and slow tokenizers."""

from dataclasses import dataclass, replace
from typing import Any

Span = tuple[int, int]


@dataclass(frozen=True)
class Encoded:
    """Ids with their names, and where the tokenizer says they lie."""

    ids: tuple[int, ...]
    names: tuple[str, ...]
    added: tuple[bool, ...]
    """True for a special token that the tokenizer put around the text."""
    sequence: tuple[int, ...]
    """0 or 1: which text of a pair it belongs to."""
    offsets: tuple[Span, ...] | None
    """Characters of its own text; None when the tokenizer does not say."""
    type_ids: tuple[int, ...] | None
    """None when the model takes none."""

    def without(self, place: int) -> "Encoded":
        """The same without the token at `place`."""

        def cut(values: tuple[Any, ...] | None) -> Any:
            return None if values is None else values[:place] + values[place + 1 :]

        return replace(self, **{name: cut(getattr(self, name)) for name in self.__dataclass_fields__})

    def tail(self, first: int) -> "Encoded":
        """The tokens from `first` on."""

        def cut(values: tuple[Any, ...] | None) -> Any:
            return None if values is None else values[first:]

        return replace(self, **{name: cut(getattr(self, name)) for name in self.__dataclass_fields__})


def encode(tokenizer: Any, text: str, second: str | None = None, *, specials: bool = True) -> Encoded:
    """Tokenise whole, without truncation or padding."""
    fast = bool(tokenizer.is_fast)
    said = tokenizer(
        text, second, add_special_tokens=specials, return_offsets_mapping=fast, truncation=False, padding=False,
        verbose=False,
    )  # fmt: skip
    ids = tuple(said["input_ids"])
    sequences = said.sequence_ids() if fast else _slow_sequences(tokenizer, ids, text, second)
    return Encoded(
        ids=ids,
        names=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        added=tuple(sequence is None for sequence in sequences),
        sequence=_filled(sequences),
        offsets=tuple(map(tuple, said["offset_mapping"])) if fast else None,
        type_ids=tuple(said["token_type_ids"]) if "token_type_ids" in said else None,
    )


def count(tokenizer: Any, text: str, second: str | None = None, *, specials: bool = True) -> int:
    """How many tokens `encode` finds, without asking where they lie: half the work for a very long text."""
    said = tokenizer(
        text, second, add_special_tokens=specials, return_attention_mask=False, return_token_type_ids=False,
        truncation=False, padding=False, verbose=False,
    )  # fmt: skip
    return len(said["input_ids"])


def _slow_sequences(tokenizer: Any, ids: tuple[int, ...], text: str, second: str | None) -> list[int | None]:
    """Which ids belong to which text: those that the text has without anything put around it."""
    sequences: list[int | None] = [None] * len(ids)
    at = 0
    for number, part in enumerate((text,) if second is None else (text, second)):
        bare = tuple(tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"])
        at = next((start for start in range(at, len(ids)) if ids[start : start + len(bare)] == bare), len(ids))
        sequences[at : at + len(bare)] = [number] * len(ids[at : at + len(bare)])
        at += len(bare)
    return sequences


def _filled(sequences: list[int | None]) -> tuple[int, ...]:
    """A special token belongs to the text before it; the first ones to the first text."""
    filled, now = [], 0
    for sequence in sequences:
        now = now if sequence is None else sequence
        filled.append(now)
    return tuple(filled)
