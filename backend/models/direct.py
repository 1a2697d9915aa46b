"""Direct contributions: what each vector that was written into the stream adds to a pair's difference, by itself.

Every norm keeps its divisor of this run, so the difference before any soft-cap is a sum over all that was written.

Axes: D width, H heads, F units, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from backend.models.anatomy import matrix
from backend.models.asking import Asked
from backend.models.direction import Direction, direction_of
from backend.models.explain import Pair
from backend.models.loaded import Loaded
from backend.models.replay import Replay, constant, replay, scale_at
from backend.models.written import Written

GRAPH_VECTORS = 24
"""Vectors of the stream's width that the graph of a replay holds for each block."""


@dataclass(frozen=True)
class Direct:
    """The sum of one row of a run, at one token."""

    loaded: Loaded
    written: Written
    asked: Asked
    row: int
    token: int
    replay: Replay
    direction: Direction
    gradients: dict[str, Tensor]
    """By source, float32 [D]: logits that one unit of it adds."""

    @classmethod
    def of(cls, loaded: Loaded, asked: Asked, written: Written, pair: Pair, row: int) -> Direct:
        """Raises `CannotShow` where the read-out is not known."""
        token = pair.explained.token
        direction = direction_of(loaded, pair, asked.plan, row, token)
        made = follow(loaded, asked, written, row, token)
        return cls(loaded, written, asked, row, token, made, direction, made.gradients(direction.direction_D))

    def of_source(self, name: str) -> float:
        """Logits that a source adds."""
        return _dot(self.gradients[name], self.replay.sources[name])

    def of_kind(self, kind: str) -> list[float]:
        """Logits of all sources of a kind, such as `bias`."""
        return [self.of_source(name) for name in self.replay.sources if name.partition(".")[0] == kind]

    def of_heads(self, layer: int) -> Tensor | None:
        """float32 [H]: logits of each query head, without the projection's bias; None where they are not known."""
        weight = self.loaded.anatomy.output_matrix(layer)
        if weight is None:
            return None
        heads_HD = self.written.at(f"heads.{layer}", self.row, self.token).float()
        toward_HD = weight.float() @ self.gradients[f"attention_out.{layer}"].to(weight.device)
        return (heads_HD * toward_HD).unflatten(0, (self.loaded.anatomy.shape.heads, -1)).sum(-1)

    def of_units(self, layer: int) -> Tensor:
        """float32 [F]: logits of each value, times its coefficient."""
        weight_FD = matrix(self.loaded.anatomy.write[layer])
        assert weight_FD is not None, "as found"
        # What an edit puts in the place of the block's output comes from no unit.
        kept = scale_at(self.asked.plan, f"ffn_out.{layer}", self.row, self.token)
        toward_D = self.gradients[f"ffn_out.{layer}"].to(weight_FD.device) * (1.0 if kept is None else kept)
        return self.written.at(f"ffn.{layer}", self.row, self.token).float() * (weight_FD.float() @ toward_D)

    def rest(self) -> float:
        """Logits that no part holds: biases of norms and of the read-out, constants, edits of the stream."""
        found = self.direction.constant + sum(self.of_kind("bias")) + sum(self.of_kind("edit"))
        if self.loaded.constants:
            id = self.asked.read.ids[self.token]
            held_D = constant(self.loaded, self.written, id, self.row, self.token, self.asked.plan, self.replay)
            found += _dot(held_D, self.direction.direction_D)
        return found

    def before_cap(self) -> float:
        """The pair's difference before a cap, from the final state of the run."""
        final_D = self.written.final_BTD[self.row, self.token]
        return _dot(final_D, self.direction.direction_D) + self.direction.constant


def follow(loaded: Loaded, asked: Asked, written: Written, row: int, token: int) -> Replay:
    """The replay of one token of a run, kept for the next question about it."""
    key = f"replay {asked.states_key()} {row} {token}"
    kept: Replay | None = loaded.kept.find(key)
    if kept is None:
        kept = replay(loaded, written, asked.read.ids[token], row, token, asked.plan)
        loaded.kept.keep(key, kept, graph_bytes(loaded))
    return kept


def graph_bytes(loaded: Loaded) -> int:
    """What a replay holds, roughly."""
    shape = loaded.anatomy.shape
    each = GRAPH_VECTORS * shape.width + 4 * (loaded.anatomy.units or shape.width)
    return int(shape.layers * each * max(4, loaded.model.dtype.itemsize))


def _dot(one_D: Tensor, other_D: Tensor) -> float:
    return float(one_D.detach().double() @ other_D.detach().to(one_D.device).double())
