"""The trace instrument: the residual stream of every layer and token, read as words.

The states of one forward pass go through the model's own final norm and read-out. The last row is what the model's own
final states say, so it equals the logits. Axes: B rows (edited, then unedited), R rows of the lens (L + 1), T tokens,
D width, C columns, K words of a cell, W tracked tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backend import errors
from backend.measure.array import to_array
from backend.measure.lens import Lens, joined, read_states
from backend.measure.tokens import BLOCK_BYTES
from backend.models import forward
from backend.models.asking import Asked, ask_model, least_noise
from backend.models.cost import forward_bytes
from backend.models.loaded import Loaded
from backend.models.plan import Plan
from backend.models.taps import Cancel
from backend.models.tokens import read_tokens
from backend.models.words import words_of
from backend.schema import LensGrid, Limits, TraceAnswer, TraceAsk


def trace(loaded: Loaded, ask: TraceAsk, limits: Limits, cancel: Cancel | None = None) -> TraceAnswer:
    """The lens of a view, whole or of the last row and the focused column.

    Raises `CannotShow` where a model has no lens, and as `ask_model`.
    """
    check_offered(loaded)
    asked = ask_model(loaded, ask.view, limits)
    _check_tracked(loaded, ask.tracked)
    states_BRTD = _states(loaded, asked, cancel)
    last, every = states_BRTD.shape[1] - 1, range(asked.tokens)
    focus = _focus(asked)
    parts = [(range(last + 1), every)] if ask.part == "all" else [([last], every), (range(last + 1), [focus])]
    sides: list[list[_Grid]] = []
    for place in range(len(asked.rows)):
        beside = sides[0] if sides else [None] * len(parts)
        sides.append(
            [
                _grid(loaded, asked, ask, states_BRTD, place, list(rows), list(columns), edited, cancel)
                for (rows, columns), edited in zip(parts, beside, strict=True)
            ]
        )
    shown = {int(id) for grids in sides for grid in grids for id in grid.lens.ids_NK.flatten().tolist()}
    return TraceAnswer(
        conditions=loaded.conditions, ids=asked.read.ids, layers=loaded.anatomy.shape.layers, tracked=ask.tracked,
        edited=tuple(grid.packed() for grid in sides[0]),
        unedited=tuple(grid.packed() for grid in sides[1]) if asked.compared else None,
        settled=to_array(sides[0][0].settled()) if ask.part == "all" else None,
        noise=least_noise(loaded) if asked.compared else 0.0,
        words=words_of(loaded.tokenizer, shown | set(ask.tracked)), notices=asked.notices,
    )  # fmt: skip


def trace_bytes(loaded: Loaded, ask: TraceAsk, limits: Limits) -> int:
    """Bytes for the forward pass, all states and some blocks of logits. Raises as `tokenise`."""
    return forward_bytes(loaded, ask.view, limits) + 2 * _states_bytes(loaded, ask, limits) + 4 * BLOCK_BYTES


def check_offered(loaded: Loaded) -> None:
    """Raise `CannotShow` with what was found at load when a model has no lens."""
    offered = loaded.card.can.get("trace")
    if offered is not None and not offered.can:
        raise errors.CannotShow(
            "This model has no lens", offered.why,
            "Choose a model that predicts the next token; attention can be looked at in this one.",
        )  # fmt: skip


@dataclass(frozen=True)
class _Grid:
    """A part of the lens as it was read: N = rows × columns, row by row."""

    lens: Lens
    rows: list[int]
    columns: list[int]
    shown_N: Tensor | None = None
    """Of the unedited side: probabilities of the tokens that the edited side puts first."""

    def shaped(self, values_N: Tensor) -> Tensor:
        """[R, C, ...] of what was read state by state."""
        return values_N.unflatten(0, (len(self.rows), len(self.columns)))

    def settled(self) -> Tensor:
        """int64 [C]: the first row from which on the likeliest token is that of the last row."""
        top_RC = self.shaped(self.lens.ids_NK)[..., 0]
        same_RC = (top_RC == top_RC[-1]).flip(0).long().cumprod(0)
        return len(self.rows) - same_RC.sum(0)

    def packed(self) -> LensGrid:
        """For the wire; what is followed is the token that the last row puts first."""
        lens = self.lens
        return LensGrid(
            rows=tuple(self.rows), columns=tuple(self.columns), ids=to_array(self.shaped(lens.ids_NK)),
            probability=to_array(self.shaped(lens.probability_NK)), logit=to_array(self.shaped(lens.logit_NK)),
            entropy=to_array(self.shaped(lens.entropy_N)),
            final=to_array(self.shaped(lens.followed_probability_N)),
            rank=to_array(self.shaped(lens.rank_NW)),
            tracked_probability=to_array(self.shaped(lens.tracked_probability_NW)),
            tracked_logit=to_array(self.shaped(lens.tracked_NW)),
            shown=None if self.shown_N is None else to_array(self.shaped(self.shown_N)),
        )  # fmt: skip


def _grid(
    loaded: Loaded, asked: Asked, ask: TraceAsk, states_BRTD: Tensor, place: int, rows: list[int], columns: list[int],
    edited: _Grid | None, cancel: Cancel | None,
) -> _Grid:  # fmt: skip
    """Read some rows and columns of one side; the last row comes first, and its likeliest tokens are followed.

    `edited` is the edited side's reading of the same cells: the token that it puts first in each is tracked, too.
    """
    states_RTD = states_BRTD[place]
    plan = None if asked.plan is None else asked.plan.row(place)

    def lens(of: list[int], followed_C: Tensor | None = None) -> Lens:
        read = _reader(loaded, _of_tokens(plan, columns * len(of)), len(states_RTD) - 1, of, len(columns))
        tracked_NW = torch.tensor(ask.tracked, dtype=torch.int64).expand(len(of) * len(columns), -1)
        if edited is not None:
            first_RC = edited.shaped(edited.lens.ids_NK[:, 0])[[rows.index(row) for row in of]]
            tracked_NW = torch.cat([first_RC.reshape(-1, 1), tracked_NW], 1)
        return read_states(
            states_RTD[of][:, columns].flatten(0, 1), read, tracked_NW, top=ask.top,
            vocabulary=loaded.anatomy.shape.vocabulary, cancel=cancel,
            followed_N=None if followed_C is None else followed_C.repeat(len(of)),
        )  # fmt: skip

    *earlier, last = rows
    found = lens([last])
    if earlier:
        found = joined(lens(earlier, found.ids_NK[:, 0]), found)
    if edited is None:
        return _Grid(found, rows, columns)
    own = replace(found, rank_NW=found.rank_NW[:, 1:], tracked_NW=found.tracked_NW[:, 1:])
    return _Grid(own, rows, columns, found.tracked_probability_NW[:, 0])


def _reader(
    loaded: Loaded, plan: Plan | None, last: int, rows: list[int], columns: int
) -> Callable[[Tensor, int], Tensor]:
    """States to logits: every row but the last goes through the final norm first, which the last has behind it."""
    norm = loaded.anatomy.final_norm
    assert norm is not None, "checked at load"
    is_last_N = torch.tensor([row == last for row in rows]).repeat_interleave(columns)

    def read(states_ND: Tensor, first: int) -> Tensor:
        done_N = is_last_N[first : first + len(states_ND)].to(states_ND.device)
        if not bool(done_N.all()):
            with torch.inference_mode():
                states_ND = torch.where(done_N[:, None], states_ND, norm(states_ND[None])[0])
        return forward.read_out(loaded, states_ND, plan and plan.part(first, first + len(states_ND)))

    return read


def _of_tokens(plan: Plan | None, tokens: list[int]) -> Plan | None:
    """The plan's rows for these tokens, one after the other in one row of a batch."""
    return None if plan is None else Plan(plan.tables, plan.row_BT[:, tokens], plan.steering)


def _states(loaded: Loaded, asked: Asked, cancel: Cancel | None) -> Tensor:
    """states_BRTD: what enters block 0, what each block but the last gives, and the final states; kept for the rest."""
    key = f"lens {asked.states_key()}"
    kept: Tensor | None = loaded.kept.find(key)
    if kept is not None:
        return kept
    layers = loaded.anatomy.shape.layers
    points = ["embedding", *(f"residual.{layer}" for layer in range(layers - 1))]
    found: dict[str, Tensor] = {}

    def keeper(point: str) -> Callable[[Tensor], None]:
        return lambda states_BTD: found.__setitem__(point, states_BTD)

    final_BTD = forward.run(
        loaded, asked.ids_BT, asked.plan, types_BT=asked.types_BT, cancel=cancel,
        read={point: keeper(point) for point in points},
    )  # fmt: skip
    device = final_BTD.device
    states_BRTD = torch.stack([*(found[point].to(device) for point in points), final_BTD], 1)
    loaded.kept.keep(key, states_BRTD, states_BRTD.nbytes)
    return states_BRTD


def _states_bytes(loaded: Loaded, ask: TraceAsk, limits: Limits) -> int:
    shape = loaded.anatomy.shape
    rows = 1 + (ask.view.compare and bool(ask.view.active_edits))
    tokens = len(read_tokens(loaded, ask.view, limits).ids)
    return int(rows * (shape.layers + 1) * tokens * shape.width * loaded.model.dtype.itemsize)


def _focus(asked: Asked) -> int:
    token = asked.view.focus.token
    if token is None:
        return asked.tokens - 1
    if token >= asked.tokens:
        raise errors.CannotShow(
            f"There is no token {token}", f"the text has {asked.tokens} tokens, counted from 0",
            "Choose a token of the text.", needed=token + 1, available=asked.tokens,
        )  # fmt: skip
    return token


def _check_tracked(loaded: Loaded, tracked: tuple[int, ...]) -> None:
    vocabulary = loaded.anatomy.shape.vocabulary
    for id in tracked:
        if id >= vocabulary:
            raise errors.CannotShow(
                f"There is no token with the id {id}", f"the vocabulary has {vocabulary} tokens, counted from 0",
                "Choose a token of the model's vocabulary.", needed=id + 1, available=vocabulary,
            )  # fmt: skip
