"""What the tests of all families ask: some tokens, under some edits, with vectors made up for them."""

import torch
from torch import Tensor

from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.plan import Plan, Row, fold
from backend.models.vectors import Direction, SteerMatrix
from backend.schema import Edit

TOKENS = 12
"""More than the windows of the windowed families."""
VECTOR = "a" * 64


class Made:
    """A direction as wide as the stream, and a steer as wide as what the output embedding takes."""

    def __init__(self, loaded: Loaded) -> None:
        dice, read = torch.Generator().manual_seed(3), loaded.anatomy.unembedding.weight.shape[1]
        self.vector = torch.randn(loaded.anatomy.shape.width, generator=dice)
        self.matrix = SteerMatrix(torch.randn(read, 2, generator=dice), torch.randn(2, read, generator=dice) / read)

        self.stored: dict[str, Tensor] = {}

    def direction(self, id: str) -> Direction:
        return Direction(self.stored.get(id, self.vector))

    def steer(self, id: str) -> SteerMatrix:
        return self.matrix


def some_ids(loaded: Loaded, seed: int = 3, tokens: int = TOKENS) -> list[int]:
    dice = torch.Generator().manual_seed(seed)
    return torch.randint(5, loaded.anatomy.shape.vocabulary, (tokens,), generator=dice).tolist()


def plan_of(loaded: Loaded, rows: list[Row], tokens: int = TOKENS) -> Plan | None:
    return fold(loaded.anatomy, rows, tokens, Made(loaded))


def logits(loaded: Loaded, *edits: Edit, **options) -> Tensor:
    plan = plan_of(loaded, [Row(edits, TOKENS - 4)])
    return forward.run(loaded, [some_ids(loaded)], plan, logits=True, **options)[0]
