"""One head exactly, or the mean of several: from the kept inputs of its layer, with a forward pass only without them.

Axes: B rows (edited, then unedited), T queries, S keys, H heads, G key/value heads, D head width.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.measure.array import to_array
from backend.measure.head import row_entropy, strongest, strongest_of, uniform_entropy
from backend.measure.pooling import edges, pool_map, strongest_change
from backend.models import forward
from backend.models.asking import Asked, ask_model, least_noise
from backend.models.checks import check_head
from backend.models.cost import head_bytes
from backend.models.kernel import Call
from backend.models.loaded import Loaded, calls_bytes
from backend.models.plan import Plan
from backend.models.taps import Cancel
from backend.schema import HeadAnswer, HeadAsk, HeadName, HeadSide, Limits, Link, Region

__all__ = ["head", "head_bytes"]

ROWS_BYTES = 32 * 1024 * 1024
"""Query rows are computed in blocks whose scores take about this much."""
MEAN_OF_SEVERAL = "Every number is of the mean map of the chosen heads: its entropy is not the mean of their entropies."
DIFFERENT_KEYS = (
    "The chosen heads may see different keys (their windows differ): n counts the keys that any of them may see, "
    "so uniform attention of every head would stay below ln n."
)
WEIGHTED = (
    "Value-weighted: attention times the norm of v W_O, what a key really adds to the stream before any later norm; "
    "the entropies are of the attention itself."
)


def head(loaded: Loaded, ask: HeadAsk, limits: Limits, cancel: Cancel | None = None) -> HeadAnswer:
    """One head, or the mean of several. Raises `BadQuestion`, `TooLong` or `CannotShow` before any forward."""
    asked = ask_model(loaded, ask.view, limits)
    chosen = tuple(dict.fromkeys(ask.heads))
    for name in chosen:
        check_head(loaded.anatomy, name.layer, name.head)
    region = _region(ask, asked.tokens)
    _check_weighted(loaded, asked, chosen)
    calls = _calls(loaded, asked, {name.layer for name in chosen}, cancel)
    exact = _exact(loaded, asked, calls, chosen, cancel)
    return _answer(loaded, ask, asked, chosen, region, exact)


@dataclass(frozen=True, slots=True)
class _Exact:
    """The mean map of the chosen heads, on every side."""

    shown_BTS: Tensor
    """What the map shows: probabilities, or value-weighted norms."""
    attention_BTS: Tensor
    """Probabilities."""
    visible_TS: Tensor
    """bool: keys that any of the heads may see."""
    same_keys: bool
    """Whether all of the heads may see the same keys."""


def _region(ask: HeadAsk, tokens: int) -> Region:
    region = ask.region or Region(q0=0, q1=tokens, k0=0, k1=tokens)
    if max(region.q1, region.k1) > tokens:
        raise errors.CannotShow(
            "The region lies outside the map",
            f"it reaches to token {max(region.q1, region.k1) - 1}, and the text has {tokens} tokens, counted from 0",
            "Zoom out, or choose a region inside the text.",
            needed=max(region.q1, region.k1), available=tokens,
        )  # fmt: skip
    if ask.token is not None and ask.token >= tokens:
        raise errors.CannotShow(
            f"There is no token {ask.token}", f"the text has {tokens} tokens, counted from 0 to {tokens - 1}",
            "Choose a token of the text.", needed=ask.token + 1, available=tokens,
        )  # fmt: skip
    return region


def _check_weighted(loaded: Loaded, asked: Asked, chosen: tuple[HeadName, ...]) -> None:
    if not asked.view.reading.weighted:
        return
    for name in chosen:
        if loaded.anatomy.output_matrix(name.layer) is None:
            raise errors.CannotShow(
                f"The value-weighted map of head {name} cannot be shown",
                f"no plain output matrix was found after the attention of layer {name.layer}",
                "Look at the attention itself.",
            )


def _calls(loaded: Loaded, asked: Asked, layers: set[int], cancel: Cancel | None) -> dict[int, Call]:
    """The kernel's arguments of these layers: kept ones, or those of a new forward pass, which are then kept."""
    key = asked.states_key()
    found: dict[int, Call] = loaded.kept.find(key) or {}
    if layers <= found.keys():
        return found
    shape = loaded.anatomy.shape
    each = (shape.heads + 2 * shape.kv_heads) * shape.head_width * loaded.model.dtype.itemsize
    each = asked.tokens * shape.heads * 4 if loaded.anatomy.watched else each  # whole maps
    fits = len(asked.rows) * asked.tokens * each * len(shape.attention_layers) <= loaded.kept.budget
    calls: dict[int, Call] = {}

    def hold(call: Call) -> None:
        if fits or call.layer in layers:
            calls[call.layer] = call

    forward.run(loaded, asked.ids_BT, asked.plan, types_BT=asked.types_BT, hold=hold, cancel=cancel)
    loaded.kept.keep(key, calls, calls_bytes(calls))
    return calls


def _exact(
    loaded: Loaded, asked: Asked, calls: dict[int, Call], chosen: tuple[HeadName, ...], cancel: Cancel | None
) -> _Exact:
    heads_of: dict[int, list[int]] = defaultdict(list)
    for name in chosen:
        heads_of[name.layer].append(name.head)
    weighted = asked.view.reading.weighted
    total_BTS: Tensor | None = None
    shown_BTS: Tensor | None = None
    visible_TS = torch.zeros(asked.tokens, asked.tokens, dtype=torch.bool, device=loaded.anatomy.device)
    common_TS = ~visible_TS
    with torch.inference_mode():
        for layer, heads in heads_of.items():
            call = calls[layer]
            mask_TS = True if call.mask_BTS is None else call.mask_BTS[0, 0].to(visible_TS.device)
            visible_TS |= mask_TS
            common_TS &= mask_TS
            norms_BHTS = _norms(loaded, asked.plan, call, heads) if weighted else None
            for start, end in _row_blocks(call):
                if cancel is not None:
                    cancel()
                block_BHTS = call.maps(start, end)[:, heads].to(visible_TS.device)
                if asked.view.reading.without_first:
                    block_BHTS = _without_first(block_BHTS)
                total_BTS = _add(total_BTS, block_BHTS, start, end, asked.tokens)
                if norms_BHTS is not None:
                    shown_BTS = _add(shown_BTS, block_BHTS * norms_BHTS[:, :, start:end], start, end, asked.tokens)
    assert total_BTS is not None
    same_keys = torch.equal(visible_TS, common_TS)
    if asked.view.reading.without_first:
        visible_TS[:, 0] = False
    attention_BTS = total_BTS / len(chosen)
    shown_BTS = attention_BTS if shown_BTS is None else shown_BTS / len(chosen)
    return _Exact(shown_BTS, attention_BTS, visible_TS, same_keys)


def _add(total_BTS: Tensor | None, block_BHTS: Tensor, start: int, end: int, tokens: int) -> Tensor:
    if total_BTS is None:
        total_BTS = block_BHTS.new_zeros(block_BHTS.shape[0], tokens, tokens)
    total_BTS[:, start:end] += block_BHTS.sum(1)
    return total_BTS


def _without_first(block_BHTS: Tensor) -> Tensor:
    kept = block_BHTS.clone()
    kept[..., 0] = 0
    mass = kept.sum(-1, keepdim=True)
    return kept / torch.where(mass > 0, mass, 1.0)


def _row_blocks(call: Call) -> list[tuple[int, int]]:
    """Blocks of query rows; one block when an argument depends on the query in a way we do not know."""
    rows, heads, tokens = call.query_BHTD.shape[:3]
    size = tokens if not call.divisible else max(1, ROWS_BYTES // (4 * rows * heads * call.key_BGSD.shape[2]))
    return [(start, min(start + size, tokens)) for start in range(0, tokens, size)]


def _norms(loaded: Loaded, plan: Plan | None, call: Call, heads: list[int]) -> Tensor:
    """‖v W_O‖ of every key, times what the view's edits do to the head's output at each query: [B, H, T, S]."""
    matrix = loaded.anatomy.output_matrix(call.layer)
    assert matrix is not None, "checked before the forward"
    value_BGSD = call.value_BGSD.float()
    width, groups = value_BGSD.shape[-1], value_BGSD.shape[1]
    share = loaded.anatomy.shape.heads // groups
    norms = []
    for number in heads:
        written_BSM = value_BGSD[:, number // share] @ matrix[number * width : (number + 1) * width].float()
        norms.append(written_BSM.norm(dim=-1))
    norms_BHS = torch.stack(norms, 1)[:, :, None].to(loaded.anatomy.device)
    table = None if plan is None else plan.tables.get(f"heads.{call.layer}")
    if plan is None or table is None:
        return norms_BHS.expand(-1, -1, call.query_BHTD.shape[2], -1)
    scale_RH = torch.ones(len(table.scale_RN), loaded.anatomy.shape.heads, device=table.scale_RN.device)
    scale_RH[:, table.parts_N] = table.scale_RN
    scale_BTH = scale_RH.to(plan.row_BT.device)[plan.row_BT][..., heads].abs()
    return norms_BHS * scale_BTH.transpose(1, 2)[..., None]


def _answer(
    loaded: Loaded, ask: HeadAsk, asked: Asked, chosen: tuple[HeadName, ...], region: Region, exact: _Exact
) -> HeadAnswer:
    reading = ask.view.reading
    clark = reading.definitions == "clark"
    n_T = exact.visible_TS.sum(-1)
    queries, keys = edges(region.q1 - region.q0, ask.cells), edges(region.k1 - region.k0, ask.cells)
    entropies = [row_entropy(map_TS, n_T, clark, loaded.anatomy.sinks) for map_TS in exact.attention_BTS]
    sides = [
        _side(shown_TS, entropy_T, _picture(shown_TS, exact.visible_TS, region, queries, keys, reading.pool), ask)
        for shown_TS, entropy_T in zip(exact.shown_BTS, entropies, strict=True)
    ]
    noise = 0.0
    if asked.compared:
        change_TS = exact.shown_BTS[0] - exact.shown_BTS[1]
        noise = least_noise(loaded)
        picture = _change_picture(change_TS, exact.visible_TS, region, queries, keys, reading.pool)
        sides.append(_side(change_TS, entropies[0] - entropies[1], picture, ask))
    cells = (len(queries) - 1, len(keys) - 1)
    notices = asked.notices + (MEAN_OF_SEVERAL,) * (len(chosen) > 1) + (WEIGHTED,) * reading.weighted
    notices += (DIFFERENT_KEYS,) * (not exact.same_keys)
    named: dict[str, Any] = dict(zip(("edited", "unedited", "difference"), sides, strict=False))
    return HeadAnswer(
        conditions=loaded.conditions, ids=asked.read.ids, heads=chosen, region=region, cells=cells,
        pooled=cells != (region.q1 - region.q0, region.k1 - region.k0), reading=reading,
        unit="norm" if reading.weighted else "probability", token=ask.token,
        uniform_entropy=to_array(uniform_entropy(n_T, asked.tokens, clark)), visible=to_array(n_T), noise=noise,
        notices=notices, **named,
    )  # fmt: skip


def _picture(
    shown_TS: Tensor, visible_TS: Tensor, region: Region, queries: list[int], keys: list[int], pool: str
) -> Tensor:
    cut = (slice(region.q0, region.q1), slice(region.k0, region.k1))
    if pool == "max":
        return pool_map(shown_TS[cut], queries, keys, "max")
    pairs = pool_map(visible_TS[cut].float(), queries, keys, "mean").clamp(min=1)
    return pool_map(shown_TS[cut], queries, keys, "mean") / pairs


def _change_picture(
    change_TS: Tensor, visible_TS: Tensor, region: Region, queries: list[int], keys: list[int], pool: str
) -> Tensor:
    if pool == "max":
        return strongest_change(change_TS[region.q0 : region.q1, region.k0 : region.k1], queries, keys)
    return _picture(change_TS, visible_TS, region, queries, keys, pool)


def _side(shown_TS: Tensor, entropy_T: Tensor, picture: Tensor, ask: HeadAsk) -> HeadSide:
    drawn = strongest(shown_TS, ask.links)
    looks_at = looked_at_by = None
    links_out: tuple[Link, ...] = ()
    links_in: tuple[Link, ...] = ()
    if (token := ask.token) is not None:
        row_S, column_T = shown_TS[token], shown_TS[:, token]
        looks_at, looked_at_by = to_array(row_S), to_array(column_T)
        links_out = tuple(Link(query=token, key=key, weight=w) for key, w in strongest_of(row_S, ask.links))
        links_in = tuple(Link(query=query, key=token, weight=w) for query, w in strongest_of(column_T, ask.links))
    return HeadSide(
        map=to_array(picture), entropy=to_array(entropy_T), strongest=to_array(drawn.keys_TN),
        weights=to_array(drawn.weights_TN), undrawn=to_array(drawn.undrawn_T), looks_at=looks_at,
        looked_at_by=looked_at_by, links_out=links_out, links_in=links_in,
    )  # fmt: skip
