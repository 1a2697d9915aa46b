"""The top pairs of every head, and W_VO of every head in numbers, layer by layer.

Source of effective rank: Roy and Vetterli 2007, "The effective rank"; of copying: Elhage et al. 2021. Axes: L layers, H
heads, N pairs, K numbers of a head, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from backend import errors
from backend.measure import circuits as measure
from backend.models import circuits, weights
from backend.models.loaded import Loaded
from backend.models.reading import reader
from backend.models.taps import Cancel
from backend.models.vocabulary import allowed
from backend.schema import Limits, PairsAsk, ReadAs, SummariesAsk, TablesAsk

PAIRS_MOST = 500_000
"""Pairs of all heads together."""
GRAM_ROWS = 8192
Why = dict[str, str]
"""Refusals by layer, as text."""


def pairs_ask(ask: TablesAsk, layer: int, head: int) -> PairsAsk:
    """The question about one head."""
    return PairsAsk(**dict(ask), layer=layer, head=head)


def tables_layers(loaded: Loaded, ask: TablesAsk, cancel: Cancel | None = None) -> tuple[tuple[int, ...], Why]:
    """The layers whose heads have such tables, and why others have none.

    Raises `TooLarge`, what the filters raise, and the last refusal where no layer has any.
    """
    shape = loaded.anatomy.shape
    kept = allowed(loaded, ask.filters)
    kept.check()
    every = len(shape.attention_layers) * shape.heads * min(ask.top, kept.pairs)
    if every > PAIRS_MOST:
        raise errors.TooLarge(
            "These tables are too large", f"all heads together would list {every:,} pairs, and {PAIRS_MOST:,} are the "
            "most", "Ask for fewer pairs of each head.", needed=every, available=PAIRS_MOST,
        )  # fmt: skip
    return _tried(loaded, lambda layer: weights.head_table(loaded, pairs_ask(ask, layer, 0), cancel))


def pairs_of(loaded: Loaded, ask: TablesAsk, layer: int, head: int, limits: Limits, cancel: Cancel) -> dict[str, Any]:
    """One head's table as JSON, and what is said of it."""
    answer = weights.pairs(loaded, pairs_ask(ask, layer, head), limits, cancel)
    return {
        "head": head, "group": answer.group, "row": [pair.row for pair in answer.pairs],
        "column": [pair.column for pair in answer.pairs], "score": [pair.score for pair in answer.pairs],
        "same": answer.same, "variants": answer.variants, "words": answer.words, "allowed": answer.allowed,
        "about": answer.about, "notices": list(answer.notices),
    }  # fmt: skip


def summary_layers(loaded: Loaded, ask: SummariesAsk) -> tuple[tuple[int, ...], Why]:
    """The layers whose W_VO is known, and why that of others is not. Raises the last refusal where none is."""
    return _tried(loaded, lambda layer: circuits.table(loaded, "vo", layer, 0, ask.reading))


def numbers_of(loaded: Loaded, layer: int, gram_DD: Tensor | None, reading: ReadAs, cancel: Cancel) -> dict[str, Any]:
    """W_VO of every head of a layer: σ₁, the first direction's share, effective rank and copying, as JSON by name.

    `gram_DD` as of `cross_gram`; None: both sides have no one vocabulary, and copying is absent.
    """
    found: dict[str, Any] = {"largest": [], "first": [], "rank": [], "copying": []}
    for head in range(loaded.anatomy.shape.heads):
        cancel()
        made = circuits.table(loaded, "vo", layer, head, reading)
        values_K = measure.singular_values(made.rows.map_KD, made.columns.map_KD)
        found["largest"].append(float(values_K[0]))
        found["first"].append(measure.first_share(values_K))
        found["rank"].append(measure.effective_rank(values_K))
        copying = None if gram_DD is None else measure.copying_of_maps(made.rows.map_KD, made.columns.map_KD, gram_DD)
        found["copying"].append(copying)
    return found


def cross_gram(loaded: Loaded, reading: ReadAs, cancel: Cancel) -> Tensor | None:
    """float64 [D, D] on the CPU: Σ over tokens of what is read times what is written, block by block.

    None where input and output embedding do not have one vocabulary.
    """
    read_VD = loaded.anatomy.embedding.get_parameter("weight")
    raw = loaded.anatomy.unembedding is None and reading == "raw"
    write_VD = read_VD if raw else reader(loaded, reading).embedding_VD
    if len(read_VD) != len(write_VD):
        return None
    found = torch.zeros(read_VD.shape[1], write_VD.shape[1], dtype=torch.float64)
    for read_WD, write_WD in zip(read_VD.split(GRAM_ROWS), write_VD.split(GRAM_ROWS), strict=True):
        cancel()
        found += (read_WD.double().T @ write_WD.double()).cpu()
    return found


def gram_bytes(loaded: Loaded) -> int:
    """Bytes for blocks of both embeddings in double precision, and the matrix."""
    width = loaded.anatomy.shape.width
    return 8 * (3 * GRAM_ROWS * width + 3 * width**2)


def numbers_bytes(loaded: Loaded) -> int:
    """Bytes for a head's maps in double precision, and the matrix between them."""
    shape = loaded.anatomy.shape
    return 8 * (8 * shape.head_width * shape.width + 2 * shape.width**2)


def _tried(loaded: Loaded, make: Any) -> tuple[tuple[int, ...], Why]:
    """The layers for which `make` gives something, and what it raised for others."""
    found: list[int] = []
    why: Why = {}
    last: errors.CannotShow | None = None
    for layer in loaded.anatomy.shape.attention_layers:
        try:
            make(layer)
        except errors.CannotShow as refusal:
            why[str(layer)], last = f"{refusal.what}: {refusal.why}.", refusal
        else:
            found.append(layer)
    if not found:
        raise last or errors.CannotShow("This model has no heads", "no layer has attention", "Choose another model.")
    return tuple(found), why
