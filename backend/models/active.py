"""R_k: whether the vectors that were most active at a token say in words what the state there says.

Source: Dar et al. 2023, "Analyzing transformers in embedding space", §4.2 and Appendix B.2.
Axes: T tokens, M active vectors, D width, V vocabulary, k words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backend import errors
from backend.measure.active import BLOCK_CELLS, shares
from backend.measure.lens import likeliest
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models import forward
from backend.models.keeping import states_bytes
from backend.models.likelihood import Reading, cut_text
from backend.models.loaded import Loaded
from backend.models.matrices import VectorsOf, key_name, vectors_of
from backend.models.taps import Cancel
from backend.models.trace import check_offered
from backend.schema import ActiveAsk, Group

TEXT_TOKENS = 256
NO_OUTPUT = "no output matrix of its attention is known, so what its heads give is not either"
OF_UNITS: tuple[Group, ...] = ("keys", "values")


@dataclass(frozen=True)
class Steps:
    """What can be measured."""

    layers: dict[Group, tuple[int, ...]]
    why: dict[str, str]
    gated: bool
    """Whether the keys are gates."""
    at_once: int
    """States or vectors that one question reads in words."""


@dataclass(frozen=True)
class Run:
    """One text, without its first token."""

    states_LTD: Tensor
    """In the model's dtype, on the CPU; what each block gives, the last through the model's own final norm."""
    active: dict[str, Tensor]
    """By tap: int64 [T, M], which coordinates were largest, the largest first."""


def steps_of(loaded: Loaded, ask: ActiveAsk) -> Steps:
    """Groups and layers that can be measured. Raises `CannotShow` for a model without a lens, and where none can."""
    check_offered(loaded)
    size = loaded.anatomy.shape.vocabulary
    if ask.k > size:
        raise errors.CannotShow(
            f"No state has {ask.k:,} likeliest words", f"the vocabulary has {size:,}",
            f"Choose a k of {size:,} at most.", needed=ask.k, available=size,
        )  # fmt: skip
    layers: dict[Group, tuple[int, ...]] = {}
    why: dict[str, str] = {}
    last: errors.CannotShow | None = None
    for group in dict.fromkeys(ask.groups):
        known = []
        for layer in _layers(loaded, group):
            try:
                count = len(vectors_of(loaded, group, layer, ask.reading).rows_ND)
                _check_active(ask, count)
            except errors.CannotShow as refusal:
                why[group], last = f"{refusal.what}: {refusal.why}.", refusal
            else:
                known.append(layer)
        if known:
            layers[group] = tuple(known)
        elif group not in why:
            why[group] = NO_OUTPUT
    if not layers:
        raise last or errors.CannotShow("This model has no such vectors", NO_OUTPUT, "Take another group.")
    gated = any(group == "keys" and key_name(loaded, layer) == "gate" for group, of in layers.items() for layer in of)
    return Steps(layers, why, gated, rows_in(BLOCK_BYTES, size))


def tap_of(group: Group, layer: int) -> str:
    """Where the coefficients of a group are held."""
    return f"ffn.{layer}" if group in OF_UNITS else f"heads.{layer}"


def read_texts(loaded: Loaded, texts: Sequence[str], ask: ActiveAsk, cancel: Cancel) -> list[Reading]:
    """Whole texts of two tokens and more, until there are as many tokens as asked for."""
    found: list[Reading] = []
    for text in texts:
        cancel()
        read = cut_text(loaded, text, TEXT_TOKENS)
        if len(read.ids) < 2:
            continue
        if found and sum(len(each.ids) - 1 for each in found) + len(read.ids) - 1 > ask.tokens:
            break
        found.append(read)
    return found


def run(loaded: Loaded, read: Reading, steps: Steps, ask: ActiveAsk, cancel: Cancel | None = None) -> Run:
    """One pass: every state, and the most active coordinates of every tap that is needed."""
    layers = loaded.anatomy.shape.layers
    states: dict[int, Tensor] = {}
    active: dict[str, Tensor] = {}

    def keep_state(layer: int) -> Callable[[Tensor], None]:
        return lambda states_BTD: states.__setitem__(layer, states_BTD[0, 1:].cpu())

    def keep_active(tap: str) -> Callable[[Tensor], None]:
        def keep(held: Tensor) -> None:  # some families fold the batch into the tokens
            active[tap] = likeliest(held.reshape(len(read.ids), -1)[1:].float(), ask.active)[1].cpu()

        return keep

    taps = {tap_of(group, layer) for group, of in steps.layers.items() for layer in of}
    readers = {tap: keep_active(tap) for tap in taps}
    readers |= {f"residual.{layer}": keep_state(layer) for layer in range(layers - 1)}
    types = None if read.types is None else [read.types]
    final_BTD = forward.run(loaded, [read.ids], types_BT=types, read=readers, cancel=cancel)
    states[layers - 1] = final_BTD[0, 1:].cpu()
    return Run(torch.stack([states[layer] for layer in range(layers)]), active)


def state_words(loaded: Loaded, states_TD: Tensor, last: bool, k: int, cancel: Cancel | None = None) -> Tensor:
    """int64 [T, k] on the CPU: the likeliest words of states, by the model's own final norm and read-out.

    `last`: they have the final norm behind them.
    """
    norm = loaded.anatomy.final_norm
    assert norm is not None, "the lens was checked"
    found = []
    for some_TD in states_TD.split(rows_in(BLOCK_BYTES, loaded.anatomy.shape.vocabulary)):
        if cancel is not None:
            cancel()
        given_TD = some_TD.to(loaded.anatomy.device)
        with torch.inference_mode():
            normed_TD = given_TD if last else norm(given_TD[None])[0]
        found.append(likeliest(forward.read_out(loaded, normed_TD).float(), k)[1].cpu())
    return torch.cat(found)


def needed(active_TM: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors [N] that are active anywhere, and of every active one [T, M] its place among them."""
    needed_N, place_TM = active_TM.unique(return_inverse=True)
    return needed_N, place_TM


def vector_words(
    loaded: Loaded, group: VectorsOf, layer: int, needed_N: Tensor, ask: ActiveAsk, cancel: Cancel | None = None
) -> tuple[Tensor, int]:
    """int64 [N, k] on the CPU: the words of some vectors of a layer, and how many words there are."""
    vectors = vectors_of(loaded, group, layer, ask.reading)
    size = max(len(vectors.reader.embedding_VD), loaded.anatomy.shape.vocabulary)
    return vectors.words("promoted", ask.k, needed_N, cancel), size


def group_shares(
    words_Nk: Tensor, place_TM: Tensor, against: Mapping[str, Tensor], vocabulary: int
) -> dict[str, Tensor]:  # fmt: skip
    """float64 [T] by name: R_k of the active vectors against the words [T, k] of several lists of states."""
    return {name: shares(words_Nk, place_TM, state_Tk, vocabulary) for name, state_Tk in against.items()}


def run_bytes(loaded: Loaded, tokens: int) -> int:
    """Bytes of a pass over a text, its states and what is active."""
    shape = loaded.anatomy.shape
    return states_bytes(loaded, tokens) + 8 * tokens * shape.layers * (shape.width + 64)


def words_bytes(loaded: Loaded, ask: ActiveAsk) -> int:
    """Bytes for blocks of logits, the vectors of a layer, their words, and what was said."""
    shape = loaded.anatomy.shape
    vectors = max(loaded.anatomy.units or 0, shape.heads * shape.head_width)
    return 6 * BLOCK_BYTES + 4 * vectors * (2 * shape.width + 2 * ask.k) + 16 * ask.tokens * ask.k + BLOCK_CELLS


def _layers(loaded: Loaded, group: Group) -> tuple[int, ...]:
    if group in OF_UNITS:
        return tuple(range(loaded.anatomy.shape.layers))
    return tuple(layer for layer in loaded.anatomy.shape.attention_layers if layer in loaded.anatomy.projections)


def _check_active(ask: ActiveAsk, count: int) -> None:
    if ask.active > count:
        raise errors.CannotShow(
            f"There are no {ask.active} vectors to take", f"a layer has {count}", f"Choose {count} at most.",
            needed=ask.active, available=count,
        )  # fmt: skip
