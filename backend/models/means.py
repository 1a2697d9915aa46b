"""Means over a prompt set: of every head, unit, feed-forward output and stream, made once for a model and a set.

`<cache>/tables/means@<digest12>/` keeps them, whole or absent, by the digest of the model's conditions and the set.
Axes: T tokens, H heads, W head width, F units, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from backend import errors
from backend.models import forward
from backend.models.anatomy import Anatomy
from backend.models.cache import is_whole, putting, read_card, write_card, write_errors
from backend.models.cost import SCRATCH, forward_bytes
from backend.models.loaded import Loaded
from backend.models.taps import Cancel
from backend.models.tokens import Tokenised, read_tokens
from backend.models.variants import TOKENS_ON_CARD, TOKENS_ON_CPU
from backend.schema import Conditions, Limits, View

FILE = "means.safetensors"


@dataclass(frozen=True)
class Means:
    """Means over all tokens of a set but each text's first, float32 on the CPU."""

    by_tap: dict[str, Tensor]
    """`heads.L` [H, W], `ffn.L` [F], `ffn_out.L` [D], `residual.L` [D]."""
    tokens: int


def taps_of(anatomy: Anatomy) -> dict[str, tuple[int, ...]]:
    """Every tap of a model that has a mean, and the shape of it."""
    shape = anatomy.shape
    taps: dict[str, tuple[int, ...]] = {
        f"heads.{layer}": (shape.heads, shape.head_width) for layer in anatomy.projections
    }
    taps |= {f"ffn.{layer}": (anatomy.units or 0,) for layer in anatomy.write}
    taps |= {f"ffn_out.{layer}": (shape.width,) for layer in anatomy.feeds}
    return taps | {f"residual.{layer}": (shape.width,) for layer in range(shape.layers if anatomy.stream else 0)}


@dataclass
class Sums:
    """Means in the making: text by text, each counted whole or not at all."""

    texts: int = 0
    """How many texts were read."""
    tokens: int = 0
    by_tap: dict[str, Tensor] = field(default_factory=dict)
    """float64."""

    def add(self, loaded: Loaded, texts: Sequence[str], limits: Limits, cancel: Cancel | None = None) -> int:
        """Read the next texts, about as many tokens as a batch has; how many texts were read in all.

        Raises `TooLong` for a text that is longer than the model's context, `BadQuestion` for one without tokens.
        """
        most = self.tokens + (TOKENS_ON_CPU if loaded.conditions.device == "cpu" else TOKENS_ON_CARD)
        while self.texts < len(texts) and self.tokens < most:
            tokens, found = _sums(loaded, _read(loaded, texts, self.texts, limits), cancel)
            for tap, sum_X in found.items():
                self.by_tap[tap] = self.by_tap[tap] + sum_X if tap in self.by_tap else sum_X
            self.tokens, self.texts = self.tokens + tokens, self.texts + 1
        return self.texts

    def means(self) -> Means:
        """What they come to. Raises `BadQuestion` when no text had a second token."""
        if self.tokens == 0:
            raise errors.BadQuestion(
                "There is nothing to average over",
                "the first token of each text is left out, and no text of the set has another one",
                "Choose a set of longer texts.",
            )
        return Means({tap: (sum_X / self.tokens).float() for tap, sum_X in self.by_tap.items()}, self.tokens)


def _read(loaded: Loaded, texts: Sequence[str], place: int, limits: Limits) -> Tokenised:
    try:
        return read_tokens(loaded, View(model=loaded.name, text=texts[place]), limits)
    except errors.TooLong as error:
        raise errors.TooLong(
            f"Text {place} of the prompt set is too long for this model", error.why,
            "Choose a set of shorter texts, or store one (POST /api/v1/sets).",
            needed=error.needed, available=error.available,
        ) from error  # fmt: skip


def _sums(loaded: Loaded, read: Tokenised, cancel: Cancel | None) -> tuple[int, dict[str, Tensor]]:
    """The tokens of a text but its first, and of every tap the sum over them, float64 on the CPU."""
    found: dict[str, Tensor] = {}

    def adder(tap: str, shape: tuple[int, ...]) -> Callable[[Tensor], None]:
        def add(held: Tensor) -> None:
            found[tap] = held.reshape(len(read.ids), *shape)[1:].double().sum(0).cpu()

        return add

    readers = {tap: adder(tap, shape) for tap, shape in taps_of(loaded.anatomy).items()}
    types = None if read.token_type_ids is None else [read.token_type_ids]
    forward.run(loaded, [read.ids], types_BT=types, read=readers, cancel=cancel)
    return len(read.ids) - 1, found


def text_bytes(loaded: Loaded, texts: Sequence[str], limits: Limits) -> int:
    """Bytes for reading the longest of some texts. Raises as `Sums.add`."""
    longest = max(range(len(texts)), key=lambda place: len(texts[place]))
    _read(loaded, texts, longest, limits)
    return forward_bytes(loaded, View(model=loaded.name, text=texts[longest]), limits) + SCRATCH


class MeanTables:
    """The means below one cache folder."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir)

    def find(self, conditions: Conditions, set_id: str) -> Means | None:
        """The means of a model over a set, if they were made before."""
        place = self._place(conditions, set_id)
        return Means(load_file(place / FILE), read_card(place)["tokens"]) if is_whole(place) else None

    def keep(self, conditions: Conditions, set_id: str, means: Means) -> None:
        """Store them."""
        with write_errors(self.root), putting(self._place(conditions, set_id)) as draft:
            save_file({tap: mean.contiguous() for tap, mean in means.by_tap.items()}, draft / FILE)
            told = {"conditions": conditions.model_dump(mode="json"), "set": set_id, "tokens": means.tokens}
            write_card(draft, {**told, "files": {FILE: {"bytes": (draft / FILE).stat().st_size}}})

    def _place(self, conditions: Conditions, set_id: str) -> Path:
        digest = sha256(f"{conditions.model_dump_json()}\n{set_id}".encode()).hexdigest()
        return self.root / "tables" / f"means@{digest[:12]}"
