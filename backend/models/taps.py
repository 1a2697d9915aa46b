"""Taps: placed once at load, silent unless a run is on in this context, never added or removed afterwards.

Axes: B rows, T tokens, H heads, D width, R rows of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from backend.models.anatomy import Anatomy
    from backend.models.kernel import Call
    from backend.models.plan import Plan

Cancel = Callable[[], None]
"""Raises `errors.Cancelled` when nobody wants the answer any more."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the taps of one forward pass are to do."""

    layer_of: Mapping[nn.Module, int]
    """Block number of every module that computes attention."""
    plan: Plan | None = None
    see: Callable[[Call, Tensor], None] | None = None
    """Given each layer's call and its maps_BHTS (float32), as the layer is computed."""
    hold: Callable[[Call], None] | None = None
    """Given each layer's call, without its maps."""
    read: Mapping[str, Callable[[Tensor], None]] = field(default_factory=dict)
    """By tap, or `embedding` for what enters block 0: given what the tap holds after its edits."""
    instead: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)
    """By tap that is the output of a module, or `embedding`: given what it holds after its edits, what it then holds.
    """
    freeze: Callable[[nn.Module, Tensor, Tensor], Tensor] | None = None
    """Given each norm as wide as the stream, what it took and what it gave: what it gives then."""
    acted: dict[str, Tensor] | None = None
    """By tap that changed something: the plan's row that it took for every token, as it took it."""
    cancel: Cancel | None = None
    products: bool = False
    """Whether `hold` is told what the scores of watched attention come from, too."""
    tokens: int | None = None
    """How many tokens each row has, where attention must be of these on these; None: keys may come from a cache."""
    attention: list[nn.Module] = field(default_factory=list)
    """The attention module that runs now, where it is only watched."""
    masks: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Masks met so far (by identity), each beside its boolean form: layers share them."""


_running: ContextVar[Run | None] = ContextVar("lmscope_run", default=None)


def current() -> Run | None:
    """The run of this context, or None: then every tap returns at once."""
    return _running.get()


@contextmanager
def running(run: Run) -> Iterator[None]:
    """Switch the taps on for one forward pass. Raises `RuntimeError` when a run is on already."""
    if _running.get() is not None:
        raise RuntimeError("a forward pass is already running in this context; runs do not nest")
    token = _running.set(run)
    try:
        yield
    finally:
        _running.reset(token)


def place(anatomy: Anatomy) -> None:
    """Put every tap of a model where it belongs. Called once, at load."""
    if anatomy.watched:
        for module in anatomy.attention.values():
            module.register_forward_pre_hook(_attention_begins)
            module.register_forward_hook(_attention_ends, always_call=True)
    for module in anatomy.norms:
        module.register_forward_hook(_AfterNorm(anatomy.shape.width), with_kwargs=True)
    anatomy.blocks[0].register_forward_pre_hook(_entering, with_kwargs=True)
    for layer, module in anatomy.projections.items():
        module.register_forward_pre_hook(_Before(f"heads.{layer}", anatomy.shape.heads))
        module.register_forward_hook(_After(f"attention_out.{layer}"))
    for layer, module in anatomy.attention.items():
        if layer not in anatomy.projections:
            module.register_forward_hook(_After(f"attention_out.{layer}"))
    for layer, module in anatomy.write.items():
        module.register_forward_pre_hook(_Before(f"ffn.{layer}", anatomy.units or 1))
        if len(keys := anatomy.keys[layer]) == 1:
            keys[0].register_forward_hook(_After(f"pre.{layer}"))
    for layer, module in anatomy.feeds.items():
        module.register_forward_hook(_After(f"ffn_out.{layer}"))
    for layer, block in enumerate(anatomy.blocks if anatomy.stream else ()):
        block.register_forward_hook(_After(f"residual.{layer}"))
    if anatomy.unembedding is not None:
        anatomy.unembedding.register_forward_pre_hook(_before_unembedding)


class _Before:
    """Edits and reads what a module is about to take: heads before they are merged, units before they are written."""

    def __init__(self, tap: str, parts: int) -> None:
        self.tap, self.parts = tap, parts

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        run = _running.get()
        if run is None:
            return None
        taken, *rest = args
        edited = _edited(run, self.tap, taken, self.parts)
        _tell(run, self.tap, edited, self.parts if self.tap.startswith("heads") else None)
        return None if edited is taken else (edited, *rest)


class _After:
    """Edits and reads what a module gives: a block the residual stream, attention and feed-forward what they write."""

    def __init__(self, tap: str) -> None:
        self.tap = tap

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        run = _running.get()
        if run is None:
            return None
        given, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        if not isinstance(given, Tensor):
            return None
        edited = _edited(run, self.tap, given, 1)
        if (instead := run.instead.get(self.tap)) is not None:
            edited = instead(edited)
        _tell(run, self.tap, edited)
        if edited is given:
            return None
        return edited if rest is None else (edited, *rest)


class _AfterNorm:
    """Lets a run say what a norm of the stream gives. One without a gain may norm narrower things too, as they are."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Tensor
    ) -> Tensor | None:
        run = _running.get()
        if run is None or run.freeze is None:
            return None
        taken = args[0] if args else next(iter(named.values()))
        return run.freeze(module, taken, output) if taken.shape[-1] == self.width else None


def _attention_begins(module: nn.Module, args: tuple[Any, ...]) -> None:
    run = _running.get()
    if run is not None:
        run.attention.append(module)
        if run.cancel is not None:
            run.cancel()


def _attention_ends(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    run = _running.get()
    if run is not None and run.attention:
        run.attention.pop()


def _entering(
    module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Reads what enters block 0, or puts something else there."""
    run = _running.get()
    if run is None or ("embedding" not in run.read and "embedding" not in run.instead):
        return None
    given = args[0] if args else named["hidden_states"]
    _tell(run, "embedding", given)
    if (instead := run.instead.get("embedding")) is None:
        return None
    given = instead(given)
    return ((given, *args[1:]), named) if args else (args, named | {"hidden_states": given})


def _before_unembedding(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Steers what the output embedding takes: c becomes c + ((c left) * amount) right."""
    run = _running.get()
    if run is None:
        return None
    taken, *rest = args
    edited = taken
    if run.plan is not None and (steering := run.plan.steering) is not None:
        row = run.plan.row_BT.reshape(taken.shape[:-1]).to(taken.device)
        wide = taken.float()
        edited = wide + ((wide @ steering.left_DK) * steering.amount_RK[row]) @ steering.right_KD
        edited = edited.to(taken.dtype)
        if run.acted is not None:
            run.acted["unembed"] = row
    _tell(run, "unembed", edited)
    return None if edited is taken else (edited, *rest)


def _edited(run: Run, tap: str, x: Tensor, parts: int) -> Tensor:
    """x with the plan's edits of this tap; x itself when there are none. Computed in float32, in the dtype of x."""
    if run.plan is None or tap not in run.plan.tables:
        return x
    table = run.plan.tables[tap]
    row = run.plan.row_BT.reshape(x.shape[:-1]).to(x.device)  # some families flatten [B, T]
    apart = x.unflatten(-1, (parts, -1)).clone()
    chosen = apart[..., table.parts_N, :].float()
    changed = chosen * table.scale_RN[row][..., None] + table.shift_RNW[row]
    apart[..., table.parts_N, :] = changed.to(x.dtype)
    if run.acted is not None:
        run.acted[tap] = row
    return apart.flatten(-2)


def _tell(run: Run, tap: str, value: Tensor, parts: int | None = None) -> None:
    if (reader := run.read.get(tap)) is not None:
        reader(value if parts is None else value.unflatten(-1, (parts, -1)))
