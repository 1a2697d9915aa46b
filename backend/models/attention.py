"""The attention and heads instruments: every head of a view at a glance.

Edited, unedited and their difference come from rows of one batch. Axes: B rows, L layers, H heads, T queries, S keys,
Q and K cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from backend.measure.array import sqrt_bytes, to_array, to_i1
from backend.measure.attention import Maps, Reduced, Reducer, Whole, by_layer
from backend.measure.definitions import STATISTICS, definition
from backend.measure.pile import Pile
from backend.measure.statistics import NAMES, SINK, Means
from backend.models import forward
from backend.models.asking import STEPS_OF_NOISE, Asked, ask_model, least_noise
from backend.models.cost import heads_bytes, overview_bytes
from backend.models.induction import induction
from backend.models.kernel import Call
from backend.models.loaded import Loaded, calls_bytes
from backend.models.naming import first_layer
from backend.models.one_head import head, head_bytes
from backend.models.recomputed import Recomputed
from backend.models.taps import Cancel
from backend.schema import HeadMaps, HeadsAnswer, HeadsAsk, Limits, Overview, OverviewAsk, Statistic
from backend.schema.limits import THUMBNAIL_CELLS, THUMBNAIL_CELLS_MANY, THUMBNAIL_HEADS
from backend.schema.view import Reading

__all__ = ["head", "head_bytes", "heads", "heads_bytes", "overview", "overview_bytes"]

FIELDS = ("value_H", "uniform_H", "rows_H")
SIDES = ("edited", "unedited", "difference")
KEPT_BY_OVERVIEW = 8 * 1024 * 1024
"""An overview keeps the inputs of every layer for the next click only when they are no more than this."""


def overview(loaded: Loaded, ask: OverviewAsk, limits: Limits, cancel: Cancel | None = None) -> Overview:
    """Thumbnails and statistics of every head. Raises `BadQuestion`, `TooLong` or `CannotShow` before any forward."""
    asked = ask_model(loaded, ask.view, limits)
    cells = min(asked.tokens, ask.cells or default_cells(loaded))
    gathered = _gather(loaded, asked, cells, cancel)
    tables = [_table(loaded, side.means, cancel) for side in gathered.sides]
    noise = _noise(loaded, asked, gathered)
    sides = [
        HeadMaps(maps=to_array(_bytes(by_layer(side.cells, 3))), statistics=_statistics(table, ask.view.reading))
        for side, table in zip(gathered.sides, tables, strict=True)
    ]
    if asked.compared:
        maps, scale = to_i1(torch.stack(gathered.changes), noise)
        changes = _statistics(_change(*tables), ask.view.reading, _statistic_noise(tables))
        sides.append(HeadMaps(maps=maps, scale=scale, statistics=changes))
    named: dict[str, Any] = dict(zip(SIDES, sides, strict=False))
    return Overview(
        **_facts(loaded, asked, gathered), cells=(cells, cells), pooled=cells < asked.tokens, noise=noise, **named
    )


def heads(loaded: Loaded, ask: HeadsAsk, limits: Limits, cancel: Cancel | None = None) -> HeadsAnswer:
    """Statistics of every head, without the maps. Raises as `overview`."""
    asked = ask_model(loaded, ask.view, limits)
    gathered = _gather(loaded, asked, None, cancel)
    tables = [_table(loaded, side.means, cancel) for side in gathered.sides]
    sides = [_statistics(table, ask.view.reading) for table in tables]
    if asked.compared:
        sides.append(_statistics(_change(*tables), ask.view.reading, _statistic_noise(tables)))
    named: dict[str, Any] = dict(zip(SIDES, sides, strict=False))
    return HeadsAnswer(**_facts(loaded, asked, gathered), noise=_noise(loaded, asked, gathered), **named)


def _facts(loaded: Loaded, asked: Asked, gathered: _Gathered) -> dict[str, Any]:
    """What both answers say about the model, the text and the rows."""
    shape = loaded.anatomy.shape
    used = max(int(means["entropy"].rows_H.max()) for means in gathered.sides[0].means)
    return {
        "conditions": loaded.conditions, "ids": asked.read.ids, "layers": tuple(gathered.layers),
        "heads": shape.heads, "kv_heads": shape.kv_heads, "causal": shape.causal, "tokens": asked.tokens,
        "rows_used": used, "rows_left_out": asked.tokens - used, "reading": asked.view.reading,
        "notices": asked.notices + _left_out(loaded),
    }  # fmt: skip


def default_cells(loaded: Loaded) -> int:
    """Cells a side of one thumbnail: fewer when there are many heads."""
    shape = loaded.anatomy.shape
    many = len(shape.attention_layers) * shape.heads > THUMBNAIL_HEADS
    return THUMBNAIL_CELLS_MANY if many else THUMBNAIL_CELLS


@dataclass
class _Side:
    """One row of the batch, layer by layer."""

    cells: list[Tensor] = field(default_factory=list)
    """[H, Q, K] of each layer, or [L, H, Q, K] of several: uint8, or float32 where the bytes are made in the end."""
    means: list[dict[str, Means]] = field(default_factory=list)
    reduced: list[Reduced] = field(default_factory=list)
    """Layers whose statistics are still to be taken, together: many small steps are slow on a graphics card."""

    def take(self, found: list[Reduced]) -> None:
        """Layers that are reduced by now."""
        self.reduced += found
        self.cells += [reduced.cells_HQK for reduced in found if reduced.cells_HQK is not None]


@dataclass
class _Gathered:
    sides: list[_Side]
    layers: list[int] = field(default_factory=list)
    changes: list[Tensor] = field(default_factory=list)
    """float32 [H, Q, K] of each layer, edited − unedited."""
    noise: float = 0.0
    """The largest change of any weight in the layers before any edit acts."""
    calls: dict[int, Call] = field(default_factory=dict)


def _gather(loaded: Loaded, asked: Asked, cells: int | None, cancel: Cancel | None) -> _Gathered:
    """One forward pass; every layer's maps are reduced while they are there and then forgotten."""
    reducer = Reducer(asked.tokens, asked.marks, asked.view.reading, cells, loaded.anatomy.sinks)
    gathered = _Gathered([_Side() for _ in asked.rows])
    first = first_layer(asked.view.active_edits, loaded.anatomy.shape.layers)

    def reduce(call: Call, maps: list[Maps]) -> None:
        mask_TS = None if call.mask_BTS is None else call.mask_BTS[0, 0]
        gathered.layers.append(call.layer)
        untouched = asked.compared and call.same_rows
        for place, (side, layer) in enumerate(zip(gathered.sides, maps, strict=True)):
            if piles:  # there one program reduces a row the same way each time
                side.take(piles[place].add(layer, mask_TS))
                continue
            # Equal maps are reduced once: two sums of the same numbers may differ in their last digits.
            if not (untouched and place):
                reduced = reducer.reduce(layer, mask_TS)
            side.means += reducer.means([reduced])
            if reduced.cells_HQK is not None:
                side.cells.append(sqrt_bytes(reduced.cells_HQK))
        if asked.compared and cells is not None:
            gathered.changes.append(reducer.change(maps[0], maps[1], mask_TS))
        if asked.compared and not untouched and call.layer <= first:
            gathered.noise = max(gathered.noise, reducer.apart(maps[0], maps[1], mask_TS))

    def see(call: Call, maps_BHTS: Tensor) -> None:
        reduce(call, [Whole(maps_HTS) for maps_HTS in maps_BHTS])

    def hold(call: Call) -> None:
        if keep:
            gathered.calls[call.layer] = call
        if loaded.fused:
            reduce(call, [Recomputed(call.row(place), loaded.reduces) for place in range(len(asked.rows))])

    size = _call_bytes(loaded, asked)
    keep = size <= min(KEPT_BY_OVERVIEW, loaded.kept.budget) and not loaded.anatomy.watched
    on_card = loaded.anatomy.device.type == "cuda" or loaded.reduces
    piles = [Pile(reducer) for _ in asked.rows] if on_card else []
    states_BTD = forward.run(
        loaded, asked.ids_BT, asked.plan, types_BT=asked.types_BT, cancel=cancel, checked=False,
        see=None if loaded.fused else see, hold=hold if keep or loaded.fused else None,
    )  # fmt: skip
    for side, pile in zip(gathered.sides, piles, strict=False):
        side.take(pile.rest())
        side.means += reducer.means(side.reduced)
    forward.check_finite(states_BTD, edited=asked.plan is not None)  # now, while a card still reduces
    if keep:
        loaded.kept.keep(asked.states_key(), gathered.calls, calls_bytes(gathered.calls))
    return gathered


def _bytes(cells_LHQK: Tensor) -> Tensor:
    return cells_LHQK if cells_LHQK.dtype == torch.uint8 else sqrt_bytes(cells_LHQK)


def _call_bytes(loaded: Loaded, asked: Asked) -> int:
    shape = loaded.anatomy.shape
    each = (shape.heads + 2 * shape.kv_heads) * shape.head_width * loaded.model.dtype.itemsize
    return len(asked.rows) * asked.tokens * each * len(shape.attention_layers)


def _table(loaded: Loaded, parts: list[dict[str, Means]], cancel: Cancel | None) -> dict[str, Means]:
    """The statistics of one side, each as [L, H], on the CPU: moved there at once."""
    names = [*NAMES, SINK] if loaded.anatomy.sinks else NAMES
    joined = [
        by_layer([getattr(part[name], field) for part in parts], 1).double() for name in names for field in FIELDS
    ]
    moved = torch.stack(joined).cpu().unflatten(0, (len(names), len(FIELDS)))
    table = {
        name: Means(value_LH, uniform_LH, rows_LH.long())
        for name, (value_LH, uniform_LH, rows_LH) in zip(names, moved, strict=True)
    }
    scores = induction(loaded, cancel)
    return table | {"induction": _stacked([scores[layer] for layer in loaded.anatomy.shape.attention_layers])}


def _stacked(layers: list[Means]) -> Means:
    return Means(*(torch.stack([getattr(layer, field) for layer in layers]) for field in FIELDS))


def _change(edited: dict[str, Means], unedited: dict[str, Means]) -> dict[str, Means]:
    """Edited − unedited; n/a where either is. Induction is not measured under edits, so its change is n/a."""
    table = {}
    for name, one in edited.items():
        other = unedited[name]
        value = one.value_H - other.value_H if name != "induction" else torch.full_like(one.value_H, torch.nan)
        table[name] = Means(value, one.uniform_H - other.uniform_H, torch.minimum(one.rows_H, other.rows_H))
    return table


def _statistic_noise(sides: list[dict[str, Means]]) -> dict[str, float]:
    """What a statistic may differ by where nothing was edited: a few steps of float32 at its largest value."""
    step = STEPS_OF_NOISE * torch.finfo(torch.float32).eps
    return {name: step * max(float(side[name].value_H.nan_to_num().abs().max()) for side in sides) for name in sides[0]}


def _statistics(
    table: dict[str, Means], reading: Reading, noises: Mapping[str, float] = MappingProxyType({})
) -> tuple[Statistic, ...]:
    return tuple(
        Statistic(
            name=name, label=STATISTICS[name].label, unit=STATISTICS[name].unit, definition=definition(name, reading),
            value=to_array(means.value_H), uniform=to_array(means.uniform_H), rows=to_array(means.rows_H),
            noise=noises.get(name, 0.0),
        )
        for name, means in table.items()
    )  # fmt: skip


def _noise(loaded: Loaded, asked: Asked, gathered: _Gathered) -> float:
    """What maps differ by where they should not: as measured at load, and here in the layers before any edit acts."""
    if not asked.compared:
        return 0.0
    return max(least_noise(loaded), gathered.noise)


def _left_out(loaded: Loaded) -> tuple[str, ...]:
    shape = loaded.anatomy.shape
    absent = [layer for layer in range(shape.layers) if layer not in shape.attention_layers]
    if not absent:
        return ()
    return (f"Layers without attention are left out: {', '.join(map(str, absent))}.",)
