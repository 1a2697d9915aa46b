"""How surprised a model is by each token, computed block by block so that T x V never exists."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK_BYTES = 32 * 1024 * 1024
IMPOSSIBLE = -1000.0
"""A log-probability of which float32's exp is exactly 0; less would make 0 times infinity."""


@dataclass(frozen=True)
class TokenScores:
    """One number for each token, float32 on the CPU; position 0 has no left context: NaN, and rank -1."""

    surprisal_T: Tensor
    """nats: -ln p(token | tokens to its left)."""
    probability_T: Tensor
    rank_T: Tensor
    """int32; 0 is the most likely token. Of equally likely tokens the one with the lower id comes first."""
    entropy_T: Tensor
    """nats: entropy of the distribution that the token was drawn from."""


def score_tokens(
    states_TD: Tensor,
    ids_T: Tensor,
    read: Callable[[Tensor, int], Tensor],
    *,
    vocabulary: int,
    block_bytes: int = BLOCK_BYTES,
    cancel: Callable[[], None] | None = None,
) -> TokenScores:
    """Score every token but the first from the final states to its left.

    `read` maps final states [N, D], the first of which stands at the given token, to logits [N, V] exactly as the model
    does. Blocks hold as many rows as fit into `block_bytes` of float32 logits. Softmax and entropy are float32 whatever
    the model runs in.
    """
    length = ids_T.shape[0]
    surprisal_T, probability_T, entropy_T = torch.full((3, length), torch.nan).unbind()
    rank_T = torch.full((length,), -1, dtype=torch.int32)
    rows = rows_in(block_bytes, vocabulary)
    for first in range(0, length - 1, rows):
        if cancel is not None:
            cancel()
        last = min(first + rows, length - 1)
        block = score_block(read(states_TD[first:last], first), ids_T[first + 1 : last + 1])
        for kept, found in zip((surprisal_T, probability_T, rank_T, entropy_T), block, strict=True):
            kept[first + 1 : last + 1] = found.cpu()
    return TokenScores(surprisal_T, probability_T, rank_T, entropy_T)


def rows_in(block_bytes: int, vocabulary: int) -> int:
    """How many rows of float32 logits fit into a block; at least one."""
    return max(1, block_bytes // (4 * vocabulary))


def score_block(logits_NV: Tensor, targets_N: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Surprisal, probability, rank and entropy [N] of the targets."""
    logits_NV = logits_NV.float()
    targets_N1 = targets_N.to(logits_NV.device)[:, None]
    rank_N = rank_of(logits_NV, targets_N1)
    logps_NV = log_probabilities(logits_NV)
    surprisal_N = -logps_NV.gather(-1, targets_N1)[:, 0]
    entropy_N = -(logps_NV.exp() * logps_NV.clamp_min(IMPOSSIBLE)).sum(-1)
    return surprisal_N, torch.exp(-surprisal_N), rank_N, entropy_N


def log_probabilities(logits: Tensor) -> Tensor:
    """ln of `probabilities`, over the last axis."""
    logps = logits.log_softmax(-1)
    return logps.sub_(logps.exp().sum(-1, keepdim=True).log_())


def divergence(of_NV: Tensor, from_NV: Tensor) -> Tensor:
    """KL(of ‖ from) [N] in nats, of log-probabilities; a token that `of` forbids adds nothing."""
    apart_NV = (of_NV - from_NV).masked_fill_(of_NV == -torch.inf, 0.0)
    return (of_NV.exp() * apart_NV).sum(-1)


def probabilities(logits: Tensor) -> Tensor:
    """Softmax over the last axis, whose sum is 1 for a large vocabulary too.

    On a CPU torch adds the exponentials one after another: beside a likely token the many unlikely ones are rounded
    away, so that its probabilities are too large by up to 1e-5, and Σ p logit by that share of the logits.
    """
    p = logits.softmax(-1)
    return p.div_(p.sum(-1, keepdim=True))


def rank_of(logits_NV: Tensor, targets_N1: Tensor) -> Tensor:
    """Tokens ahead of the target: larger logit, or an equal one and a lower id."""
    target_N1 = logits_NV.gather(-1, targets_N1)
    larger_N = (logits_NV > target_N1).sum(-1)
    ids_V = torch.arange(logits_NV.shape[-1], device=logits_NV.device)
    tied_N = ((logits_NV == target_N1) & (ids_V < targets_N1)).sum(-1)
    return (larger_N + tied_N).to(torch.int32)
