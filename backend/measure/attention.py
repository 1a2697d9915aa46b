"""Attention maps reduced to thumbnails and to what `statistics` needs of each row, block by block of query rows.

A map is never kept: each layer's maps are read once, while they are there, and the scratch memory is used again.
Axes: H heads, T queries, S keys, Q and K cells of a thumbnail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import torch
from torch import Tensor

from backend.measure import fused
from backend.measure.fused import Scores
from backend.measure.pooling import edges, pool_last, pool_map, pool_rows, strongest_change
from backend.measure.seen import OFFSETS, Marks, Seen, seen
from backend.measure.statistics import CLARK_KEPT, Means, statistics, surprise
from backend.schema.view import Reading

SINGLE = ("entropy", "previous", "next", "self", "first", "mass")
"""What is gathered row by row; the rest are sums over keys."""
TINY = 1e-30
"""A probability below it adds nothing to an entropy that float32 could show."""
BLOCK_BYTES = {"cpu": 2 << 20, "cuda": 128 << 20}
"""Size of a block: the processor's cache, or enough to fill a graphics card."""


class Maps(Protocol):
    """The maps of one layer, given block by block: whoever computes them on the way never needs T x S of them."""

    @property
    def heads(self) -> int: ...

    @property
    def scores(self) -> Scores | None:
        """What the weights are the softmax of, where that is known: then `fused` needs no maps at all."""
        ...

    def block(self, start: int, end: int, low: int, high: int) -> Tensor:
        """float32 [H, end - start, high - low]: query rows [start, end) on the keys [low, high); others are hidden."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """Maps that are there anyway."""

    maps_HTS: Tensor

    @property
    def heads(self) -> int:
        """H."""
        return self.maps_HTS.shape[0]

    @property
    def scores(self) -> None:
        """Not needed: the maps are there."""

    def block(self, start: int, end: int, low: int, high: int) -> Tensor:
        """A cut-out, not a copy."""
        return self.maps_HTS[:, start:end, low:high]


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is left of a layer's maps; of several layers' that were reduced together, with an axis L before H."""

    cells_HQK: Tensor | None
    """float32 thumbnails."""
    rows: dict[str, Tensor]
    """By statistic [H, T]; scratch memory of the reducer unless they were asked to last."""
    facts: Seen


class Reducer:
    """Reduces the maps of one text, layer after layer, in the same scratch memory."""

    def __init__(self, tokens: int, marks: Marks, reading: Reading, cells: int | None, sinks: bool = False) -> None:
        """`cells` a side of a thumbnail; None: no thumbnails. `sinks`: rows sum to less than one by design."""
        self.tokens, self.reading, self.sinks = tokens, reading, sinks
        self.clark = reading.definitions == "clark"
        self.marks = (
            Marks(torch.ones_like(marks.rows_T), marks.separators_S, marks.punctuation_S) if self.clark else marks
        )
        self.borders = None if cells is None else edges(tokens, cells)
        self._seen: dict[int, tuple[Tensor | None, Seen]] = {}
        self._scratch: dict[str, Tensor] = {}
        self._kept_kinds: dict[tuple[int, int, int], Tensor] = {}
        self._ends_T: dict[int, Tensor] = {}
        self._sees_2T: dict[int, Tensor] = {}
        self._marks_2S: Tensor | None = None

    def sees(self, mask_TS: Tensor | None) -> Seen:
        """The facts of a mask, read once for all layers that share it."""
        key = 0 if mask_TS is None else mask_TS.data_ptr()
        if key not in self._seen:
            self._seen[key] = (mask_TS, seen(mask_TS, self.tokens, self.marks, self.reading.without_first))
        return self._seen[key][1]

    def reduce(self, maps: Maps, mask_TS: Tensor | None, lasting: bool = False) -> Reduced:
        """Thumbnails and statistics of one layer's maps; `lasting` rows are not overwritten by the next layer."""
        facts, heads, like = self.sees(mask_TS), maps.heads, self.marks.rows_T
        if (scores := maps.scores) is not None and self.may_fuse(scores, facts):
            return self._fused(scores, mask_TS)
        if lasting:
            single = torch.zeros(len(SINGLE), heads, self.tokens, device=like.device)
            kinds_HTK = torch.zeros(heads, self.tokens, 4, device=like.device)
        else:
            single = self._buffer("single", (len(SINGLE), heads, self.tokens), like).zero_()
            kinds_HTK = self._buffer("sums", (heads, self.tokens, 4), like).zero_()
        rows = dict(zip(SINGLE, single, strict=True))
        wide_HQS = None
        if self.borders is not None:
            wide_HQS = self._buffer("wide", (heads, len(self.borders) - 1, self.tokens), like).zero_()
        for start, end, borders in self._blocks(heads):
            low, high = _span(facts, start, end)
            if high <= low:
                continue
            block_HTS = self._block(maps.block(start, end, low, high), start, end, rows)
            self._measure(block_HTS, start, end, low, high, facts, rows, kinds_HTK)
            if wide_HQS is not None and self.borders is not None:
                first = self.borders.index(start)
                pool_rows(
                    block_HTS, borders, self.reading.pool, wide_HQS[:, first : first + len(borders) - 1, low:high]
                )
        cells_HQK = None if wide_HQS is None else self._cells(wide_HQS, mask_TS)
        return Reduced(cells_HQK, rows | self._sums(kinds_HTK, facts), facts)

    def may_fuse(self, scores: Scores | None, facts: Seen) -> bool:
        """Whether these statistics can be had from queries and keys, without maps."""
        plain = facts.between and not (self.reading.without_first or self.clark or self.sinks)
        return plain and scores is not None and fused.fits(scores, self._fused_cells())

    def _fused_cells(self) -> int:
        return -(-self.tokens // fused.ROWS_AT_ONCE) if self.borders is None else len(self.borders) - 1

    def together(self, layers: Sequence[Scores], mask_TS: Tensor | None) -> Reduced:
        """Layers that `may_fuse`, of one mask, shape, scale and cap: one start of the kernel for all."""
        found = self._fused(fused.together(layers), mask_TS)
        apart = (len(layers), -1)
        cells_LHQK = None if found.cells_HQK is None else found.cells_HQK.unflatten(0, apart)
        return Reduced(cells_LHQK, {name: row.unflatten(0, apart) for name, row in found.rows.items()}, found.facts)

    def _fused(self, scores: Scores, mask_TS: Tensor | None) -> Reduced:
        facts = self.sees(mask_TS)
        if id(facts) not in self._sees_2T:
            spans = torch.tensor([facts.low, facts.high], dtype=torch.int32)
            self._sees_2T[id(facts)] = spans.to(self.marks.rows_T.device)
        if self._marks_2S is None:
            self._marks_2S = torch.stack([self.marks.separators_S, self.marks.punctuation_S]).float()
        rows, cells_HQK = fused.reduce(
            scores, self._sees_2T[id(facts)], self._marks_2S, self._fused_cells(), pool=self.reading.pool
        )
        if self.borders is None:
            return Reduced(None, rows, facts)
        divide = self.reading.pool == "mean"
        return Reduced(cells_HQK / self._visible_cells(mask_TS) if divide else cells_HQK, rows, facts)

    def means(self, layers: Sequence[Reduced]) -> list[dict[str, Means]]:
        """The statistics of these layers, each [L, H]; one table for each run of layers that share their mask."""
        found = []
        for _, group in groupby(layers, key=lambda layer: id(layer.facts)):
            together = list(group)
            rows = {name: by_layer([layer.rows[name] for layer in together], 2) for name in together[0].rows}
            facts = together[0].facts
            found.append(statistics(rows, facts, self.marks.rows_T, self.reading, sinks=self.sinks))
        return found

    def change(self, edited: Maps, unedited: Maps, mask_TS: Tensor | None) -> Tensor:
        """Thumbnails of edited − unedited.

        With max pooling a cell shows its largest change with its sign; with mean pooling the mean over visible pairs.
        """
        assert self.borders is not None
        facts, heads, like = self.sees(mask_TS), edited.heads, self.marks.rows_T
        cells_HQK = torch.zeros(heads, len(self.borders) - 1, len(self.borders) - 1, device=like.device)
        for start, end, borders in self._blocks(heads):
            low, high = _span(facts, start, end)
            if high <= low:
                continue
            change = torch.zeros(heads, end - start, self.tokens, device=like.device)
            blocks = [self._divided(side.block(start, end, low, high)) for side in (edited, unedited)]
            change[:, :, low:high] = blocks[0] - blocks[1]
            first = self.borders.index(start)
            cells_HQK[:, first : first + len(borders) - 1] = (
                strongest_change(change, borders, self.borders)
                if self.reading.pool == "max"
                else pool_map(change, borders, self.borders, "mean")
            )
        if self.reading.pool == "mean":
            cells_HQK /= self._visible_cells(mask_TS)
        return cells_HQK

    def apart(self, one: Maps, other: Maps, mask_TS: Tensor | None) -> float:
        """The largest difference of any weight."""
        facts = self.sees(mask_TS)
        most = torch.zeros((), device=self.marks.rows_T.device)
        for start, end, _ in self._blocks(one.heads):
            low, high = _span(facts, start, end)
            if high > low:
                change = one.block(start, end, low, high) - other.block(start, end, low, high)
                most = torch.maximum(most, change.abs().max())
        return float(most)

    def _divided(self, block_HTS: Tensor) -> Tensor:
        if not self.reading.without_first:
            return block_HTS
        mass_HT = block_HTS.sum(-1, keepdim=True)
        return block_HTS / torch.where(mass_HT > 0, mass_HT, 1.0)

    def _blocks(self, heads: int) -> Iterator[tuple[int, int, list[int]]]:
        """(first row, end row, borders of its cells from 0): blocks end where a cell ends."""
        most = max(1, BLOCK_BYTES.get(self.marks.rows_T.device.type, 2 << 20) // (4 * heads * self.tokens))
        borders = self.borders or [*range(0, self.tokens, most), self.tokens]
        start = 0
        while start < len(borders) - 1:
            end = start + 1
            while end < len(borders) - 1 and borders[end + 1] - borders[start] <= most:
                end += 1
            yield borders[start], borders[end], [border - borders[start] for border in borders[start : end + 1]]
            start = end

    def _buffer(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        size = 1
        for length in shape:
            size *= length
        held = self._scratch.get(name)
        if held is None or held.numel() < size:
            held = self._scratch[name] = torch.empty(size, dtype=torch.float32, device=like.device)
        return held[:size].view(shape)

    def _block(self, block_HTS: Tensor, start: int, end: int, rows: dict[str, Tensor]) -> Tensor:
        """The block of rows as it is read; without the first key, divided by the mass that is left."""
        if not self.reading.without_first:
            return block_HTS
        mass_HT = block_HTS.sum(-1)
        rows["mass"][:, start:end] = mass_HT
        divided = self._buffer("divided", block_HTS.shape, block_HTS)
        return torch.div(block_HTS, torch.where(mass_HT > 0, mass_HT, 1.0)[..., None], out=divided)

    def _measure(
        self, block_HTS: Tensor, start: int, end: int, low: int, high: int, facts: Seen, rows: dict[str, Tensor],
        kinds_HTK: Tensor,
    ) -> None:  # fmt: skip
        rows["entropy"][:, start:end] = self._entropy(block_HTS)
        for name, offset in OFFSETS.items():
            _take_diagonal(block_HTS, start, low, offset, rows[name])
        if low == 0:
            rows["first"][:, start:end] = block_HTS[:, :, 0]
        kinds_KS = self._kinds(low, high, end, block_HTS)
        kinds_HTK[:, start:end] = torch.bmm(block_HTS, kinds_KS.T.expand(block_HTS.shape[0], -1, -1))
        if not facts.backward:
            queries_T = torch.arange(start, end, device=block_HTS.device)
            apart_TS = (queries_T[:, None] - torch.arange(low, high, device=block_HTS.device)).abs()
            scratch = self._buffer("block", block_HTS.shape, block_HTS)
            kinds_HTK[:, start:end, 3] = torch.mul(block_HTS, apart_TS, out=scratch).sum(-1)

    def _sums(self, kinds_HTK: Tensor, facts: Seen) -> dict[str, Tensor]:
        """What was summed with the weights of `_kinds`, by name."""
        distance_HT = kinds_HTK[..., 3]
        if facts.backward:  # i − j = (end − j) − (end − i), each without cancellation
            distance_HT = distance_HT - kinds_HTK[..., 0] * self._to_end(kinds_HTK)
        named = dict(zip(("sum", "separators", "punctuation"), kinds_HTK.unbind(-1), strict=False))
        return named | {"distance": distance_HT}

    def _to_end(self, kinds_HTK: Tensor) -> Tensor:
        """Of each row, how far the end of its block lies ahead: float32 [T]."""
        heads = len(kinds_HTK)
        if heads not in self._ends_T:
            ends = [end - row for start, end, _ in self._blocks(heads) for row in range(start, end)]
            self._ends_T[heads] = torch.tensor(ends, dtype=torch.float32, device=kinds_HTK.device)
        return self._ends_T[heads]

    def _entropy(self, block_HTS: Tensor) -> Tensor:
        """−Σ p ln p of each row, in nats; smoothed over all keys of the text for `clark`."""
        scratch = self._buffer("block", block_HTS.shape, block_HTS)
        if not self.clark:
            torch.clamp(block_HTS, min=TINY, out=scratch).log_().mul_(block_HTS)
            return -scratch.sum(-1)
        floor = (1 - CLARK_KEPT) / self.tokens
        smooth = self._buffer("smooth", block_HTS.shape, block_HTS)
        torch.mul(block_HTS, CLARK_KEPT, out=smooth).add_(floor)
        torch.log(smooth, out=scratch).mul_(smooth)
        unseen = self.tokens - block_HTS.shape[-1]
        return -scratch.sum(-1) + unseen * surprise(floor)

    def _kinds(self, low: int, high: int, end: int, like: Tensor) -> Tensor:
        """Weights of the keys [low, high): one, separator, punctuation, distance from the block's end."""
        if (kept := self._kept_kinds.get((low, high, end))) is not None:
            return kept
        kinds_KS = torch.empty(4, high - low, device=like.device)
        kinds_KS[0] = 1.0
        kinds_KS[1] = self.marks.separators_S[low:high]
        kinds_KS[2] = self.marks.punctuation_S[low:high]
        kinds_KS[3] = end - torch.arange(low, high, device=like.device)
        if like.is_cuda:  # there a launch costs more than the memory
            self._kept_kinds[low, high, end] = kinds_KS
        return kinds_KS

    def _cells(self, wide_HQS: Tensor, mask_TS: Tensor | None) -> Tensor:
        assert self.borders is not None
        cells_HQK = pool_last(wide_HQS, self.borders, self.reading.pool)
        return cells_HQK.clone() if self.reading.pool == "max" else cells_HQK / self._visible_cells(mask_TS)

    def _visible_cells(self, mask_TS: Tensor | None) -> Tensor:
        """How many visible pairs each cell has; 1 where it has none."""
        assert self.borders is not None
        if mask_TS is None:
            mask_TS = torch.ones(self.tokens, self.tokens, device=self.marks.rows_T.device, dtype=torch.bool)
        if self.reading.without_first:
            mask_TS = mask_TS.clone()
            mask_TS[:, 0] = False
        return pool_map(mask_TS.float(), self.borders, self.borders, "mean").clamp_(min=1)


def by_layer(parts: Sequence[Tensor], axes: int) -> Tensor:
    """Parts of one layer, which have so many axes, and of several, which have one more, joined along L."""
    whole = [part if part.ndim > axes else part[None] for part in parts]
    return torch.cat(whole) if len(whole) > 1 else whole[0]


def _span(facts: Seen, start: int, end: int) -> tuple[int, int]:
    """The keys that any of these rows sees, as [low, high)."""
    pairs = [(facts.low[row], facts.high[row]) for row in range(start, end) if facts.high[row] > facts.low[row]]
    return (min(low for low, _ in pairs), max(high for _, high in pairs)) if pairs else (0, 0)


def _take_diagonal(block_HTS: Tensor, start: int, low: int, offset: int, into_HT: Tensor) -> None:
    """Copy the weights of keys query + offset from a block of rows from `start` and keys from `low`."""
    place = start - low + offset
    if -place >= block_HTS.shape[1] or place >= block_HTS.shape[2]:
        return
    values_HT = block_HTS.diagonal(place, 1, 2)
    first = start + max(0, -place)
    into_HT[:, first : first + values_HT.shape[1]] = values_HT
