"""R_k: how many of a state's likeliest words are among those of the vectors that were most active.

Source: Dar et al. 2023, "Analyzing transformers in embedding space", §4.2: R_k(x₁ … x_m, h) =
|(∪ top-k(x_i E)) ∩ top-k(h E)| / k. Axes: T tokens, N vectors, M active ones, V vocabulary, k words.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK_CELLS = 16_000_000
"""Places of a table tokens × vocabulary that is held at once."""


def shares(words_Nk: Tensor, active_TM: Tensor, state_Tk: Tensor, vocabulary: int) -> Tensor:
    """float64 [T] on the CPU: R_k of every token. `words_Nk`: ids of each vector; `active_TM`: numbers of vectors."""
    words_Nk, active_TM, state_Tk = (part.cpu() for part in (words_Nk, active_TM, state_Tk))
    rows, found = max(1, BLOCK_CELLS // vocabulary), []
    for first in range(0, len(active_TM), rows):
        some = slice(first, first + rows)
        union_TX = words_Nk[active_TM[some]].flatten(1)
        said_TV = torch.zeros(len(union_TX), vocabulary, dtype=torch.bool).scatter_(1, union_TX, True)
        found.append(said_TV.gather(1, state_Tk[some]).double().mean(1))
    return torch.cat(found)


def shuffled(count: int, seed: int) -> Tensor:
    """int64 [count]: a random order in which nothing stays in its place, nor do two change places: one cycle."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    found = torch.empty(count, dtype=torch.int64)
    found[order] = order.roll(-1)
    return found
