"""Layers that wait to be reduced together: on a graphics card starting a small program costs more than its work."""

from torch import Tensor

from backend.measure.attention import Maps, Reduced, Reducer
from backend.measure.fused import Scores

PILE_BYTES = 96 * 1024 * 1024
"""Queries and keys that wait at most, and as much again while they are put together."""


class Pile:
    """The layers of one text, in their order."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._waiting: list[Scores] = []
        self._mask_TS: Tensor | None = None

    def add(self, maps: Maps, mask_TS: Tensor | None) -> list[Reduced]:
        """What is reduced by now, none of it given before; this layer may wait for others like it."""
        scores = maps.scores
        if scores is None or not self._reducer.may_fuse(scores, self._reducer.sees(mask_TS)):
            return [*self.rest(), self._reducer.reduce(maps, mask_TS, lasting=True)]
        full = self._waiting and not (self._is_like(scores, mask_TS) and self._bytes_with(scores) <= PILE_BYTES)
        found = self.rest() if full else []
        self._waiting.append(scores)
        self._mask_TS = mask_TS
        return found

    def rest(self) -> list[Reduced]:
        """The layers that still wait."""
        waiting, self._waiting = self._waiting, []
        return [self._reducer.together(waiting, self._mask_TS)] if waiting else []

    def _bytes_with(self, scores: Scores) -> int:
        """Of those that wait and one more, all of one shape."""
        return (len(self._waiting) + 1) * (scores.query_HTD.nbytes + scores.key_GSD.nbytes)

    def _is_like(self, scores: Scores, mask_TS: Tensor | None) -> bool:
        """Whether one start of the kernel can take this layer with those that wait."""
        last = self._waiting[-1]
        same_mask = mask_TS is self._mask_TS or self._reducer.sees(mask_TS) is self._reducer.sees(self._mask_TS)
        same_shape = (scores.query_HTD.shape, scores.key_GSD.shape) == (last.query_HTD.shape, last.key_GSD.shape)
        return same_mask and same_shape and (scores.scale, scores.cap) == (last.scale, last.cap)
