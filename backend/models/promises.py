"""Promises: what is checked when a model is loaded, and which instruments it can therefore offer.

Axes: B rows, T tokens, H heads, S keys, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from backend.errors import CannotShow
from backend.measure.attention import Maps, Reducer, Whole
from backend.measure.seen import Marks, Seen
from backend.models import forward, kernel, sums, ways
from backend.models.effects import Probes, effects_of, ends, every_edit, offered, steer_effect
from backend.models.kernel import Call
from backend.models.loaded import Loaded
from backend.models.noise import ROUNDED, exact, tolerance
from backend.models.plan import Plan, Row, fold, identity
from backend.models.readout import ReadOut
from backend.models.recomputed import Recomputed
from backend.models.sums import ADD_UP, FOLLOWED
from backend.models.tokens import READ_OUT
from backend.schema import Ability, Promise, Reading

TOKENS = 8
PADDING = 3
REDUCED_APART = 1e-3
"""Largest difference of a weight, an entropy in nats or a distance in tokens that the fused reduction may have."""
ATTENTION = ("attention", "heads")
INSTRUMENTS = ("tokens", *ATTENTION, "trace", "contributions", "cell", "write")
LENS = "the final norm of the last stream is what is read out"
"""The promise that a lens rests on; without it there is none."""
MUST = (READ_OUT, LENS, FOLLOWED, ADD_UP)
"""Promises that must be kept: where they do not apply, what needs them is not offered either."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of all checks."""

    promises: tuple[Promise, ...]
    can: dict[str, Ability]
    """By instrument."""
    edits: dict[str, Ability]
    """By tap."""
    noise: float
    """Largest change of any map between a text computed alone and beside other rows."""


@dataclass
class _Watched:
    """What one forward pass showed."""

    answer: Tensor
    maps: dict[int, Tensor] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    active: dict[int, int] = field(default_factory=dict)
    """Of each block the feed-forward unit with the largest coefficient: others may be silent on this text."""


def check(loaded: Loaded) -> Checked:
    """Run every check on a freshly loaded model: about six forward passes of eight tokens."""
    ids = _ids(loaded)
    alone = _watch(loaded, [ids])
    rows = [
        Row((), TOKENS),
        *(Row((edit,), TOKENS) for edit in every_edit(loaded.anatomy, alone.active)),
    ]
    together = _watch(loaded, [ids] * len(rows), fold(loaded.anatomy, rows, TOKENS, Probes(loaded.anatomy)))
    effects = {**effects_of(loaded, rows, together.answer), "steer": steer_effect(loaded, ids)}
    noise = max(float((alone.maps[layer][0] - together.maps[layer][0]).abs().max()) for layer in alone.maps)
    promises = (
        _all_layers(loaded),
        _sums(loaded, alone),
        _triangle(loaded, alone),
        *_eager(loaded, ids, alone),
        _asking(loaded, ids),
        _empty_plan(loaded, ids),
        _rows_alone(loaded, alone, together, noise),
        _padding(loaded, ids),
        _reduction(loaded, alone),
        *effects.values(),
        _last_lens_row(loaded, ids),
        _lens(loaded, ids),
        *sums.promised(loaded, ids),
        _tied(loaded),
        _writing(loaded, ids),
    )
    return Checked(promises, _abilities(promises), offered(effects), noise)


def _ids(loaded: Loaded) -> list[int]:
    """Eight different ordinary tokens, always the same."""
    special = set(loaded.tokenizer.all_special_ids)
    most = min(len(loaded.tokenizer), loaded.anatomy.shape.vocabulary)
    step = max(1, most // (TOKENS + 1))
    found = [id for id in range(step, most, step) if id not in special]
    found += [id for id in range(most) if id not in special and id not in found]
    return found[:TOKENS]


def _watch(loaded: Loaded, ids_BT: list[list[int]], plan: Plan | None = None) -> _Watched:
    watched = _Watched(torch.empty(0))

    def see(call: Call, maps_BHTS: Tensor) -> None:
        watched.maps[call.layer], watched.calls[call.layer] = maps_BHTS, call

    def most(layer: int) -> Callable[[Tensor], None]:
        return lambda units: watched.active.__setitem__(layer, int(units.abs().flatten(0, -2).amax(0).argmax()))

    read = {f"ffn.{layer}": most(layer) for layer in ends(loaded.anatomy.write)}
    watched.answer = forward.run(loaded, ids_BT, plan, see=see, read=read)
    return watched


def _all_layers(loaded: Loaded) -> Promise:
    shape = loaded.anatomy.shape
    found = len(shape.attention_layers)
    return Promise(
        name="every layer calls for attention", kept=found == shape.layers,
        detail=f"{found} of {shape.layers} layers call the attention function; only these are shown",
    )  # fmt: skip


def _sums(loaded: Loaded, watched: _Watched) -> Promise:
    most = max(float((maps.sum(-1) - 1).abs().max()) for maps in watched.maps.values())
    return Promise(
        name="rows sum to one", kept=None if loaded.anatomy.sinks else most <= 1e-4, needed_by=ATTENTION,
        detail=f"a row is off by {most:.1e} at most" + (", which goes to a learned sink" * loaded.anatomy.sinks),
    )  # fmt: skip


def _triangle(loaded: Loaded, watched: _Watched) -> Promise:
    if not loaded.anatomy.shape.causal:
        return Promise(name="nothing above the diagonal", kept=None, detail="this model reads both ways")
    most = max(float(maps.triu(1).abs().max()) for maps in watched.maps.values())
    return Promise(
        name="nothing above the diagonal", kept=most == 0, needed_by=ATTENTION,
        detail=f"the largest weight on a later token is {most:.1e}",
    )  # fmt: skip


def _eager(loaded: Loaded, ids: list[int], watched: _Watched) -> tuple[Promise, Promise]:
    """Whether states and maps are those of the model as it runs without us."""
    with kernel.without(loaded.model), torch.inference_mode():
        answer = loaded.anatomy.trunk(
            input_ids=torch.tensor([ids], device=loaded.anatomy.device), use_cache=False, output_attentions=True
        )
    theirs = [maps for maps in answer.attentions or () if maps is not None]
    return _eager_states(loaded, answer.last_hidden_state, watched), _eager_maps(loaded, theirs, watched)


def _eager_states(loaded: Loaded, theirs_BTD: Tensor, watched: _Watched) -> Promise:
    apart = float((theirs_BTD - watched.answer).abs().max()) / (1 + float(theirs_BTD.abs().max()))
    kept = apart <= 10 * tolerance(loaded)
    return Promise(
        name="states equal eager's", kept=kept if exact(loaded) else kept or None, needed_by=INSTRUMENTS,
        detail=f"they differ from the model's own by {apart:.1e} of their size" + f" ({ROUNDED})" * (not exact(loaded)),
    )  # fmt: skip


def _eager_maps(loaded: Loaded, theirs: list[Tensor], watched: _Watched) -> Promise:
    name = "maps equal eager's"
    if len(theirs) != len(watched.maps):
        # A shared function makes the maps that the model uses; what was only watched must be seen to be them.
        kept = False if loaded.anatomy.watched else None
        detail = "this model does not return its own maps, so they were not compared"
        return Promise(name=name, kept=kept, detail=detail, needed_by=ATTENTION)
    pairs = zip(theirs, (watched.maps[layer] for layer in sorted(watched.maps)), strict=True)
    apart = [float((one.float() - other).abs().max()) for one, other in pairs]
    if not exact(loaded):
        # Every layer rounds what it hands on, and other kernels round otherwise: only the first gets equal inputs.
        detail = f"the first layer's differ by {apart[0]:.1e} at most, all layers' by {max(apart):.1e}: {ROUNDED}"
        return Promise(name=name, kept=apart[0] <= tolerance(loaded), needed_by=ATTENTION, detail=detail)
    return Promise(
        name=name, kept=max(apart) <= tolerance(loaded), needed_by=ATTENTION,
        detail=f"the largest difference from the model's own eager maps is {max(apart):.1e}",
    )  # fmt: skip


def _asking(loaded: Loaded, ids: list[int]) -> Promise:
    plain = forward.run(loaded, [ids])
    asked = _watch(loaded, [ids]).answer
    return Promise(
        name="asking for maps changes nothing", kept=torch.equal(plain, asked), needed_by=ATTENTION,
        detail=f"the largest change of the final states is {float((plain - asked).abs().max()):.1e}",
    )  # fmt: skip


def _empty_plan(loaded: Loaded, ids: list[int]) -> Promise:
    """Tables of identities everywhere, against the model called directly."""
    with torch.inference_mode():
        device = loaded.anatomy.device
        plain = loaded.anatomy.trunk(input_ids=torch.tensor([ids], device=device), use_cache=False)
    planned = forward.run(loaded, [ids], identity(loaded.anatomy, 1, len(ids)))
    most = float((plain.last_hidden_state - planned).abs().max())
    return Promise(
        name="an empty plan changes nothing", kept=torch.equal(plain.last_hidden_state, planned), needed_by=ATTENTION,
        detail=f"the largest change of the final states is {most:.1e}",
    )  # fmt: skip


def _rows_alone(loaded: Loaded, alone: _Watched, together: _Watched, noise: float) -> Promise:
    apart = float((alone.answer[0] - together.answer[0]).abs().max()) / (1 + float(alone.answer.abs().max()))
    kept = noise <= tolerance(loaded) and apart <= 10 * tolerance(loaded)
    return Promise(
        name="a row beside edited rows equals itself alone", kept=kept if exact(loaded) else None,
        needed_by=ATTENTION,
        detail=f"its maps differ by {noise:.1e} at most; this is the noise of every difference"
        + ("" if exact(loaded) else f" ({ROUNDED})"),
    )  # fmt: skip


def _padding(loaded: Loaded, ids: list[int]) -> Promise:
    """Whether a text with padding before it gives the numbers that it gives alone."""
    name = "padding changes nothing"
    if not loaded.anatomy.shape.causal:
        return Promise(name=name, kept=None, detail="texts of this model are not batched with padding")
    mask_BT = torch.tensor([[0] * PADDING + [1] * TOKENS])
    alone = forward.run(loaded, [ids])
    try:
        padded = forward.run(
            loaded, [ids[:1] * PADDING + ids], mask_BT=mask_BT, positions_BT=(mask_BT.cumsum(-1) - 1).clamp(min=0)
        )
    except (CannotShow, RuntimeError, TypeError, ValueError) as error:
        return Promise(name=name, kept=False, detail=f"it cannot be padded: {str(error).splitlines()[0]}")
    apart = float((alone[0] - padded[0, PADDING:]).abs().max()) / (1 + float(alone.abs().max()))
    kept = apart <= 10 * tolerance(loaded)
    return Promise(
        name=name, kept=kept if exact(loaded) else kept or None,
        detail=f"final states differ by {apart:.1e} of their size" + "; it is never batched with others" * (not kept),
    )  # fmt: skip


def _reduction(loaded: Loaded, alone: _Watched) -> Promise:
    """Whether thumbnails and entropies may come from queries and keys alone; if so, they will."""
    name = "maps need not be made to be reduced"
    marks = Marks(*torch.ones(3, TOKENS, dtype=torch.bool, device=loaded.anatomy.device))
    reducer = Reducer(TOKENS, marks, Reading(), 4, loaded.anatomy.sinks)
    beside = {layer: Recomputed(call, reduces=True) for layer, call in alone.calls.items()}
    if not loaded.fused or not all(reducer.may_fuse(maps.scores, _facts(reducer, maps)) for maps in beside.values()):
        return Promise(name=name, kept=None, detail="they are made anyway, or cannot be had otherwise")
    try:
        apart = [_reduced_apart(reducer, alone.maps[layer], maps, alone.calls[layer]) for layer, maps in beside.items()]
    except Exception as error:  # Triton raises nothing finer where a compiler is missing or a card is too old
        return Promise(
            name=name, kept=None, detail=f"they are made: the kernel does not run here ({type(error).__name__})"
        )
    loaded.reduces = max(apart) <= REDUCED_APART
    return Promise(
        name=name, kept=loaded.reduces,
        detail=f"what is reduced beside the forward differs from the reduced maps by {max(apart):.1e}",
    )  # fmt: skip


def _facts(reducer: Reducer, maps: Recomputed) -> Seen:
    mask_BTS = maps.call.mask_BTS
    return reducer.sees(None if mask_BTS is None else mask_BTS[0, 0])


def _reduced_apart(reducer: Reducer, maps_BHTS: Tensor, beside: Maps, call: Call) -> float:
    mask_TS = None if call.mask_BTS is None else call.mask_BTS[0, 0]
    one, other = (reducer.reduce(maps, mask_TS, lasting=True) for maps in (Whole(maps_BHTS[0]), beside))
    assert one.cells_HQK is not None
    assert other.cells_HQK is not None
    changes = [(one.rows[name] - other.rows[name]).abs().max() for name in ("entropy", "previous", "distance")]
    return float(max((one.cells_HQK - other.cells_HQK).abs().max(), *changes))


def _last_lens_row(loaded: Loaded, ids: list[int]) -> Promise:
    name = READ_OUT
    if loaded.anatomy.unembedding is None or not loaded.anatomy.shape.causal:
        return Promise(name=name, kept=None, detail="this model predicts no next token", needed_by=("write",))
    try:
        states = forward.run(loaded, [ids])
        ReadOut(loaded.model).check(states[0], forward.run(loaded, [ids], logits=True)[0])
    except CannotShow as error:
        return Promise(name=name, kept=False, detail=error.why, needed_by=("write",))
    detail = "the read-out of the final states is what the model says"
    return Promise(name=name, kept=True, detail=detail, needed_by=("write",))


def _lens(loaded: Loaded, ids: list[int]) -> Promise:
    """Whether streams may be read through the final norm: that of the last block must give the final states."""
    anatomy = loaded.anatomy
    if anatomy.unembedding is None or not anatomy.shape.causal:
        return Promise(name=LENS, kept=None, detail="this model predicts no next token", needed_by=("trace", "cell"))
    if anatomy.final_norm is None:
        detail = "no module was found whose output is what the output embedding takes"
        return Promise(name=LENS, kept=None, detail=detail, needed_by=("trace", "cell"))
    last: list[Tensor] = []
    states = forward.run(loaded, [ids], read={f"residual.{anatomy.shape.layers - 1}": last.append})
    if not last or last[0].shape[-1] != anatomy.shape.width:
        return Promise(name=LENS, kept=False, detail="its blocks do not give one stream", needed_by=("trace", "cell"))
    with torch.inference_mode():
        found = anatomy.final_norm(last[0])
    apart = float((found - states).abs().max()) if found.shape == states.shape else torch.inf
    return Promise(
        name=LENS,
        kept=apart <= 10 * tolerance(loaded),
        needed_by=("trace", "cell"),
        detail=f"they differ by {apart:.1e} at most",
    )


def _writing(loaded: Loaded, ids: list[int]) -> Promise:
    """Finds how the model may write, and keeps it."""
    loaded.writes, promise = ways.way_of(loaded, ids, 10 * tolerance(loaded))
    return promise


def _tied(loaded: Loaded) -> Promise:
    name = "tied weights are tied"
    claimed = bool(getattr(loaded.model.config.get_text_config(), "tie_word_embeddings", False))
    if loaded.anatomy.unembedding is None or not claimed:
        return Promise(name=name, kept=None, detail="the configuration ties no weights")
    tables = [part.get_parameter("weight") for part in (loaded.anatomy.embedding, loaded.anatomy.unembedding)]
    same = tables[0].data_ptr() == tables[1].data_ptr()
    return Promise(name=name, kept=same, detail="embedding and unembedding " + ("share" if same else "do not share"))


def _abilities(promises: tuple[Promise, ...]) -> dict[str, Ability]:
    """An instrument is offered unless a promise that it needs is broken; then it says which."""
    can = {}
    for instrument in INSTRUMENTS:
        needed = [promise for promise in promises if instrument in promise.needed_by]
        broken = [f"not kept: {promise.name} ({promise.detail})" for promise in needed if promise.kept is False]
        broken += [promise.detail for promise in needed if promise.name in MUST and promise.kept is None]
        can[instrument] = Ability(can=not broken, why="; ".join(dict.fromkeys(broken)))
    return can
