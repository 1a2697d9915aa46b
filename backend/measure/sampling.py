"""Sampling: which token of a distribution comes next, with random numbers that depend on nothing but a key.

A token is drawn by an exponential race: with independent E_v of rate 1, the v with the largest p_v / E_v is drawn with
probability p_v (the Gumbel-max trick, written without its logarithm). E_v depends on the key and on v alone, so equal
distributions under equal keys draw equal tokens, and similar ones seldom draw different tokens.
Order of the cuts as in transformers: temperature, then top-k, then top-p of what is left.
Axes: B rows, V vocabulary, N likeliest tokens looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor

LOOKED_AT = 1024
"""Likeliest tokens among which a top-p cut is looked for before all are put in order."""
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of SplitMix64 (Steele, Lea, Flood 2014, figure 13)."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How the next token of one row is drawn."""

    temperature: float
    """0 is greedy; of equally likely tokens the one with the lowest id."""
    top_k: int = 0
    """0: all."""
    top_p: float = 1.0
    key: int = 0
    """64 bits that decide all random numbers."""


def key_of(seed: int, place: int) -> int:
    """The key of one place of a text under one seed."""
    return int.from_bytes(sha256(f"{seed} {place}".encode()).digest()[:8], "little", signed=True)


def draw(logits_BV: Tensor, draws: Sequence[Draw]) -> Tensor:
    """int64 [B]: the next token of each row."""
    ids_B = logits_BV.float().argmax(-1)
    hot = [place for place, each in enumerate(draws) if each.temperature > 0]
    if hot:
        chosen = [draws[place] for place in hot]
        ids_B[hot] = _raced(_wide(logits_BV[hot]), chosen).to(ids_B.device)
    return ids_B


def _wide(logits_BV: Tensor) -> Tensor:
    """In float64, on a device that has it."""
    return (logits_BV.cpu() if logits_BV.device.type == "mps" else logits_BV).double()


def _raced(logits_BV: Tensor, draws: Sequence[Draw]) -> Tensor:
    device = logits_BV.device
    temperature_B = torch.tensor([each.temperature for each in draws], dtype=torch.float64, device=device)
    scaled_BV = (logits_BV - logits_BV.amax(-1, keepdim=True)) / temperature_B[:, None]
    weight_BV = scaled_BV.exp()
    keep_BV = kept(scaled_BV, [each.top_k for each in draws], [each.top_p for each in draws])
    if keep_BV is not None:
        weight_BV = weight_BV * keep_BV
    keys_B = torch.tensor([each.key for each in draws], dtype=torch.int64, device=device)
    return (weight_BV / exponentials(keys_B, weight_BV.shape[1])).argmax(-1)


def exponentials(keys_B: Tensor, vocabulary: int) -> Tensor:
    """float64 [B, V], exponentially distributed with rate 1: SplitMix64 of each row's key, one number a token."""
    ids_V = torch.arange(1, vocabulary + 1, dtype=torch.int64, device=keys_B.device)
    mixed_BV = keys_B[:, None] + ids_V * _signed(_GOLDEN)
    mixed_BV = (mixed_BV ^ _shifted(mixed_BV, 30)) * _signed(_FIRST)
    mixed_BV = (mixed_BV ^ _shifted(mixed_BV, 27)) * _signed(_SECOND)
    mixed_BV = mixed_BV ^ _shifted(mixed_BV, 31)
    uniform_BV = (_shifted(mixed_BV, 12).double() + 0.5) * 2.0**-52  # 52 bits and a half: never 0, never 1
    return -uniform_BV.log()


def _signed(word: int) -> int:
    """64 bits as torch holds them."""
    return word - 2**64 if word >= 2**63 else word


def _shifted(words: Tensor, by: int) -> Tensor:
    """A logical shift to the right."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def kept(scaled_BV: Tensor, top_k: Sequence[int], top_p: Sequence[float]) -> Tensor | None:
    """bool [B, V]: the tokens that top-k and top-p leave; None when they leave all.

    Exactly k tokens, of equal ones those with the lowest ids; then the fewest likeliest tokens whose share of the rest
    is p or more. `scaled_BV` are logits after the temperature, the largest of a row 0.
    """
    vocabulary, device = scaled_BV.shape[1], scaled_BV.device
    k_B = torch.tensor([min(k or vocabulary, vocabulary) for k in top_k], device=device)
    p_B = torch.tensor(top_p, dtype=torch.float64, device=device)
    if bool((k_B == vocabulary).all()) and bool((p_B >= 1).all()):
        return None
    narrow = [k for k in top_k if 0 < k < vocabulary]
    looked_at = min(vocabulary, max([LOOKED_AT, *narrow]))
    count_B, ordered_BN = _count(scaled_BV, k_B, p_B, looked_at)
    if bool((count_B > looked_at).any()):
        count_B, ordered_BN = _count(scaled_BV, k_B, p_B, vocabulary)
    last_B1 = ordered_BN.gather(1, count_B.clamp(max=ordered_BN.shape[1])[:, None] - 1)
    above_BV, level_BV = scaled_BV > last_B1, scaled_BV == last_B1
    room_B1 = (count_B - above_BV.sum(-1))[:, None]
    return above_BV | (level_BV & (level_BV.cumsum(-1) <= room_B1))


def _count(scaled_BV: Tensor, k_B: Tensor, p_B: Tensor, looked_at: int) -> tuple[Tensor, Tensor]:
    """How many tokens each row keeps, more than `looked_at` where these did not suffice, and their logits in order."""
    vocabulary = scaled_BV.shape[1]
    ordered_BN = scaled_BV.topk(looked_at).values
    within_BN = torch.arange(looked_at, device=scaled_BV.device) < k_B[:, None]
    weight_BN = ordered_BN.exp() * within_BN
    total_B = torch.where(k_B < vocabulary, weight_BN.sum(-1), scaled_BV.exp().sum(-1))
    short_BN = weight_BN.cumsum(-1) < (p_B * total_B)[:, None]
    count_B = torch.where(p_B < 1, short_BN.sum(-1) + 1, k_B)
    most_B = k_B if looked_at < vocabulary else k_B.clamp(max=looked_at)
    return torch.minimum(count_B, most_B), ordered_BN
