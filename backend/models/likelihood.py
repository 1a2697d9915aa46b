"""How likely a model finds many texts under several slider settings, batch by batch.

A steer acts behind the trunk. Settings that differ in their steers alone share one forward pass: its final states are
the same, and each setting is one more read-out of them. Texts of a batch are padded on the right, where a model that
reads from left to right never looks: so no mask is needed, and the numbers are those of each text alone.

Axes: S settings, N texts of a batch, T tokens, P predicted tokens of the whole batch, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backend import errors
from backend.measure.tokens import BLOCK_BYTES, divergence, log_probabilities, rows_in
from backend.models import forward
from backend.models.cost import SCRATCH, STATES_AT_ONCE
from backend.models.encoding import encode
from backend.models.explain import check_predicts
from backend.models.loaded import Loaded
from backend.models.plan import Plan, Row, fold
from backend.models.prompt import read_prompt
from backend.models.taps import Cancel
from backend.models.variants import ROWS, TOKENS_ON_CARD, TOKENS_ON_CPU
from backend.models.vectors import Stored
from backend.schema import Edit, Steer, View

Setting = tuple[Edit, ...]
"""The edits that act while texts are read; the whole text is prompt."""
BLOCKS_AT_ONCE = 6
"""Blocks of logits held at once: as they come, as log-probabilities, those of the base, and what is made from them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One text as the model reads it."""

    ids: tuple[int, ...]
    types: tuple[int, ...] | None = None
    """Segment numbers, where the model takes them."""
    cut: bool = False
    """Whether it was longer than allowed."""


@dataclass(frozen=True)
class States:
    """The final states from which the tokens of a batch are predicted."""

    states_PD: Tensor
    targets_P: Tensor
    """int64 on the states' device: the token that each predicts."""
    text_P: Tensor
    """int64 on the CPU: which text of the batch it belongs to."""

    def part(self, first: int, last: int) -> States:
        """Those of the predicted tokens [first, last)."""
        return States(self.states_PD[first:last], self.targets_P[first:last], self.text_P[first:last])


@dataclass(frozen=True)
class Likelihoods:
    """Of every setting and text, float64 on the CPU."""

    nll_SN: Tensor
    """nats a token: mean of −ln p over the tokens of a text but its first, which nothing predicts."""
    tokens_N: Tensor
    """int64: how many tokens that mean is over."""
    kl_SN: Tensor | None = None
    """nats a token: mean of KL(base ‖ setting) over the same places, where a base was named."""

    @staticmethod
    def joined(parts: Sequence[Likelihoods]) -> Likelihoods:
        """Of several batches of texts under the same settings."""
        kls = [part.kl_SN for part in parts if part.kl_SN is not None]
        return Likelihoods(
            torch.cat([part.nll_SN for part in parts], 1), torch.cat([part.tokens_N for part in parts]),
            torch.cat(kls, 1) if kls else None,
        )  # fmt: skip

    def of(self, first: int, last: int | None = None) -> Likelihoods:
        """Of the texts [first, last)."""
        kl_SN = None if self.kl_SN is None else self.kl_SN[:, first:last]
        return Likelihoods(self.nll_SN[:, first:last], self.tokens_N[first:last], kl_SN)


def read_text(loaded: Loaded, text: str, tokens: int | None = None) -> Reading:
    """A text as ids, cut behind `tokens` or the model's context.

    Raises `BadQuestion` for a text without a second token: the first is predicted by nothing, so it has no likelihood;
    `CannotShow` for a model that predicts no next token.
    """
    check_predicts(loaded)
    read = cut_text(loaded, text, tokens)
    if len(read.ids) < 2:
        raise errors.BadQuestion(
            f"The text “{text[:40]}” has no likelihood",
            "it has one token at most, and the first token of a text is predicted by nothing",
            "Leave it out, or make it longer.",
        )
    return read


def cut_text(loaded: Loaded, text: str, tokens: int | None = None) -> Reading:
    """A text as ids, cut behind `tokens` or the model's context. Raises `CannotShow` for a token without embedding."""
    encoded = encode(loaded.tokenizer, read_prompt(loaded.tokenizer, View(model=loaded.name, text=text)).text)
    known = [place for place in (tokens, loaded.context) if place is not None]
    most = min(known, default=len(encoded.ids))
    types = None if encoded.type_ids is None else encoded.type_ids[:most]
    unknown = next((id for id in encoded.ids[:most] if id >= loaded.anatomy.shape.vocabulary), None)
    if unknown is not None:
        raise errors.CannotShow(
            f"The model does not know the token {unknown}",
            f"the text “{text[:40]}” has it, and the model has {loaded.anatomy.shape.vocabulary} embeddings",
            "Leave the text out; tokenizer and model do not fit each other.",
        )
    return Reading(encoded.ids[:most], types, len(encoded.ids) > most)


def batches(
    loaded: Loaded, texts: Sequence[Reading], settings: Sequence[Setting] = ((),), most: int = ROWS
) -> list[range]:
    """Places of the texts of each batch, in the order given: at most `most` texts, and as many tokens (padding
    counted) as let a question of somebody else wait for half a second and not for all of it. The more settings, the
    fewer tokens, but never less than one text.
    """
    allowed = TOKENS_ON_CPU if loaded.conditions.device == "cpu" else TOKENS_ON_CARD
    allowed = int(allowed / max(1.0, len(_by_trunk(settings)) + (len(settings) - 1) * _share(loaded)))
    found: list[range] = []
    first = longest = 0
    for place, text in enumerate(texts):
        longest = max(longest, len(text.ids))
        if place > first and (place - first >= most or (place - first + 1) * longest > allowed):
            found.append(range(first, place))
            first, longest = place, len(text.ids)
    return [*found, range(first, len(texts))] if texts else []


def likelihoods(
    loaded: Loaded, texts: Sequence[Reading], settings: Sequence[Setting], stored: Stored | None = None,
    *, base: int | None = None, cancel: Cancel | None = None,
) -> Likelihoods:  # fmt: skip
    """Of one batch of texts under every setting; `base`: the setting that KL is counted from.

    `stored`: where the settings' vectors come from; the model's own by default. Raises `CannotShow` when the model's
    numbers overflow under a setting. Edits at listed positions act at them in every text, padding is never counted.
    """
    stored = loaded.vectors if stored is None else stored
    nll_SN = torch.zeros(len(settings), len(texts), dtype=torch.float64)
    kl_SN = torch.zeros_like(nll_SN)
    origin = None if base is None else _Origin(loaded, texts, settings[base], stored, cancel)
    for trunk, places in _by_trunk(settings).items():
        states = origin.states if origin and trunk == origin.trunk else states_of(loaded, texts, trunk, stored, cancel)
        plans = {place: _steering(loaded, texts, settings[place], stored) for place in places}
        for first, last in _blocks(loaded, states):
            part = states.part(first, last)
            base_PV = None if origin is None else origin.read(loaded, first, last)
            for place, plan in plans.items():
                if cancel is not None:
                    cancel()
                logps_PV = base_PV if place == base and base_PV is not None else _read(loaded, part, plan, first)
                nll_P = -logps_PV.gather(-1, part.targets_P[:, None])[:, 0]
                nll_SN[place].index_add_(0, part.text_P, nll_P.double().cpu())
                if base_PV is not None and place != base:
                    kl_P = divergence(base_PV, logps_PV)
                    kl_SN[place].index_add_(0, part.text_P, kl_P.double().cpu())
    tokens_N = torch.tensor([len(text.ids) - 1 for text in texts])
    return Likelihoods(nll_SN / tokens_N, tokens_N, None if base is None else kl_SN / tokens_N)


def states_of(
    loaded: Loaded, texts: Sequence[Reading], trunk: Setting = (), stored: Stored | None = None,
    cancel: Cancel | None = None,
) -> States:  # fmt: skip
    """Run one batch of texts through the trunk, under edits that act before the read-out."""
    states_NTD = _run(loaded, texts, trunk, stored, cancel)
    text_P, place_P = _predicting(texts)
    targets_P = torch.tensor([id for text in texts for id in text.ids[1:]], device=states_NTD.device)
    with torch.inference_mode():
        return States(states_NTD[text_P.to(states_NTD.device), place_P.to(states_NTD.device)], targets_P, text_P)


def stream_of(
    loaded: Loaded, texts: Sequence[Reading], layer: int, *, mean: bool = False, cancel: Cancel | None = None
) -> Tensor:
    """float32 [N, D] on the CPU: the residual stream after a block, at each text's last token, or the mean over its
    tokens but the first."""
    found: list[Tensor] = []

    def keep(held: Tensor) -> None:
        held_NTD = held.reshape(len(texts), -1, held.shape[-1])  # some families flatten [N, T]
        for text, held_TD in zip(texts, held_NTD, strict=True):
            tokens = len(text.ids)
            own_TD = held_TD[1:tokens] if mean else held_TD[tokens - 1 : tokens]
            found.append(own_TD.float().mean(0).cpu())

    _run(loaded, texts, (), None, cancel, {f"residual.{layer}": keep})
    return torch.stack(found)


def _run(
    loaded: Loaded, texts: Sequence[Reading], trunk: Setting, stored: Stored | None, cancel: Cancel | None,
    read: Mapping[str, Callable[[Tensor], None]] | None = None,
) -> Tensor:  # fmt: skip
    """The final states_NTD of one batch of texts, padded on the right."""
    longest = max(len(text.ids) for text in texts)
    ids_NT = [text.ids + text.ids[-1:] * (longest - len(text.ids)) for text in texts]
    types_NT = None if texts[0].types is None else [
        (text.types or ()) + (0,) * (longest - len(text.ids)) for text in texts
    ]  # fmt: skip
    rows = [Row(trunk, longest)] * len(texts)
    plan = fold(loaded.anatomy, rows, longest, loaded.vectors if stored is None else stored)
    return forward.run(loaded, ids_NT, plan, types_BT=types_NT, read=read, cancel=cancel)


def likelihood_bytes(loaded: Loaded, texts: Sequence[Reading]) -> int:
    """Bytes that one batch of texts takes: its forward pass, its states, and some blocks of logits."""
    shape = loaded.anatomy.shape
    longest = max(len(text.ids) for text in texts)
    units = loaded.anatomy.units or 4 * shape.width
    states = (STATES_AT_ONCE + 3) * shape.width + 3 * units
    scores = shape.heads * longest * 3 * 4
    tokens = len(texts) * longest
    return tokens * (states * loaded.model.dtype.itemsize + scores) + BLOCKS_AT_ONCE * BLOCK_BYTES + SCRATCH


def _share(loaded: Loaded) -> float:
    """What reading a state out costs, compared with the blocks that made it: by the weights that are multiplied."""
    assert loaded.anatomy.unembedding is not None, "texts are read by models that predict"
    read = loaded.anatomy.unembedding.get_parameter("weight").numel()
    blocks = sum(part.numel() for block in loaded.anatomy.blocks for part in block.parameters())
    return read / max(blocks, 1)


class _Origin:
    """The setting that KL is counted from: its states, read again block by block."""

    def __init__(
        self, loaded: Loaded, texts: Sequence[Reading], setting: Setting, stored: Stored, cancel: Cancel | None
    ) -> None:
        self.trunk = _trunk(setting)
        self.states = states_of(loaded, texts, self.trunk, stored, cancel)
        self._plan = _steering(loaded, texts, setting, stored)

    def read(self, loaded: Loaded, first: int, last: int) -> Tensor:
        """float32 [P, V]: its log-probabilities at the predicted tokens [first, last)."""
        return _read(loaded, self.states.part(first, last), self._plan, first)


def _trunk(setting: Setting) -> Setting:
    """The edits that act before the read-out."""
    return tuple(edit for edit in setting if not isinstance(edit, Steer))


def _by_trunk(settings: Sequence[Setting]) -> dict[Setting, list[int]]:
    """Which settings share a forward pass."""
    found: dict[Setting, list[int]] = {}
    for place, setting in enumerate(settings):
        found.setdefault(_trunk(setting), []).append(place)
    return found


def _predicting(texts: Sequence[Reading]) -> tuple[Tensor, Tensor]:
    """Text and place of every token that predicts another one, int64 [P] each."""
    lengths = torch.tensor([len(text.ids) - 1 for text in texts])
    text_P = torch.arange(len(texts)).repeat_interleave(lengths)
    return text_P, torch.cat([torch.arange(length) for length in lengths.tolist()])


def _steering(loaded: Loaded, texts: Sequence[Reading], setting: Setting, stored: Stored) -> Plan | None:
    """The steers of a setting for the predicting tokens of a batch, as one row."""
    steers = tuple(edit for edit in setting if isinstance(edit, Steer))
    longest = max(len(text.ids) for text in texts)
    plan = fold(loaded.anatomy, [Row(steers, longest)] * len(texts), longest, stored)
    if plan is None:
        return None
    text_P, place_P = (places.to(plan.row_BT.device) for places in _predicting(texts))
    return Plan(plan.tables, plan.row_BT[text_P, place_P][None], plan.steering)


def _blocks(loaded: Loaded, states: States) -> list[tuple[int, int]]:
    """Spans of predicted tokens whose logits fit into a block."""
    size, tokens = rows_in(BLOCK_BYTES, loaded.anatomy.shape.vocabulary), len(states.targets_P)
    return [(first, min(first + size, tokens)) for first in range(0, tokens, size)]


def _read(loaded: Loaded, part: States, plan: Plan | None, first: int) -> Tensor:
    """float32 [P, V]: log-probabilities of a block of predicted tokens that begins at `first`."""
    rows = None if plan is None else plan.part(first, first + len(part.targets_P))
    logits_PV = forward.read_out(loaded, part.states_PD, rows).float()
    if not bool(logits_PV.amax(-1).isfinite().all()):
        raise forward.breaks_down(loaded.model.dtype, edited=plan is not None)
    return log_probabilities(logits_PV)
