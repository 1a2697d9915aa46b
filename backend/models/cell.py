"""The cell instrument: one layer and token of the lens, before and after its feed-forward block, and what was written.

Axes: B rows (edited, then unedited), T tokens, D width, V vocabulary, F units, N listed values, K words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from backend import errors
from backend.measure.array import to_array
from backend.measure.cell import SubUpdates, moved
from backend.measure.lens import Lens, read_states
from backend.measure.reading import read_ends
from backend.models import forward
from backend.models.asking import Asked, ask_model
from backend.models.contributions import REST, check_followed, direct_bytes
from backend.models.direct import Direct, follow
from backend.models.explain import Pair, place_of, resolve
from backend.models.loaded import Loaded
from backend.models.plan import Plan
from backend.models.reading import about as about_words
from backend.models.reading import ends_of, reader
from backend.models.replay import Replay, scale_at
from backend.models.taps import Cancel
from backend.models.trace import check_offered
from backend.models.units import check_units, gated, values_of
from backend.models.words import words_of
from backend.models.written import Written, written
from backend.schema import CellAnswer, CellAsk, CellSide, CellValue, Ends, Limits, Moved, Words

SEQUENTIAL = (
    "Before: the stream that the feed-forward part adds to, after attention. After: what block {layer} gives. Both are "
    "read through the model's own final norm and read-out."
)
PARALLEL = (
    "Attention and the feed-forward part of this block read the same state, so there is no moment between them. "
    "Before: what enters block {layer} plus what its attention adds. After: what the block gives. Both are read "
    "through the model's own final norm and read-out."
)
COEFFICIENT = "A coefficient is what the write matrix takes, after edits: the unit's activation."
GATED = (
    "A coefficient is what the write matrix takes, after edits: the product act(g) · u of two readings of the stream, "
    "so its sign is not that of the activation alone."
)
OWN_NORM = (
    "What the write matrix gives is scaled or normed before it is added to the stream; contributions count that, the "
    "words and norms of a value do not."
)
SCORE = "Magnitude is |coefficient| · ‖value‖, LM-Debugger's score; the sign is the coefficient's."
DIRECT = (
    "Contribution: what the value adds to the pair's difference by itself, every later norm held at its divisor of "
    "this run; effects through later parts are not in it."
)
ELSEWHERE = (
    "What is written at token {token} reaches the prediction after token {explained} only through attention, so its "
    "direct contribution is not defined; measure the effect of removing it."
)
BY_MAGNITUDE = "The values are ranked by magnitude instead."
EDITED_AFTER = "An edit of the residual stream acts after block {layer}: it is part of the change from before to after."
REPLACED = (
    "An edit sets what the feed-forward part of block {layer} writes: the values are what would have been written, and "
    "contribute nothing."
)


NO_ENDS = Ends(highest=(), lowest=(), highest_logit=(), lowest_logit=())


def cell(loaded: Loaded, ask: CellAsk, limits: Limits, cancel: Cancel | None = None) -> CellAnswer:
    """One cell, opened. Raises `CannotShow` where a model has no lens, no known units, or no such layer or token."""
    check_offered(loaded)
    check_units(loaded.anatomy, ask.layer)
    check_followed(loaded)
    asked = ask_model(loaded, ask.view, limits)
    token = place_of(asked, ask.token)
    explain = ask.explain if ask.explain.token is not None else ask.explain.model_copy(update={"token": token})
    place_of(asked, explain.token)
    held = written(loaded, asked, token, (ask.layer,), cancel)
    pair = resolve(loaded, asked, explain, held.final_BTD)
    rows = [_Row.of(loaded, asked, ask, held, pair, token, row) for row in range(len(asked.rows))]
    lens, logits_NV = _read(loaded, asked, ask, token, rows, cancel)
    no_words = _why_no_words(loaded)
    ends = {} if no_words else _ends(loaded, ask, rows, cancel)
    sides = [_side(ask, row, lens, logits_NV, ends, place) for place, row in enumerate(rows)]
    parallel = rows[0].replay.parallel(ask.layer)
    return CellAnswer(
        conditions=loaded.conditions, ids=asked.read.ids, layer=ask.layer, token=token, explained=pair.explained,
        reading=ask.reading, block="parallel" if parallel else "sequential", gated=gated(loaded.anatomy, ask.layer),
        about=_about(loaded, ask, rows[0], pair, parallel, bool(no_words)), edited=sides[0],
        unedited=sides[1] if asked.compared else None, words=words_of(loaded.tokenizer, _ids(sides, pair)),
        notices=asked.notices + _notices(asked, ask, rows[0], token, pair) + no_words,
    )  # fmt: skip


def cell_bytes(loaded: Loaded, ask: CellAsk, limits: Limits) -> int:
    """Bytes for what contributions need, and some rows of logits. Raises as `tokenise`."""
    rows = 1 + (ask.view.compare and bool(ask.view.active_edits))
    return direct_bytes(loaded, ask.view, limits) + 8 * rows * 4 * loaded.anatomy.shape.vocabulary


@dataclass(frozen=True)
class _Row:
    """One side before it is packed."""

    replay: Replay
    before_D: Tensor
    after_D: Tensor
    """The last block's is behind the final norm."""
    adds_D: Tensor
    """What the feed-forward part adds to the stream."""
    updates: SubUpdates
    gave_D: Tensor
    coefficient_TF: Tensor
    magnitude_F: Tensor
    contribution_F: Tensor | None
    listed: tuple[int, ...]

    @classmethod
    def of(
        cls, loaded: Loaded, asked: Asked, ask: CellAsk, held: Written, pair: Pair, token: int, row: int
    ) -> _Row:  # fmt: skip
        """Take the block apart in one row of the run."""
        layer, last = ask.layer, loaded.anatomy.shape.layers - 1
        made = follow(loaded, asked, held, row, token)
        adds_D = made.adds(f"ffn_out.{layer}", layer)
        updates = _updates(loaded, held, layer, row, token)
        magnitude_F = updates.magnitude()
        contribution_F = None
        if pair.explained.token == token:
            contribution_F = Direct.of(loaded, asked, held, pair, row).of_units(layer)
        by_F = contribution_F.abs() if ask.ranked == "contribution" and contribution_F is not None else magnitude_F
        listed = by_F.topk(min(ask.values, len(by_F))).indices.tolist()
        return cls(
            replay=made, before_D=(made.streams[layer].detach().float() - adds_D).to(loaded.model.dtype),
            after_D=held.final_BTD[row, token] if layer == last else held.at(f"residual.{layer}", row, token),
            adds_D=adds_D, updates=updates, gave_D=_gave(loaded, asked.plan, held, layer, row, token),
            coefficient_TF=held.by_tap[f"ffn.{layer}"][row], magnitude_F=magnitude_F, contribution_F=contribution_F,
            listed=tuple(listed),
        )  # fmt: skip


def _updates(loaded: Loaded, held: Written, layer: int, row: int, token: int) -> SubUpdates:
    bias_D = getattr(loaded.anatomy.write[layer], "bias", None)
    return SubUpdates(held.at(f"ffn.{layer}", row, token), values_of(loaded.anatomy, layer), bias_D)


def _gave(loaded: Loaded, plan: Plan | None, held: Written, layer: int, row: int, token: int) -> Tensor:
    """What the write matrix gave; where an edit has put something else there, it is asked again."""
    if scale_at(plan, f"ffn_out.{layer}", row, token) is None:
        return held.at(f"ffn_out.{layer}", row, token)
    write: nn.Module = loaded.anatomy.write[layer]
    with torch.inference_mode():
        gave_1D: Tensor = write(held.at(f"ffn.{layer}", row, token)[None])
    return gave_1D[0]


def _read(
    loaded: Loaded, asked: Asked, ask: CellAsk, token: int, rows: list[_Row], cancel: Cancel | None
) -> tuple[Lens, Tensor]:
    """Before and after of every row, side by side, through the model's own final norm and read-out."""
    norm, last = loaded.anatomy.final_norm, loaded.anatomy.shape.layers - 1
    assert norm is not None, "checked at load"
    states_ND = torch.stack([state_D for row in rows for state_D in (row.before_D, row.after_D)])
    with torch.inference_mode():
        normed_ND = norm(states_ND[None])[0].clone()
        if ask.layer == last:  # its output is behind the final norm already
            normed_ND[1::2] = states_ND[1::2]
    plan = asked.plan
    if plan is not None:
        plan = Plan(plan.tables, plan.row_BT[:, token].repeat_interleave(2)[None], plan.steering)
    if cancel is not None:
        cancel()
    logits_NV = forward.read_out(loaded, normed_ND, plan).float()
    nothing = torch.empty(len(logits_NV), 0, dtype=torch.int64)
    lens = read_states(
        logits_NV, lambda block_NV, first: block_NV, nothing, top=ask.top, vocabulary=logits_NV.shape[1], cancel=cancel
    )
    return lens, logits_NV


def _ends(loaded: Loaded, ask: CellAsk, rows: list[_Row], cancel: Cancel | None) -> dict[int, Ends]:
    """Both ends of every listed value, by unit; sides that list the same read it once."""
    units = sorted({unit for row in rows for unit in row.listed})
    found = read_ends(reader(loaded, ask.reading), values_of(loaded.anatomy, ask.layer)[units], ask.ends, cancel=cancel)
    return {unit: ends_of(found, place) for place, unit in enumerate(units)}


def _side(ask: CellAsk, row: _Row, lens: Lens, logits_NV: Tensor, ends: dict[int, Ends], place: int) -> CellSide:
    before, after = 2 * place, 2 * place + 1
    moves = moved(logits_NV[before], logits_NV[after], ask.top)
    bias_D = row.updates.bias_D
    return CellSide(
        before=_words(lens, before), after=_words(lens, after),
        moved=tuple(
            Moved(id=id, before=p, after=q, logit_before=one, logit_after=other)
            for id, p, q, one, other in zip(
                moves.ids_K.tolist(), moves.before_K.tolist(), moves.after_K.tolist(), moves.logit_before_K.tolist(),
                moves.logit_after_K.tolist(), strict=True,
            )
        ),
        values=tuple(_value(row, unit, ends.get(unit, NO_ENDS)) for unit in row.listed),
        output_norm=float(row.updates.total().norm()),
        bias_norm=None if bias_D is None else float(bias_D.float().norm()),
        sum_error=row.updates.sum_error(row.gave_D),
    )  # fmt: skip


def _value(row: _Row, unit: int, ends: Ends) -> CellValue:
    contribution_F = row.contribution_F
    return CellValue(
        unit=unit, coefficient=float(row.updates.coefficient_F[unit]),
        norm=float(row.updates.value_FD[unit].float().norm()), magnitude=float(row.magnitude_F[unit]),
        contribution=None if contribution_F is None else float(contribution_F[unit]), ends=ends,
        at=to_array(row.coefficient_TF[:, unit]),
    )  # fmt: skip


def _words(lens: Lens, place: int) -> Words:
    return Words(
        ids=tuple(lens.ids_NK[place].tolist()), probability=to_array(lens.probability_NK[place]),
        logit=to_array(lens.logit_NK[place]), entropy=float(lens.entropy_N[place]),
    )  # fmt: skip


def _ids(sides: list[CellSide], pair: Pair) -> set[int]:
    """Every token that the answer names."""
    found = pair.ids
    for side in sides:
        found |= {*side.before.ids, *side.after.ids, *(move.id for move in side.moved)}
        found |= {id for value in side.values for id in (*value.ends.highest, *value.ends.lowest)}
    return found


def _why_no_words(loaded: Loaded) -> tuple[str, ...]:
    """A notice where a value of this model cannot be read in the vocabulary at all."""
    try:
        reader(loaded, "raw")
    except errors.CannotShow as error:
        return (f"The values are listed without words: {error.why}.",)
    return ()


def _about(loaded: Loaded, ask: CellAsk, row: _Row, pair: Pair, parallel: bool, wordless: bool) -> str:
    sentences = [(PARALLEL if parallel else SEQUENTIAL).format(layer=ask.layer)]
    sentences.append(GATED if gated(loaded.anatomy, ask.layer) else COEFFICIENT)
    wrote_D = row.replay.sources[f"ffn_out.{ask.layer}"].detach().float()
    if float((row.adds_D - wrote_D).norm()) > 1e-3 * float(wrote_D.norm()):
        sentences.append(OWN_NORM)
    sentences += [SCORE] if wordless else [SCORE, about_words(loaded, ask.reading)]
    if row.contribution_F is not None:
        sentences.append(DIRECT if pair.p_V is None else f"{DIRECT} {REST}")
    return " ".join(sentences)


def _notices(asked: Asked, ask: CellAsk, row: _Row, token: int, pair: Pair) -> tuple[str, ...]:
    notices = []
    if row.contribution_F is None:
        notices.append(ELSEWHERE.format(token=token, explained=pair.explained.token))
        if ask.ranked == "contribution":
            notices.append(BY_MAGNITUDE)
    if scale_at(asked.plan, f"residual.{ask.layer}", 0, token) is not None:
        notices.append(EDITED_AFTER.format(layer=ask.layer))
    if scale_at(asked.plan, f"ffn_out.{ask.layer}", 0, token) is not None:
        notices.append(REPLACED.format(layer=ask.layer))
    return tuple(notices)
