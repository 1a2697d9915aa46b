"""Evidence in a text: which of its words are likelier with the sliders than without or reversed, and the best spans.

LM-Steer (Han et al. 2024) tells so which words show a style: ln P(token | steered) − ln P(token | against), and the few
spans with the greatest sum. A best span always exists, so it stands beside what random orders of the same numbers give.
Axes: T tokens, N tokens of a block, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.measure.array import to_array
from backend.measure.spans import best_spans, by_chance
from backend.measure.steering import Sides
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models.loaded import Loaded
from backend.models.sliders import Asked, half, read_sides, sliders_bytes, step_of, turned, without
from backend.models.taps import Cancel
from backend.models.words import words_of
from backend.schema import Edit, EvidenceAnswer, EvidenceAsk, Limits, Span


def evidence(loaded: Loaded, ask: EvidenceAsk, limits: Limits, cancel: Cancel | None = None) -> EvidenceAnswer:
    """Token by token, and the best spans. Raises as `sliders.Asked.of`."""
    asked = Asked.of(loaded, ask.view, limits, cancel)
    against = without(asked.edits) if ask.against == "base" else turned(asked.edits)
    found_T, most = _evidence(asked, against, cancel)
    told_T = found_T[1:]  # nothing predicts the first token
    best = best_spans(told_T, ask.spans, ask.length)
    chance = by_chance(told_T, ask.spans, ask.length, ask.permutations, cancel=cancel)
    return EvidenceAnswer(
        conditions=loaded.conditions, ids=asked.read.ids, evidence=to_array(found_T), total=float(told_T.sum()),
        spans=tuple(Span(first=first + 1, last=last + 1, evidence=sum_) for first, last, sum_ in best.spans),
        best=best.total, p=chance.p, chance=chance.mean,
        words=words_of(loaded.tokenizer, set(asked.read.ids)),
        notices=asked.notices + half(loaded, step_of(loaded, most)),
    )  # fmt: skip


def evidence_bytes(loaded: Loaded, ask: EvidenceAsk, limits: Limits) -> int:
    """Bytes for the passes that a text needs once, blocks of logits, and shuffled numbers. Raises as `tokenise`."""
    return sliders_bytes(loaded, ask.view, limits, 0) + 6 * BLOCK_BYTES + 8 * BLOCK_BYTES


def _evidence(asked: Asked, against: tuple[Edit, ...], cancel: Cancel | None) -> tuple[Tensor, float]:
    """float64 [T] in nats, NaN for the first token; and the largest logit met, by size."""
    loaded, ids_T = asked.loaded, torch.tensor(asked.read.ids)
    plans = asked.steers(asked.edits, against)
    sides = list(zip((asked.states(asked.edits), asked.states(against)), plans, strict=True))
    found_T, most = torch.full((len(ids_T),), torch.nan, dtype=torch.float64), 0.0
    rows = rows_in(BLOCK_BYTES // 4, loaded.anatomy.shape.vocabulary)
    for first in range(0, len(ids_T) - 1, rows):
        if cancel is not None:
            cancel()
        last = min(first + rows, len(ids_T) - 1)
        with_NV, against_NV = read_sides(loaded, sides, slice(first, last))
        most = max(most, float(with_NV.amax()))
        lnp_2N = Sides.of(with_NV, against_NV).of_tokens(ids_T[first + 1 : last + 1]).cpu()
        found_T[first + 1 : last + 1] = lnp_2N[0] - lnp_2N[1]
    return found_T, most
