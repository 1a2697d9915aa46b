"""Written: what every part of a model wrote into the stream during one run, kept for the next click.

Axes: B rows (edited, then unedited), T tokens, D width, H heads, F units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from backend.models import forward
from backend.models.asking import Asked
from backend.models.loaded import Loaded
from backend.models.plan import Plan
from backend.models.taps import Cancel


@dataclass(frozen=True)
class Written:
    """What taps held after their edits, at all tokens or, where that is too much, at one (units of one block: at all).

    By tap: `embedding`, `attention_out.L`, `ffn_out.L`, `residual.L`, `heads.L` (merged), each [B, T, ·] or [B, 1, ·].
    """

    by_tap: dict[str, Tensor]
    final_BTD: Tensor
    """What the read-out takes, of every token."""
    tokens: int

    @property
    def bytes(self) -> int:
        """What keeping it holds."""
        return sum(held.nbytes for held in self.by_tap.values()) + self.final_BTD.nbytes

    def at(self, tap: str, row: int, token: int) -> Tensor:
        """One vector, as a plain tensor that gradients may flow to."""
        found_BTX = self.by_tap[tap]
        return found_BTX[row, token if found_BTX.shape[1] == self.tokens else 0].clone()


def written(
    loaded: Loaded, asked: Asked, token: int, units: Iterable[int] = (), cancel: Cancel | None = None
) -> Written:
    """What was written in the run of a view; `units`: blocks whose coefficients are needed at every token.

    All of it is kept where it takes no more than half of what may be kept; else only what stands at `token`.
    """
    whole = f"written {asked.states_key()}"
    wanted = sorted(units)
    part = f"{whole} {token} {wanted}"
    for key in (whole, part):
        kept: Written | None = loaded.kept.find(key)
        if kept is not None:
            return kept
    fits = written_bytes(loaded, asked.tokens, len(asked.rows)) <= loaded.kept.budget // 2
    everywhere = taps_of(loaded) if fits else [f"ffn.{layer}" for layer in wanted]
    found = record(loaded, asked.ids_BT, token, everywhere, asked.plan, asked.types_BT, cancel)
    loaded.kept.keep(whole if fits else part, found, found.bytes)
    return found


def record(
    loaded: Loaded,
    ids_BT: Sequence[Sequence[int]],
    token: int,
    everywhere: Iterable[str],
    plan: Plan | None = None,
    types_BT: Sequence[Sequence[int]] | None = None,
    cancel: Cancel | None = None,
) -> Written:
    """Run the trunk and record every tap at one token, and those of `everywhere` at all of them."""
    rows, tokens, all_of = len(ids_BT), len(ids_BT[0]), set(everywhere)
    found: dict[str, Tensor] = {}

    def keeper(tap: str) -> Callable[[Tensor], None]:
        def keep(held: Tensor) -> None:
            held_BTX = held.reshape(rows, tokens, -1)  # some families flatten [B, T]; heads come apart
            kept_BTX = held_BTX if tap in all_of else held_BTX[:, token : token + 1]
            found[tap] = kept_BTX.clone()  # the next module may write into what it was given

        return keep

    read = {tap: keeper(tap) for tap in taps_of(loaded)}
    final_BTD = forward.run(loaded, ids_BT, plan, types_BT=types_BT, cancel=cancel, read=read)
    return Written(found, final_BTD, tokens)


def taps_of(loaded: Loaded) -> list[str]:
    """Everything that is recorded."""
    anatomy = loaded.anatomy
    layers = range(anatomy.shape.layers if anatomy.stream else 0)
    return [
        "embedding",
        *(f"attention_out.{layer}" for layer in anatomy.attention),
        *(f"heads.{layer}" for layer in anatomy.projections),
        *(f"ffn_out.{layer}" for layer in anatomy.feeds), *(f"ffn.{layer}" for layer in anatomy.write),
        *(f"residual.{layer}" for layer in layers),
    ]  # fmt: skip


def written_bytes(loaded: Loaded, tokens: int, rows: int) -> int:
    """Bytes of everything, at all tokens."""
    shape = loaded.anatomy.shape
    each = shape.layers * (3 * shape.width + shape.heads * shape.head_width + (loaded.anatomy.units or 0))
    return int(rows * tokens * (each + 2 * shape.width) * loaded.model.dtype.itemsize)
