"""Final states of many texts, computed once and kept in a file, so that training reads them again and again.

`<cache>/tables/states@<digest12>/` holds the states in the model's own dtype, whole or absent: a making that was
killed, or another one from the same examples, finds them. They are read through the memory map of the file, so that
they take no memory that the system cannot take back. Axes: N texts, P predicted tokens of all texts, D width.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from backend import errors
from backend.models import cache
from backend.models.cache import check_space, is_whole, read_card, sweep, write_card, write_errors
from backend.models.likelihood import Reading, States
from backend.schema import Conditions
from backend.schema.view import canonical_json

STATES_MOST = 2 * 1024**3
"""Bytes of all states that are kept; the oldest go first."""
RAW, PLACES = "states.raw", "places.safetensors"


@dataclass(frozen=True)
class StatesTable:
    """Where each text's states lie."""

    states_PD: Tensor
    targets_P: Tensor
    """int32: the token that each predicts."""
    first_N: Tensor
    """int64: where the states of a text begin."""
    count_N: Tensor
    """int64: how many of its tokens are predicted, padding not counted."""

    def places(self, text: int, count: int | None = None) -> Tensor:
        """int64: the rows of the first `count` predicted tokens of a text; None: of all but padding."""
        first = int(self.first_N[text])
        return torch.arange(first, first + (int(self.count_N[text]) if count is None else count))


def states_key(conditions: Conditions, readings: Sequence[Reading]) -> str:
    """Digest of the model's conditions and the ids of every text: equal keys, equal states."""
    told = [conditions.model_dump(mode="json"), [[text.ids, text.types] for text in readings]]
    return sha256(canonical_json(told).encode()).hexdigest()


class StatesTables:
    """The states below one cache folder."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir) / "tables"

    def find(self, key: str) -> StatesTable | None:
        """Those that are kept."""
        folder = self._place(key)
        if not is_whole(folder):
            return None
        os.utime(folder)
        return _opened(folder)

    def draft(self, key: str, readings: Sequence[Reading], width: int, dtype: torch.dtype) -> Draft:
        """An empty table to fill. Raises `TooLarge` with both numbers, `DiskFull`."""
        needed = sum(len(text.ids) - 1 for text in readings) * width * dtype.itemsize
        if needed > STATES_MOST:
            raise errors.TooLarge(
                "These examples are too large to train on",
                f"their states take {needed / 1e6:,.0f} MB, and {STATES_MOST / 1e6:,.0f} MB are kept at most",
                "Send fewer or shorter texts, or lower `tokens`.", needed=needed, available=STATES_MOST,
            )  # fmt: skip
        with write_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
        self._make_room(needed)
        check_space(self.root, needed, "what the model makes of these examples")
        return Draft(self._place(key), dtype)

    def _place(self, key: str) -> Path:
        return self.root / f"states@{key[:12]}"

    def _make_room(self, needed: int) -> None:
        """Forget the oldest tables beyond what is kept, and drafts that a kill has left."""
        sweep(self.root)
        tables = sorted(self.root.glob("states@*"), key=lambda folder: folder.stat().st_mtime)
        sizes = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in tables}
        while tables and sum(sizes[folder] for folder in tables) + needed > STATES_MOST:
            shutil.rmtree(tables.pop(0), ignore_errors=True)  # whoever reads it now keeps its pages


class Draft:
    """A table in the making: texts in any order, then `finish`; `drop` where it came to nothing."""

    def __init__(self, place: Path, dtype: torch.dtype) -> None:
        self._place, self._dtype, self._width = place, dtype, 0
        with write_errors(place):
            self._draft = cache.Draft(place)
            self._folder = self._draft.folder
            self._file = (self._folder / RAW).open("wb")
        self._targets: list[Tensor] = []
        self._first: dict[int, int] = {}
        self._count: dict[int, int] = {}
        self._rows = 0

    def add(self, texts: Sequence[int], counts: Sequence[int], states: States) -> None:
        """The states of a batch; `texts` are their numbers, `counts` how many tokens each predicts without padding."""
        states_PD = states.states_PD.detach().to(self._dtype).cpu().contiguous()
        self._width = states_PD.shape[1]
        self._file.write(states_PD.view(torch.uint8).numpy().tobytes())
        self._targets.append(states.targets_P.cpu().to(torch.int32))
        lengths = torch.bincount(states.text_P, minlength=len(texts)).tolist()
        for text, count, length in zip(texts, counts, lengths, strict=True):
            self._first[text], self._count[text] = self._rows, count
            self._rows += length

    def finish(self) -> StatesTable:
        """Move it into place: one rename; a table that another one put there meanwhile holds the same."""
        self._file.close()
        texts = range(len(self._first))
        first_N, count_N = (torch.tensor([by_text[text] for text in texts]) for by_text in (self._first, self._count))
        numbers = {"targets": torch.cat(self._targets), "first": first_N, "count": count_N}
        save_file(numbers, self._folder / PLACES)
        files = {name: {"bytes": (self._folder / name).stat().st_size} for name in (RAW, PLACES)}
        word = str(self._dtype).removeprefix("torch.")
        write_card(self._folder, {"files": files, "dtype": word, "width": self._width, "rows": self._rows})
        try:
            self._folder.rename(self._place)
        except OSError:
            if not is_whole(self._place):
                shutil.rmtree(self._place, ignore_errors=True)
                self._folder.rename(self._place)
        self.drop()
        return _opened(self._place)

    def drop(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._draft.drop()


def _opened(folder: Path) -> StatesTable:
    card, numbers = read_card(folder), load_file(folder / PLACES)
    dtype: torch.dtype = getattr(torch, card["dtype"])
    size = (folder / RAW).stat().st_size
    raw = torch.from_file(str(folder / RAW), shared=False, size=size, dtype=torch.uint8)
    return StatesTable(
        raw.view(dtype).view(card["rows"], card["width"]), numbers["targets"], numbers["first"], numbers["count"]
    )
