"""How much of inner products the k largest words of vectors keep, under the transpose and the pseudo-inverse.

Source: Dar et al. 2023, "Analyzing transformers in embedding space", Appendix A. The embedding is the output one, as
published, without a norm. Axes: N vectors, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from backend import errors
from backend.measure.keep import keep_k
from backend.measure.reading import Reader
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models import forward
from backend.models.cost import SCRATCH, STATES_AT_ONCE
from backend.models.likelihood import Reading, cut_text
from backend.models.loaded import Loaded
from backend.models.means import taps_of
from backend.models.reading import reader
from backend.models.taps import Cancel
from backend.models.units import check_units, values_of
from backend.schema import KeepAsk, Vectors

PUBLISHED = (10, 50, 100, 200, 300, 500, 512, 1000, 1024, 2048, 4096, 10_000, 15_000, 20_000, 30_000)
"""The k of the paper's figures and of its one number."""
TOKENS_LEAST = 1_000
"""Tokens from which states are drawn, where the set has so many."""
TEXT_TOKENS = 256
TOKENS_AT_ONCE = 8192
"""Rows of the embedding that are multiplied with each other in one question."""
NO_NORM = "The states of this model are taken as they are: it has no final norm of a known kind."
INPUT = "This model has no read-out: the input embedding stands in for the output embedding."


def embedding_of(loaded: Loaded) -> Tensor:
    """The embedding that is tried [V, D]: the output one; of a model without read-out the input one.

    Raises `CannotShow` where it is not as wide as the stream.
    """
    if loaded.anatomy.unembedding is not None:
        return reader(loaded, "raw").embedding_VD
    embedding_VD = loaded.anatomy.embedding.get_parameter("weight")
    if embedding_VD.shape[1] != loaded.anatomy.shape.width:
        raise errors.CannotShow(
            "The stream of this model cannot be read in its vocabulary",
            f"its embedding has {embedding_VD.shape[1]} numbers a token and its stream {loaded.anatomy.shape.width}",
            "Choose a model whose embedding is as wide as its stream.",
        )
    return embedding_VD


def ks_of(loaded: Loaded, ask: KeepAsk) -> tuple[int, ...]:
    """Which k are measured, rising. Raises `CannotShow` for one that the vocabulary does not have."""
    size = len(embedding_of(loaded))
    if not ask.ks:
        return (*(k for k in PUBLISHED if k < size), size)
    if max(ask.ks) > size:
        raise errors.CannotShow(
            f"No vector has {max(ask.ks):,} words to keep", f"the vocabulary has {size:,}",
            f"Choose a k of {size:,} at most.", needed=max(ask.ks), available=size,
        )  # fmt: skip
    return tuple(sorted(set(ask.ks)))


def gram_of(loaded: Loaded, first: int) -> tuple[Tensor, bool]:
    """float64 [D, D] on the CPU: the part of E Eᵀ that some tokens from `first` on make, and whether more follow."""
    embedding_VD = embedding_of(loaded)
    block_WD = embedding_VD[first : first + TOKENS_AT_ONCE].double()
    return (block_WD.T @ block_WD).cpu(), first + TOKENS_AT_ONCE < len(embedding_VD)


def normal(loaded: Loaded, ask: KeepAsk) -> Tensor:
    """float32 [N, D], every number from N(0, 1)."""
    dice = torch.Generator().manual_seed(ask.seed)
    return torch.randn(ask.count, loaded.anatomy.shape.width, generator=dice)


def values(loaded: Loaded, ask: KeepAsk) -> Tensor:
    """float32 [N, D]: values of units of any layer, each once. Raises `CannotShow` where too few are known."""
    check_units(loaded.anatomy, 0)
    layers, units = sorted(loaded.anatomy.write), loaded.anatomy.units or 0
    _check_count(ask, len(layers) * units, "values")
    dice = torch.Generator().manual_seed(ask.seed)
    drawn = torch.randperm(len(layers) * units, generator=dice)[: ask.count].tolist()
    rows = [values_of(loaded.anatomy, layers[number // units])[number % units] for number in drawn]
    return torch.stack(rows).float().cpu()


def read_texts(loaded: Loaded, texts: Sequence[str], cancel: Cancel) -> list[Reading]:
    """Whole texts, until there are tokens enough to draw states from."""
    found: list[Reading] = []
    for text in texts:
        cancel()
        if sum(len(read.ids) - 1 for read in found) >= TOKENS_LEAST:
            break
        found.append(cut_text(loaded, text, TEXT_TOKENS))
    return [read for read in found if len(read.ids) > 1]


def check_states(loaded: Loaded) -> None:
    """Raise `CannotShow` where the stream is not known."""
    if not any(tap.startswith("residual.") for tap in taps_of(loaded.anatomy)):
        raise errors.CannotShow(
            "The states of this model are not known", "its blocks write into no stream that was found",
            "Take the other vectors.",
        )  # fmt: skip


def places(loaded: Loaded, ask: KeepAsk, readings: Sequence[Reading]) -> list[list[tuple[int, int]]]:
    """By text: after which block and at which token a state is taken; never at a text's first token, which is a sink.

    Raises `CannotShow` where there are fewer than are asked for.
    """
    layers = loaded.anatomy.shape.layers
    every = [(text, layer, token) for text, read in enumerate(readings) for layer in range(layers)
             for token in range(1, len(read.ids))]  # fmt: skip
    _check_count(ask, len(every), "states")
    drawn = torch.randperm(len(every), generator=torch.Generator().manual_seed(ask.seed))[: ask.count]
    found: list[list[tuple[int, int]]] = [[] for _ in readings]
    for number in drawn.tolist():
        text, layer, token = every[number]
        found[text].append((layer, token))
    return found


def states(loaded: Loaded, read: Reading, taken: Sequence[tuple[int, int]], cancel: Cancel | None = None) -> Tensor:
    """float32 [N, D] on the CPU: states of one text, through the final norm where it is of a known kind."""
    found: dict[int, Tensor] = {}

    def keeper(layer: int, tokens: list[int]) -> Callable[[Tensor], None]:
        return lambda states_BTD: found.__setitem__(layer, states_BTD[0, tokens].float())

    by_layer: dict[int, list[int]] = {}
    for layer, token in taken:
        by_layer.setdefault(layer, []).append(token)
    types = None if read.types is None else [read.types]
    forward.run(
        loaded, [read.ids], types_BT=types, cancel=cancel,
        read={f"residual.{layer}": keeper(layer, tokens) for layer, tokens in by_layer.items()},
    )  # fmt: skip
    states_ND = torch.cat([found[layer] for layer in by_layer])
    norm = _final_norm(loaded)
    return (states_ND if norm is None else norm(states_ND)).cpu()


def _final_norm(loaded: Loaded) -> Callable[[Tensor], Tensor] | None:
    final = loaded.anatomy.final_norm
    return None if final is None else loaded.anatomy.norms.get(final)


def notices(loaded: Loaded, ask: KeepAsk) -> tuple[str, ...]:
    """What is said of this model."""
    said = [INPUT] if loaded.anatomy.unembedding is None else []
    if "states" in ask.vectors and _final_norm(loaded) is None:
        said.append(NO_NORM)
    return tuple(said)


def kept(loaded: Loaded, vectors_ND: Tensor, k: int) -> Tensor:
    """float32 [N, V], on the model's device: what is left of some vectors in words."""
    embedding_VD = embedding_of(loaded)
    return keep_k(Reader(embedding_VD).logits(vectors_ND.to(embedding_VD.device)), k)


def rows_at_once(loaded: Loaded) -> int:
    """Vectors that one question reads in words."""
    return rows_in(BLOCK_BYTES, len(embedding_of(loaded)))


def kept_bytes(loaded: Loaded, count: int) -> int:
    """Bytes for the words of so many vectors that are still to come, and of those that are sorted now."""
    size = loaded.anatomy.shape.vocabulary
    return 4 * count * size + 6 * BLOCK_BYTES + 4 * TOKENS_AT_ONCE * loaded.anatomy.shape.width


def dual_bytes(loaded: Loaded) -> int:
    """Bytes for a block of the embedding in double precision, and the matrix."""
    width = loaded.anatomy.shape.width
    return 8 * (3 * TOKENS_AT_ONCE * width + 4 * width**2)


def states_bytes(loaded: Loaded, tokens: int) -> int:
    """Bytes of a pass over a text of so many tokens."""
    shape = loaded.anatomy.shape
    scores = shape.heads * tokens**2 * 4 * 3
    units = loaded.anatomy.units or 4 * shape.width
    return int(scores + 4 * tokens * (STATES_AT_ONCE * shape.width + 4 * units) + SCRATCH)


def _check_count(ask: KeepAsk, there: int, what: Vectors) -> None:
    if ask.count > there:
        raise errors.CannotShow(
            f"There are no {ask.count:,} {what} to draw", f"there are {there:,}", "Ask for fewer.",
            needed=ask.count, available=there,
        )  # fmt: skip
