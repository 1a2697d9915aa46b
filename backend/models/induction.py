"""Induction scores: repeated random tokens, once for each model.

In the second copy, an induction head looks at the token that followed the first occurrence of its own token (Olsson et
al. 2022, "In-context Learning and Induction Heads", prefix-matching score).
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.measure.statistics import Means
from backend.models import forward
from backend.models.kernel import Call
from backend.models.loaded import Loaded
from backend.models.taps import Cancel

SEED = 20221111
SEQUENCES = 4
LONGEST = 32
"""Tokens of one copy, at most."""


def induction(loaded: Loaded, cancel: Cancel | None = None) -> dict[int, Means]:
    """Of each attention layer the mean weight on the induction target; measured at the first call, then remembered."""
    if loaded.induction is None:
        loaded.induction = _measure(loaded, cancel)
    return loaded.induction


def _measure(loaded: Loaded, cancel: Cancel | None) -> dict[int, Means]:
    shape = loaded.anatomy.shape
    nothing = torch.full((shape.heads,), torch.nan, dtype=torch.float64)
    absent = Means(nothing, nothing, torch.zeros(shape.heads, dtype=torch.int64))
    ids_BT, period = repeated(loaded)
    if not shape.causal or period < 2:
        return dict.fromkeys(shape.attention_layers, absent)
    found: dict[int, Means] = {}

    def see(call: Call, maps_BHTS: Tensor) -> None:
        found[call.layer] = on_target(maps_BHTS, call.mask_BTS, period)

    forward.run(loaded, ids_BT, see=see, cancel=cancel)
    return found


def repeated(loaded: Loaded) -> tuple[Tensor, int]:
    """ids_BT of what the tokenizer puts before every text, then random tokens twice; and the length of one copy."""
    before = [] if not loaded.anatomy.shape.causal else list(loaded.tokenizer("")["input_ids"])
    special = set(loaded.tokenizer.all_special_ids)
    room = (loaded.context or 4096) - len(before)
    ordinary = [id for id in range(min(len(loaded.tokenizer), loaded.anatomy.shape.vocabulary)) if id not in special]
    period = min(LONGEST, room // 2, len(ordinary))
    dice = torch.Generator().manual_seed(SEED)
    rows = []
    for _ in range(SEQUENCES):
        copy = [ordinary[place] for place in torch.randperm(len(ordinary), generator=dice)[:period].tolist()]
        rows.append(before + copy + copy)
    return torch.tensor(rows), period


def on_target(maps_BHTS: Tensor, mask_BTS: Tensor | None, period: int) -> Means:
    """Mean weight of queries i of the second copy on key i − period + 1, over rows that see it."""
    tokens = maps_BHTS.shape[-1]
    weights_BHN = maps_BHTS.diagonal(1 - period, 2, 3)[..., -(period):]
    queries_N = torch.arange(tokens - period, tokens, device=maps_BHTS.device)
    if mask_BTS is None:
        mask_BTS = torch.ones(1, 1, tokens, tokens, dtype=torch.bool, device=maps_BHTS.device)
    sees_BN = mask_BTS[:, 0, queries_N, queries_N - period + 1].expand(maps_BHTS.shape[0], -1)
    n_BN = mask_BTS[:, 0, queries_N].sum(-1).expand(maps_BHTS.shape[0], -1)
    rows = sees_BN.sum()
    value_H = torch.where(sees_BN[:, None], weights_BHN.double(), 0.0).sum((0, 2)) / rows
    uniform = torch.where(sees_BN, 1.0 / n_BN.double(), 0.0).sum() / rows
    heads = maps_BHTS.shape[1]
    return Means(value_H.cpu(), uniform.expand(heads).cpu(), rows.expand(heads).cpu())
