"""Maps of a kernel that makes none itself, computed beside it and forgotten."""

from dataclasses import dataclass

from torch import Tensor

from backend.measure.fused import Scores
from backend.models.kernel import Call


@dataclass(frozen=True)
class Recomputed:
    """The maps of the first row of a call, block by block."""

    call: Call
    reduces: bool
    """Whether they are known to be what `Call.scores` says (`Loaded.reduces`)."""

    @property
    def heads(self) -> int:
        """H."""
        return self.call.query_BHTD.shape[1]

    @property
    def scores(self) -> Scores | None:
        """See `Call.scores`."""
        return self.call.scores if self.reduces else None

    def block(self, start: int, end: int, low: int, high: int) -> Tensor:
        """By the family's own eager function; a key below `low` that is only not shown still takes its weight."""
        return self.call.maps(start, end, high)[0][:, :, low:]
