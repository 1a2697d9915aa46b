"""Upper blocks of a model run on states that are not its own, and what is measured at its end.

Axes: B rows (the same text, other states), T tokens, D width, N measured numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from backend import errors
from backend.measure.tokens import BLOCK_BYTES, log_probabilities, rows_in
from backend.models import forward
from backend.models.encoding import encode
from backend.models.loaded import Loaded
from backend.models.taps import Cancel

Measure = Literal["accuracy", "nll", "agreement"]


@dataclass(frozen=True)
class Encoded:
    """A text as a model reads it."""

    ids: tuple[int, ...]
    types: tuple[int, ...] | None
    cut: bool


def check_stream(loaded: Loaded) -> None:
    """Raise `CannotShow` where blocks do not hand on one stream."""
    if not loaded.anatomy.stream:
        raise errors.CannotShow(
            f"{loaded.name} cannot be stitched", "its blocks do not hand on one stream of states",
            "Choose a model such as Llama, GPT-2 or BERT.",
        )  # fmt: skip


def encoded(loaded: Loaded, cancel: Cancel, *, texts: Sequence[str], tokens: int) -> list[Encoded]:
    """Texts as ids, each cut behind `tokens` or the model's context."""
    most = min(tokens, loaded.context or tokens)
    found = []
    for text in texts:
        cancel()
        said = encode(loaded.tokenizer, text)
        types = None if said.type_ids is None else said.type_ids[:most]
        found.append(Encoded(said.ids[:most], types, len(said.ids) > most))
    return found


def streams(loaded: Loaded, cancel: Cancel, *, text: Encoded, cuts: Sequence[int]) -> dict[int, Tensor]:
    """float32 [T, D] by cut: the stream before block `cut`, and after the last one."""
    found: dict[int, Tensor] = {}

    def keep(cut: int) -> None:
        def reader(held: Tensor) -> None:
            found[cut] = held.reshape(-1, held.shape[-1]).float().clone()

        read[tap(cut)] = reader

    read: dict[str, object] = {}
    for cut in cuts:
        keep(cut)
    forward.run(loaded, [text.ids], types_BT=_types(text, 1), read=read, cancel=cancel)  # type: ignore[arg-type]
    return found


def tap(cut: int) -> str:
    """Where the stream before a block is held."""
    return f"residual.{cut - 1}" if cut else "embedding"


def finals(
    loaded: Loaded, cancel: Cancel, text: Encoded, states: Sequence[tuple[int, Tensor]]
) -> Tensor:  # fmt: skip
    """Last states_BTD of rows that enter at block `cut` with given states_TD; none given: of the model alone."""
    ids_BT = [text.ids] * max(1, len(states))
    by_tap: dict[str, dict[int, Tensor]] = {}
    for row, (cut, states_TD) in enumerate(states):
        by_tap.setdefault(tap(cut), {})[row] = states_TD
    instead = {name: _Put(rows) for name, rows in by_tap.items()}
    return forward.run(
        loaded, ids_BT, types_BT=_types(text, len(ids_BT)), instead=instead, cancel=cancel, checked=not states
    )


def normed_at_the_end(loaded: Loaded, cancel: Cancel) -> bool:
    """Whether the last states are not the last block's own stream: BERT's blocks end with their norms themselves."""
    held: list[Tensor] = []
    ids_1T = torch.arange(4)[None] + loaded.anatomy.shape.vocabulary // 2
    final_1TD = forward.run(
        loaded, ids_1T, read={tap(loaded.anatomy.shape.layers): lambda states: held.append(states.clone())},
        cancel=cancel, checked=False,
    )  # fmt: skip
    return not torch.equal(held[0].reshape(final_1TD.shape), final_1TD)


class _Put:
    """Puts given states into some rows."""

    def __init__(self, rows: Mapping[int, Tensor]) -> None:
        self._rows = rows

    def __call__(self, held: Tensor) -> Tensor:
        tokens = len(next(iter(self._rows.values())))
        put_BTD = held.reshape(-1, tokens, held.shape[-1]).clone()
        for row, states_TD in self._rows.items():
            put_BTD[row] = states_TD.to(put_BTD)
        return put_BTD.reshape(held.shape)


def _types(text: Encoded, rows: int) -> list[tuple[int, ...]] | None:
    return None if text.types is None else [text.types] * rows


def measure_of(loaded: Loaded, *, labelled: bool) -> Measure:
    """What can be measured at the end of a model."""
    if labelled and loaded.classifier is not None and loaded.classifier.kind == "text":
        return "accuracy"
    return "nll" if loaded.anatomy.unembedding is not None and loaded.anatomy.shape.causal else "agreement"


def measured(
    loaded: Loaded, cancel: Cancel, text: Encoded, final_BTD: Tensor, measure: Measure, right: int | None
) -> list[float]:  # fmt: skip
    """One number a row: 1 or 0 of a label that is right or not, or nats a token; NaN where the states overflowed.

    `right`: of the classifier's labels the one that stands for the text's pole; no other is right.
    """
    found = []
    for final_TD in final_BTD:
        cancel()
        if not bool(final_TD.isfinite().all()):
            found.append(torch.nan)
        elif measure == "accuracy":
            assert loaded.classifier is not None, "as measured"
            assert right is not None, "its texts are labelled"
            found.append(float(int(loaded.classifier.logits(final_TD, text.ids).argmax()) == right))
        else:
            found.append(_nll(loaded, text, final_TD))
    return found


def _nll(loaded: Loaded, text: Encoded, final_TD: Tensor) -> float:
    """nats a token: mean of −ln p over the tokens but the first."""
    targets_P = torch.tensor(text.ids[1:], device=final_TD.device)
    total, size = 0.0, rows_in(BLOCK_BYTES, loaded.anatomy.shape.vocabulary)
    for first in range(0, len(targets_P), size):
        some_P = targets_P[first : first + size]
        logits_PV = forward.read_out(loaded, final_TD[first : first + len(some_P)], checked=False).float()
        total -= float(log_probabilities(logits_PV).gather(1, some_P[:, None]).double().sum())
    return total / len(targets_P)


def agreement(final_BTD: Tensor, own_TD: Tensor) -> list[float]:
    """Cosine of each row's mean state with that of the model alone."""
    mean_BD, own_D = final_BTD.double().mean(1), own_TD.double().mean(0)
    return torch.nn.functional.cosine_similarity(mean_BD, own_D[None]).tolist()
