"""The contributions instrument: what every part of the model writes towards one prediction, directly.

Axes: L layers, H heads, F units, N listed units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend import errors
from backend.measure.array import from_array, to_array
from backend.measure.tokens import BLOCK_BYTES
from backend.models.asking import ask_model
from backend.models.cost import forward_bytes
from backend.models.direct import Direct, graph_bytes
from backend.models.explain import Pair, check_predicts, differences, place_of, resolve
from backend.models.loaded import Loaded
from backend.models.taps import Cancel
from backend.models.tokens import read_tokens
from backend.models.words import words_of
from backend.models.written import written, written_bytes
from backend.schema import ContributionsAnswer, ContributionsAsk, ContributionsSide, Limits, UnitName, View

ABOUT = (
    "Direct contribution: what a part writes into the stream at the explained token, followed to the logits with every "
    "norm held at its divisor of this run, its gain and the model's multipliers included. It counts no effect through "
    "later parts: the measured effect of removing the part does. Embedding, attention, feed-forward and rest add up to "
    "the pair's difference; heads add up to attention less the projection's bias, values to feed-forward less the "
    "write matrix's bias. Unit: logits."
)
REST = (
    "Against the rest: logit(target) − Σ p logit with the probabilities p of the edited run on both sides, whose "
    "change is that of ln p(target)."
)
CAPPED = (
    "This model caps its logits softly, at {cap:g}: contributions add up to the difference before the cap, "
    "which is {before:.4g}; after it, it is {after:.4g}."
)
EDITED_STREAM = "Edits of the residual stream add {logits:.4g} logits, which are counted in the rest."
CONSTANT = "This model adds constants to its stream outside attention and feed-forward; they are counted in the rest."
NOTICED = 1e-2
"""An error of the sum beyond this, relative to 1 + |the difference|, is told in words."""
NOT_EXACT = "The parts add up to {found:.4g} and the model says {said:.4g}: rounding in {dtype}."


def contributions(
    loaded: Loaded, ask: ContributionsAsk, limits: Limits, cancel: Cancel | None = None
) -> ContributionsAnswer:
    """Every part's direct contribution. Raises `CannotShow` where a model's stream cannot be followed."""
    check_predicts(loaded)
    check_followed(loaded)
    asked = ask_model(loaded, ask.view, limits)
    token = place_of(asked, ask.explain.token)
    held = written(loaded, asked, token, cancel=cancel)
    pair = resolve(loaded, asked, ask.explain, held.final_BTD)
    directs = [Direct.of(loaded, asked, held, pair, row) for row in range(len(asked.rows))]
    said = differences(loaded, pair, held.final_BTD, asked.plan, cancel).tolist()
    sides = [_side(direct, logits, ask.values, cancel) for direct, logits in zip(directs, said, strict=True)]
    explained = pair.explained
    return ContributionsAnswer(
        conditions=loaded.conditions, ids=asked.read.ids, explained=explained, edited=sides[0],
        unedited=sides[1] if asked.compared else None, about=about(pair),
        words=words_of(loaded.tokenizer, pair.ids),
        notices=asked.notices + _notices(loaded, pair, directs[0], sides[0]),
    )  # fmt: skip


def contributions_bytes(loaded: Loaded, ask: ContributionsAsk, limits: Limits) -> int:
    """Bytes for the forward pass, what was written, the replays and a few rows of logits. Raises as `tokenise`."""
    return direct_bytes(loaded, ask.view, limits)


def direct_bytes(loaded: Loaded, view: View, limits: Limits) -> int:
    """Bytes for what direct contributions of a view need. Raises as `tokenise`."""
    rows = 1 + (view.compare and bool(view.active_edits))
    tokens = len(read_tokens(loaded, view, limits).ids)
    whole = written_bytes(loaded, tokens, rows)
    kept = whole if whole <= loaded.kept.budget // 2 else written_bytes(loaded, 1, rows)
    return forward_bytes(loaded, view, limits) + 2 * kept + rows * graph_bytes(loaded) + 4 * BLOCK_BYTES


def check_followed(loaded: Loaded) -> None:
    """Raise `CannotShow` with what was found at load when a model's stream cannot be followed."""
    offered = loaded.card.can.get("contributions")
    if offered is not None and not offered.can:
        raise errors.CannotShow(
            "Direct contributions of this model cannot be added up", offered.why,
            "Measure the effect of removing a part instead.",
        )  # fmt: skip


def about(pair: Pair) -> str:
    """What the numbers mean."""
    return ABOUT if pair.p_V is None else f"{ABOUT} {REST}"


def _side(direct: Direct, said: float, values: int, cancel: Cancel | None) -> ContributionsSide:
    loaded, layers = direct.loaded, range(direct.loaded.anatomy.shape.layers)
    attention = [_of(direct, f"attention_out.{layer}") for layer in layers]
    feed_forward = [_of(direct, f"ffn_out.{layer}") for layer in layers]
    embedding, rest = direct.of_source("embedding"), direct.rest()
    logits = said if direct.direction.cap is None else direct.before_cap()
    names, coefficients, contributed = _values(direct, values, cancel)
    return ContributionsSide(
        logits=logits, embedding=embedding, attention=to_array(torch.tensor(attention)),
        feed_forward=to_array(torch.tensor(feed_forward)), heads=to_array(_heads(loaded, direct)), units=names,
        coefficient=to_array(coefficients), values=to_array(contributed), rest=rest,
        sum_error=abs(_total(embedding, attention, feed_forward, rest) - logits),
    )  # fmt: skip


def _total(embedding: float, attention: list[float], feed_forward: list[float], rest: float) -> float:
    return embedding + sum(attention) + sum(feed_forward) + rest


def _of(direct: Direct, name: str) -> float:
    return direct.of_source(name) if name in direct.replay.sources else 0.0


def _heads(loaded: Loaded, direct: Direct) -> Tensor:
    shape = loaded.anatomy.shape
    heads_LH = torch.full((shape.layers, shape.heads), torch.nan)
    for layer in loaded.anatomy.projections:
        if (found_H := direct.of_heads(layer)) is not None:
            heads_LH[layer] = found_H.cpu()
    return heads_LH


def _values(direct: Direct, count: int, cancel: Cancel | None) -> tuple[tuple[UnitName, ...], Tensor, Tensor]:
    """The units that contribute most, either way, with coefficient and contribution; none where they are not known."""
    layers = sorted(direct.loaded.anatomy.write)
    if not layers or not count:
        return (), torch.empty(0), torch.empty(0)
    found = []
    for layer in layers:
        if cancel is not None:
            cancel()
        found.append(direct.of_units(layer).cpu())
    all_LF = torch.stack(found)
    places_N = all_LF.abs().flatten().topk(min(count, all_LF.numel())).indices
    names = tuple(
        UnitName(layer=layers[place // all_LF.shape[1]], unit=place % all_LF.shape[1]) for place in places_N.tolist()
    )
    held = {layer: direct.written.at(f"ffn.{layer}", direct.row, direct.token) for layer in {n.layer for n in names}}
    coefficients_N = torch.tensor([float(held[name.layer][name.unit]) for name in names])
    return names, coefficients_N, all_LF.flatten()[places_N]


def _notices(loaded: Loaded, pair: Pair, direct: Direct, side: ContributionsSide) -> tuple[str, ...]:
    notices = []
    if (cap := direct.direction.cap) is not None:
        notices.append(CAPPED.format(cap=cap, before=side.logits, after=pair.explained.logits))
    if edits := direct.of_kind("edit"):
        notices.append(EDITED_STREAM.format(logits=sum(edits)))
    if loaded.constants:
        notices.append(CONSTANT)
    if not loaded.anatomy.write:
        notices.append(f"No values are listed: {loaded.anatomy.write_why}.")
    if side.sum_error > NOTICED * (1 + abs(side.logits)):
        found = _total(
            side.embedding, from_array(side.attention).tolist(), from_array(side.feed_forward).tolist(), side.rest
        )
        notices.append(NOT_EXACT.format(found=found, said=side.logits, dtype=loaded.conditions.dtype))
    return tuple(notices)
