"""The logit lens: states read as words, block by block, so that states x vocabulary never exists.

Every state goes through a read-out that is given (the model's own final norm and output embedding); logits are float32
from there on. Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; each row is normalised with its own
statistics by the model's final norm.
Axes: N states, V vocabulary, K words of a state, W tracked tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from backend.measure.tokens import BLOCK_BYTES, probabilities, rows_in

Read = Callable[[Tensor, int], Tensor]
"""States [N, D], the first of which has the given number, to logits [N, V]."""


@dataclass(frozen=True)
class Lens:
    """What is left of the distributions of N states."""

    ids_NK: Tensor
    """int64: the likeliest tokens, the likeliest first."""
    logit_NK: Tensor
    logsum_N: Tensor
    """ln Σ exp(logit)."""
    entropy_N: Tensor
    """nats."""
    rank_NW: Tensor
    """int64: tokens ahead of the tracked one; of equal ones the lower id is ahead."""
    tracked_NW: Tensor
    """Logits of the tracked tokens."""
    followed_N: Tensor
    """Logit of the one token a state that is followed without its rank, which costs as much as all else."""

    @property
    def followed_probability_N(self) -> Tensor:
        """Probability of the followed token."""
        return (self.followed_N - self.logsum_N).exp()

    @property
    def probability_NK(self) -> Tensor:
        """Probabilities of the likeliest tokens."""
        return (self.logit_NK - self.logsum_N[:, None]).exp()

    @property
    def tracked_probability_NW(self) -> Tensor:
        """Probabilities of the tracked tokens."""
        return (self.tracked_NW - self.logsum_N[:, None]).exp()


def read_states(
    states_ND: Tensor,
    read: Read,
    tracked_NW: Tensor,
    *,
    top: int,
    vocabulary: int,
    followed_N: Tensor | None = None,
    block_bytes: int = BLOCK_BYTES,
    cancel: Callable[[], None] | None = None,
) -> Lens:
    """Read states in blocks whose float32 logits fit into `block_bytes`; `tracked_NW` and `followed_N` are token ids.

    `followed_N` None: the likeliest token of each state.
    """
    rows = rows_in(block_bytes, vocabulary)
    blocks = []
    for first in range(0, len(states_ND), rows):
        if cancel is not None:
            cancel()
        logits_NV = read(states_ND[first : first + rows], first).float()
        followed = None if followed_N is None else followed_N[first : first + rows].to(logits_NV.device)
        blocks.append(_block(logits_NV, tracked_NW[first : first + rows].to(logits_NV.device), followed, top))
    return Lens(*(torch.cat(parts).cpu() for parts in zip(*blocks, strict=True)))


def joined(one: Lens, other: Lens) -> Lens:
    """The states of both, one after the other."""
    return Lens(*(torch.cat([getattr(one, each.name), getattr(other, each.name)]) for each in fields(Lens)))


def _block(logits_NV: Tensor, tracked_NW: Tensor, followed_N: Tensor | None, top: int) -> tuple[Tensor, ...]:
    logit_NK, ids_NK = likeliest(logits_NV, top)
    found_NW = logits_NV.gather(-1, tracked_NW)
    ranks = [_rank(logits_NV, tracked_NW[:, place], found_NW[:, place]) for place in range(tracked_NW.shape[1])]
    rank_NW = torch.stack(ranks, -1) if ranks else tracked_NW
    followed_N = ids_NK[:, 0] if followed_N is None else followed_N
    spread = _logsum_and_entropy(logits_NV, ids_NK[:, :1])
    return ids_NK, logit_NK, *spread, rank_NW, found_NW, logits_NV.gather(-1, followed_N[:, None])[:, 0]


def likeliest(logits_NV: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """The largest logits and their ids; of equal ones among them the lower id first."""
    logit_NK, ids_NK = logits_NV.topk(min(top, logits_NV.shape[-1]), dim=-1)
    order_NK = ids_NK.argsort(-1)
    logit_NK, ids_NK = logit_NK.gather(-1, order_NK), ids_NK.gather(-1, order_NK)
    order_NK = logit_NK.argsort(dim=-1, descending=True, stable=True)
    return logit_NK.gather(-1, order_NK), ids_NK.gather(-1, order_NK)


def _logsum_and_entropy(logits_NV: Tensor, likeliest_N1: Tensor) -> tuple[Tensor, Tensor]:
    """ln Z, from the probability and logit of the likeliest token (at least 1 / V, so exact), and ln Z − Σ p logit."""
    p_NV = probabilities(logits_NV)
    most_N, p_N = logits_NV.gather(-1, likeliest_N1)[:, 0], p_NV.gather(-1, likeliest_N1)[:, 0]
    logsum_N = most_N - p_N.log()
    mean_N = torch.linalg.vecdot(p_NV, logits_NV)
    if bool(mean_N.isnan().any()):  # a forbidden token has a logit of −inf and no weight
        mean_N = torch.linalg.vecdot(p_NV, logits_NV.clamp_min(torch.finfo(torch.float32).min))
    return logsum_N, (logsum_N - mean_N).clamp_min_(0.0)


def _rank(logits_NV: Tensor, token_N: Tensor, logit_N: Tensor) -> Tensor:
    ahead_N = (logits_NV > logit_N[:, None]).sum(-1)
    ids_V = torch.arange(logits_NV.shape[-1], device=logits_NV.device)
    return ahead_N + ((logits_NV == logit_N[:, None]) & (ids_V < token_N[:, None])).sum(-1)
