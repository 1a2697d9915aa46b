"""Stored vectors: directions of a stream or a head, and LM-Steer matrices, named by the digest of their numbers.

`<cache>/captures/<name>@<digest12>/` holds a direction, `<cache>/steers/<name>@<digest12>/` a steer: one safetensors
file beside its card, each folder whole or absent. Axes: D width, K ranks of a steer.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from backend import errors
from backend.models.cache import TEMPORARY, is_whole, putting, read_card, whole_folders, write_card, write_errors
from backend.schema import SteerCard, VectorCard

FOLDERS: dict[str, str] = {"direction": "captures", "steer": "steers"}
REMEMBERED = 8
"""Directions and steers whose numbers stay in memory: 32 MB for the largest that models of 8 B are steered by."""
FILE = "numbers.safetensors"
SLIDER = "steer.json"
"""Beside the numbers of what lies on the shelf of steers: its SteerCard."""
SHIPPED = Path(__file__).with_name("shipped")
"""What comes with the product, in the same folders as in a cache."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a slider was made for, where that is known."""

    name: str
    model: str
    vocabulary: str
    """SHA-256 of the model's tokens in order; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class Direction:
    """A vector of a stream [width] or of a head [head width], float32."""

    vector_D: Tensor
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class SteerMatrix:
    """LM-Steer's W = left right, float32; a full matrix has the identity on its right."""

    left_DK: Tensor
    right_KD: Tensor
    origin: Origin | None = None


class Stored(Protocol):
    """Where stored vectors come from. Both raise `UnknownVector`."""

    def direction(self, id: str) -> Direction: ...
    def steer(self, id: str) -> SteerMatrix: ...


class _Nothing:
    """No vector at all."""

    def direction(self, id: str) -> Direction:
        raise unknown_vector("direction", id)

    def steer(self, id: str) -> SteerMatrix:
        raise unknown_vector("steer", id)


NO_VECTORS: Stored = _Nothing()


@dataclass(frozen=True)
class Beside:
    """Vectors of a study, by made-up ids, beside those that are stored."""

    stored: Stored
    own: Mapping[str, Tensor] = field(default_factory=dict)
    steers: Mapping[str, SteerMatrix] = field(default_factory=dict)

    def direction(self, id: str) -> Direction:
        """One of the study's own, or a stored one. Raises `UnknownVector`."""
        return Direction(self.own[id]) if id in self.own else self.stored.direction(id)

    def steer(self, id: str) -> SteerMatrix:
        """One of the study's own, or a stored one. Raises `UnknownVector`."""
        return self.steers[id] if id in self.steers else self.stored.steer(id)

    @classmethod
    def joined(cls, stored: Stored, parts: Sequence[Beside]) -> Beside:
        """The vectors of several studies; their made-up ids are different."""
        own, steers = (
            {id: each for part in parts for id, each in getattr(part, name).items()} for name in ("own", "steers")
        )
        return cls(stored, own, steers)


class Vectors:
    """The stored vectors below one cache folder."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir)

    def direction(self, id: str) -> Direction:
        """A stored direction. Raises `UnknownVector`."""
        folder = self.folder("direction", id)
        return Direction(_numbers(folder)["vector"], _origin(folder))

    def steer(self, id: str) -> SteerMatrix:
        """A stored steer. Raises `UnknownVector`."""
        folder = self.folder("steer", id)
        numbers = _numbers(folder)
        return SteerMatrix(numbers["left"], numbers["right"], _origin(folder))

    def cards(self) -> tuple[VectorCard, ...]:
        """Every stored vector, by kind and name."""
        return tuple(card for kind in FOLDERS for folder in folders(self.root, kind) if (card := card_of(folder)))

    def keep(self, card: VectorCard, numbers: dict[str, Tensor], slider: SteerCard | None = None) -> VectorCard:
        """Store numbers under the digest they have, and give the card with it; what is stored already stays.

        `numbers`: `vector` [D] of a direction, `left` [D, K] and `right` [K, D] of a steer. `slider`: its card, which
        comes into place with the numbers, by the same rename. Raises `BadQuestion` for numbers that are not finite or
        do not fit together.
        """
        _check(card.kind, numbers)
        card = card.model_copy(update={"id": digest(card.kind, numbers), "shape": _shape(numbers)})
        place = self.root / FOLDERS[card.kind] / f"{card.name}@{card.id[:12]}"
        if is_whole(place):
            return card
        with write_errors(self.root), putting(place) as draft:
            save_file({name: tensor.contiguous() for name, tensor in numbers.items()}, draft / FILE)
            if slider is not None:
                write_slider(draft, slider)
            size = (draft / FILE).stat().st_size
            write_card(draft, {**card.model_dump(mode="json"), "files": {FILE: {"bytes": size}}})
        return card

    def folder(self, kind: Literal["direction", "steer"], id: str) -> Path:
        """Where a vector lies: with the product or in the cache. Raises `UnknownVector`."""
        found = self.places(kind, id)
        if not found:
            raise unknown_vector(kind, id)
        return found[0]

    def places(self, kind: Literal["direction", "steer"], id: str) -> list[Path]:
        """Every folder that holds these numbers, for they may have several names; what lies on the shelf first."""
        pattern = f"*@{id[:12]}" if id.isalnum() else "nothing"
        every = [folder for root in (SHIPPED, self.root) for folder in folders(root, kind, pattern)]
        same = [folder for folder in every if (card := card_of(folder)) is not None and card.id == id]
        return sorted(same, key=lambda folder: not (folder / SLIDER).is_file())


def _numbers(folder: Path) -> dict[str, Tensor]:
    """What a folder holds; the last few are remembered, for a slider that moves asks for the same again and again."""
    file = folder / FILE
    try:
        return _read(file, file.stat().st_mtime_ns)
    except FileNotFoundError:  # deleted since it was found
        kind = next(kind for kind, name in FOLDERS.items() if name == folder.parent.name)
        raise unknown_vector(kind, folder.name.rpartition("@")[2]) from None


@lru_cache(maxsize=REMEMBERED)
def _read(file: Path, changed_ns: int) -> dict[str, Tensor]:
    return load_file(file)


def folders(root: Path, kind: str, pattern: str = "*") -> Iterator[Path]:
    """The whole folders of a kind below a cache, or below what comes with the product; no drafts."""
    yield from whole_folders(root / FOLDERS[kind], pattern)


def digest(kind: str, numbers: dict[str, Tensor]) -> str:
    """SHA-256 of the kind, the shapes and the float32 numbers, in the order of their names."""
    found = sha256(kind.encode())
    for name, tensor in sorted(numbers.items()):
        found.update(f"{name}{list(tensor.shape)}".encode())
        found.update(tensor.contiguous().numpy().astype("<f4").tobytes())
    return found.hexdigest()


def unknown_vector(kind: str, id: str) -> errors.UnknownVector:
    """This server holds no such vector."""
    return errors.UnknownVector(
        f"This server does not hold the {kind} {id[:12]}",
        f"a {kind} is named by the digest of its numbers and stays on the server that it was sent to",
        "send it again (POST /api/v1/vectors), or name another",
    )


def card_of(folder: Path) -> VectorCard | None:
    """The card of a folder of numbers."""
    card = {key: value for key, value in read_card(folder).items() if key in VectorCard.model_fields}
    return VectorCard.model_validate(card) if card else None


def _origin(folder: Path) -> Origin | None:
    card = read_slider(folder)
    return None if card is None else Origin(card.name, card.model, card.vocabulary)


def read_slider(folder: Path) -> SteerCard | None:
    """What is known of a slider; None where nothing is, or where its card is damaged."""
    try:
        return SteerCard.model_validate_json((folder / SLIDER).read_bytes())
    except (OSError, ValueError):
        return None


def write_slider(folder: Path, card: SteerCard) -> None:
    """Put a card beside its numbers: the whole, or nothing."""
    handle, draft = tempfile.mkstemp(suffix=TEMPORARY, dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(card.model_dump(mode="json"), file, ensure_ascii=False, indent=1)
        file.write("\n")
    os.chmod(draft, 0o644)
    os.replace(draft, folder / SLIDER)


def _shape(numbers: dict[str, Tensor]) -> tuple[int, ...]:
    first = numbers.get("vector", numbers.get("left"))
    return tuple(first.shape) if first is not None else ()


def _check(kind: str, numbers: dict[str, Tensor]) -> None:
    for name, tensor in numbers.items():
        if not bool(torch.isfinite(tensor).all()):
            raise _no_vector(kind, f"`{name}` holds numbers that are not finite", "Send finite numbers.")
    if kind == "direction":
        fits = numbers["vector"].ndim == 1 and len(numbers["vector"]) > 0
    else:
        left, right = numbers["left"], numbers["right"]
        fits = left.ndim == right.ndim == 2 and left.shape == right.T.shape and left.numel() > 0
    if not fits:
        shapes = ", ".join(f"`{name}` {list(tensor.shape)}" for name, tensor in numbers.items())
        raise _no_vector(
            kind, f"its shapes are {shapes}",
            "Send `vector` [width] for a direction; `left` [width, rank] and `right` [rank, width] for a steer.",
        )  # fmt: skip


def _no_vector(kind: str, why: str, instead: str) -> errors.BadQuestion:
    return errors.BadQuestion(f"This is no {kind}", why, instead)
