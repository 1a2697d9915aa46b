"""The steer instrument: the next token under the sliders of a view and without them, and what each slider adds.

Axes: T tokens, D width, V vocabulary, W words shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from backend import errors
from backend.measure.array import to_array
from backend.measure.lens import likeliest
from backend.measure.steering import Sides, added
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models.direction import head_of
from backend.models.explain import place_in
from backend.models.loaded import Loaded
from backend.models.plan import Plan, acts_on
from backend.models.sliders import Asked, half, is_slider, places, read_sides, sliders_bytes, step_of, without
from backend.models.taps import Cancel
from backend.models.words import words_of
from backend.schema import Edit, Limits, Shift, Steer, SteerAnswer, SteerAsk, Words

CAPPED = (
    "This model caps its logits: what each steer adds is told before the cap, and what the cap takes of it is in the "
    "rest."
)
NO_MULTIPLE = (
    "The logits of this model are no multiple of the product with its output embedding, so what each steer adds is "
    "told in units of that product, and the rest holds what is left."
)


def steer(loaded: Loaded, ask: SteerAsk, limits: Limits, cancel: Cancel | None = None) -> SteerAnswer:
    """Both distributions at one token. Raises as `sliders.Asked.of`, and `CannotShow` for a token outside the text."""
    asked = Asked.of(loaded, ask.view, limits, cancel)
    token = place_in(len(asked.read.ids), ask.token)
    moves = _Moves(asked, token)
    base, steered = moves.words(ask.top)
    likely, rose, fell = moves.shifts(dict.fromkeys(base.ids + steered.ids), *_ids(moves.sides.rose_and_fell(ask.top)))
    step = step_of(loaded, float(moves.logit_2V.amax()))
    kl_text = None if ask.over == "token" else _over_text(asked, moves.states, moves.plan, cancel)
    shown = {shift.id for shift in likely + rose + fell}
    return SteerAnswer(
        conditions=loaded.conditions, ids=asked.read.ids, token=token, sliders=places(ask.view), base=base,
        steered=steered, likely=likely, rose=rose, fell=fell, kl=float(moves.sides.divergence()), kl_text=kl_text,
        step=step, forward=asked.ran, words=words_of(loaded.tokenizer, shown),
        notices=asked.notices + moves.notices + half(loaded, step),
    )  # fmt: skip


def steer_bytes(loaded: Loaded, ask: SteerAsk, limits: Limits) -> int:
    """Bytes for the pass that a text needs once, and the logits of both sides. Raises as `tokenise`."""
    blocks = 4 * BLOCK_BYTES if ask.over == "text" else 0
    return sliders_bytes(loaded, ask.view, limits, 2 + len(places(ask.view))) + blocks


class _Moves:
    """What the sliders do at one token."""

    def __init__(self, asked: Asked, token: int) -> None:
        edits, others = asked.edits, without(asked.edits)
        self._asked, self._token = asked, token
        self._directions = [edit for edit in asked.sliders if edit.kind == "residual.add"]
        self.states = asked.states(others), asked.states(edits)
        (self.plan,) = asked.steers(edits)
        alone = [asked.states(_alone(edits, edit)) for edit in self._directions]
        taken: list[Tensor] = []
        sides = [(self.states[0], None), (self.states[1], self.plan), *((states_TD, None) for states_TD in alone)]
        if len(alone) > 1:  # the state that the steers act on; with one direction it is that direction's, alone
            sides.append((self.states[1], None))
        read = read_sides(asked.loaded, sides, [token], {"unembed": taken.append})
        logits_NV = torch.cat(read).cpu()
        self.logit_2V, self._alone_NV = logits_NV[:2], logits_NV[2 : 2 + len(alone)]
        self._state_D = taken[0].flatten(0, -2)[-1 if alone else 0].cpu()
        self.sides = Sides.of(self.logit_2V[:1], self.logit_2V[1:])
        self.notices, self._scale = _scale_of(asked.loaded)

    def words(self, top: int) -> tuple[Words, Words]:
        """The likeliest tokens of both sides."""
        logit_2K, ids_2K = likeliest(self.logit_2V, top)
        probability_2K, entropy_2 = self.sides.p_2NV[:, 0].gather(1, ids_2K), self.sides.entropy()[:, 0].tolist()
        base, steered = (
            Words(ids=tuple(ids), probability=to_array(probability_K), logit=to_array(logit_K), entropy=entropy)
            for ids, probability_K, logit_K, entropy in zip(
                ids_2K.tolist(), probability_2K, logit_2K, entropy_2, strict=True
            )
        )
        return base, steered

    def shifts(self, *groups: Iterable[int]) -> Iterator[tuple[Shift, ...]]:
        """Groups of tokens, with what each slider adds to their logits."""
        listed = [tuple(group) for group in groups]
        ids = sorted(set().union(*listed))
        found = dict(zip(ids, self._shifts(torch.tensor(ids, dtype=torch.int64)), strict=True))
        return (tuple(found[id] for id in group) for group in listed)

    def _shifts(self, ids_W: Tensor) -> tuple[Shift, ...]:
        probability = self.sides.p_2NV[:, 0, ids_W].tolist()
        logit_W = self.logit_2V[1, ids_W] - self.logit_2V[0, ids_W]
        shares_SW = self._shares(ids_W)
        rest_W = logit_W - shares_SW.sum(0)
        return tuple(
            Shift(id=id, base=base, steered=steered, logit=logit, shares=tuple(shares), rest=rest)
            for id, base, steered, logit, shares, rest in zip(
                ids_W.tolist(), *probability, logit_W.tolist(), shares_SW.T.tolist(), rest_W.tolist(), strict=True
            )
        )

    def _shares(self, ids_W: Tensor) -> Tensor:
        """float32 [S, W]."""
        unembedding, alone = self._asked.loaded.anatomy.unembedding, iter(self._alone_NV)
        assert unembedding is not None, "checked before"
        embedding_VD = unembedding.get_parameter("weight")
        embedding_WD = embedding_VD[ids_W.to(embedding_VD.device)].cpu()
        shares = [
            self._steered(edit, embedding_WD)
            if isinstance(edit, Steer)
            else next(alone)[ids_W] - self.logit_2V[0, ids_W]
            for edit in self._asked.sliders
        ]
        return torch.stack(shares) if shares else torch.zeros(0, len(ids_W))

    def _steered(self, edit: Steer, embedding_WD: Tensor) -> Tensor:
        read, matrix = self._asked.read, self._asked.loaded.vectors.steer(edit.steer)
        acts = bool(acts_on(edit.at, len(read.ids), read.prompt)[self._token])
        return acts * edit.by * self._scale * added(self._state_D, matrix.left_DK, matrix.right_KD, embedding_WD)


def _ids(groups: Iterable[Tensor]) -> list[list[int]]:
    return [ids_W.tolist() for ids_W in groups]


def _alone(edits: Sequence[Edit], one: Edit) -> tuple[Edit, ...]:
    """All edits in their order, of the sliders only this."""
    return tuple(edit for edit in edits if edit is one or not is_slider(edit))


def _scale_of(loaded: Loaded) -> tuple[tuple[str, ...], float]:
    """By which the read-out multiplies, and what must be said of it."""
    try:
        head = head_of(loaded)
    except errors.CannotShow:
        return (NO_MULTIPLE,), 1.0
    return () if head.cap is None else (CAPPED,), head.scale


def _over_text(asked: Asked, states: tuple[Tensor, Tensor], plan: Plan | None, cancel: Cancel | None) -> float:
    """nats: the mean of KL(base ‖ steered) over the next tokens of every token, block by block."""
    tokens, rows = len(asked.read.ids), rows_in(BLOCK_BYTES // 4, asked.loaded.anatomy.shape.vocabulary)
    total = 0.0
    for first in range(0, tokens, rows):
        if cancel is not None:
            cancel()
        sides: Sequence[tuple[Tensor, Plan | None]] = ((states[0], None), (states[1], plan))
        base_NV, steered_NV = read_sides(asked.loaded, sides, slice(first, min(first + rows, tokens)))
        total += float(Sides.of(base_NV, steered_NV).divergence().sum())
    return total / tokens
