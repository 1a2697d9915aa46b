"""Anatomy: where the parts of a model are, found by asking it, without a name of any family.

Public doors (`get_input_embeddings`, `get_output_embeddings`, `config`), structure, and one probe of four tokens in
which the registered attention function says who calls it. What cannot be found is absent; a guess is never made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from backend import errors
from backend.measure.reading import Norm
from backend.models import taps
from backend.models.kernel import Call, tell
from backend.models.norms import norms_of
from backend.models.readout import trunk_of
from backend.models.watched import Product, Watch
from backend.schema import Shape

PROBE_TOKENS = 4


@dataclass(frozen=True)
class Anatomy:
    """The parts of one loaded model."""

    shape: Shape
    device: torch.device
    """Where token ids go: the device of the embedding."""
    trunk: nn.Module
    """Everything before the read-out: the model itself, where it has none."""
    blocks: tuple[nn.Module, ...]
    attention: Mapping[int, nn.Module]
    """Of each block that has attention: the module that calls the attention function."""
    projections: Mapping[int, nn.Module]
    """Of each of these blocks: the module that takes the merged heads (W_O)."""
    layer_of: Mapping[nn.Module, int]
    embedding: nn.Module
    unembedding: nn.Module | None
    final_norm: nn.Module | None
    """The module whose output is the input of the unembedding."""
    write: Mapping[int, nn.Module] = field(default_factory=dict)
    """Of each block: the matrix that writes the feed-forward units into the stream; empty when not certain."""
    write_why: str = ""
    """Why `write` is empty."""
    keys: Mapping[int, tuple[nn.Module, ...]] = field(default_factory=dict)
    """Of each block with known units: the maps that make their coefficients: one, two in gated blocks, or one that is
    twice as wide."""
    feeds: Mapping[int, nn.Module] = field(default_factory=dict)
    """Of each block whose feed-forward part is known: the module that gives what it writes; where the units are known,
    that is `write`."""
    norms: Mapping[nn.Module, Norm] = field(default_factory=dict)
    """Every norm as wide as the stream, as numbers."""
    stream: bool = True
    """Every block gives one residual stream [B, T, D]."""
    watched: bool = False
    """Its attention calls no shared function and is watched instead (`models/watched.py`)."""
    sinks: bool = False
    """Rows of the maps may sum to less than one: the rest went to a learned sink."""
    vocabulary: str = ""
    """SHA-256 of the tokens in order, by which a steer of another model is known; put in at load."""

    @classmethod
    def of(cls, model: PreTrainedModel) -> Anatomy:
        """Ask a model. Raises `NoAttention` when no attention can be read."""
        blocks = _blocks(model)
        probe = _Probe(model, blocks)
        probe.run()
        if watched := not probe.calls:
            probe = _Probe(model, blocks, watched=True)
            probe.run()
        calls = probe.calls
        if not calls:
            raise _no_attention(model, "none of its modules makes weights over keys: no call, no softmax")
        heads, groups, width = _sizes(model, calls)
        attention = {layer: call.module for layer, call in calls.items()}
        projections = probe.projections
        write, write_why = _write(blocks, attention, projections, _text_config(model).hidden_size)
        embedding, trunk = model.get_input_embeddings(), trunk_of(model)
        table = embedding.get_parameter("weight")
        return cls(
            shape=Shape(
                layers=len(blocks), heads=heads, kv_heads=groups, head_width=width,
                width=_text_config(model).hidden_size, vocabulary=table.shape[0],
                context=_context(model), attention_layers=tuple(sorted(attention)),
                causal=all(_causal(call) for call in calls.values()), window=_window(calls),
                parameters=sum(parameter.numel() for parameter in model.parameters()),
            ),
            device=table.device, trunk=trunk, blocks=tuple(blocks),
            attention=attention, projections=projections,
            layer_of={module: layer for layer, module in attention.items()}, embedding=embedding,
            unembedding=model.get_output_embeddings(), final_norm=probe.final_norm,
            norms=norms_of(trunk, _text_config(model).hidden_size, table.device), write=write, write_why=write_why,
            keys={
                layer: _keys(blocks[layer], attention[layer], projections.get(layer), module)
                for layer, module in write.items()
            },
            feeds=write or _feeds(blocks, attention, projections),
            stream=probe.streams == len(blocks), sinks=probe.sinks, watched=watched,
        )  # fmt: skip

    @property
    def units(self) -> int | None:
        """Feed-forward units of a block, where they are known."""
        weight = matrix(self.write[0]) if self.write else None
        return None if weight is None else weight.shape[0]

    def output_matrix(self, layer: int) -> Tensor | None:
        """W_O of a layer as [heads * head width, width], or None when its projection is not a plain matrix."""
        module = self.projections.get(layer)
        return None if module is None else matrix(module)


def matrix(module: nn.Module) -> Tensor | None:
    """The weight of a linear map as (in, out), whichever way round it is stored."""
    if isinstance(module, Conv1D):
        return module.weight
    return module.weight.T if isinstance(module, nn.Linear) else None


def _text_config(model: PreTrainedModel) -> Any:
    return model.config.get_text_config()


def _blocks(model: PreTrainedModel) -> nn.ModuleList:
    """The list of blocks: the only outermost ModuleList as long as the config's number of layers."""
    layers = _text_config(model).num_hidden_layers
    found = {name: part for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    fitting = {
        name: part for name, part in found.items()
        if len(part) == layers and not any(name.startswith(f"{other}.") for other in found if other != name)
    }  # fmt: skip
    if len(fitting) != 1:
        others = ", ".join(f"{name} of {len(part)}" for name, part in found.items())
        raise _no_attention(
            model,
            f"its {layers} blocks were looked for as one list, and {len(fitting)} lists of that length were found"
            f" (its lists: {others or 'none'})",
        )
    return next(iter(fitting.values()))


def _sizes(model: PreTrainedModel, calls: Mapping[int, Call]) -> tuple[int, int, int]:
    """Query heads, key/value heads and head width, which must be the same in every layer."""
    sizes = {(call.query_BHTD.shape[1], _groups(call.value_BGSD), call.value_BGSD.shape[-1]) for call in calls.values()}
    if len(sizes) != 1:
        told = "; ".join(f"{heads} heads on {groups} of {width} numbers" for heads, groups, width in sorted(sizes))
        raise _no_attention(model, f"its layers differ in heads, key/value heads or head width: {told}")
    return sizes.pop()


def _groups(value_BGSD: Tensor) -> int:
    """Key/value heads: a value that is given to several heads in a row, already repeated, counts once."""
    given = value_BGSD.shape[1]
    for groups in (groups for groups in range(1, given) if given % groups == 0):
        shared = value_BGSD.unflatten(1, (groups, -1))
        if torch.equal(shared, shared[:, :, :1].expand_as(shared)):
            return groups
    return given


def _no_attention(model: PreTrainedModel, why: str) -> errors.NoAttention:
    return errors.NoAttention(
        f"{type(model).__name__} cannot be opened",
        f"its attention cannot be read: {why}",
        "Choose a model of an architecture such as Llama, Mistral, Qwen, Gemma, GPT-2, GPT-NeoX, OPT or BERT.",
    )


def _causal(call: Call) -> bool:
    """Whether no query of the probe saw a later token."""
    return call.mask_BTS is not None and not bool(call.mask_BTS.triu(1).any())


def _window(calls: Mapping[int, Call]) -> int | None:
    """Keys that the narrowest layer sees at most: a window of n reaches n − 1 tokens back, or back and forth."""
    windows = [
        window if _causal(call) else 2 * window - 1
        for call in calls.values() if (window := call.options.get("sliding_window")) is not None
    ]  # fmt: skip
    return min(windows, default=None)


def _context(model: PreTrainedModel) -> int | None:
    """Positions the model was made for, less those that a padding index takes away."""
    stated = getattr(_text_config(model), "max_position_embeddings", None)
    if not isinstance(stated, int) or stated <= 0:
        return None
    for part in model.modules():
        if isinstance(part, nn.Embedding) and part.num_embeddings == stated and part.padding_idx is not None:
            return stated - part.padding_idx - 1
    return stated


def _write(
    blocks: nn.ModuleList, attention: Mapping[int, nn.Module], projections: Mapping[int, nn.Module], width: int
) -> tuple[dict[int, nn.Module], str]:
    """The one linear map of each block, outside its attention, that writes into the stream; or why there is none."""
    if len(attention) != len(blocks):
        return {}, "not every block has attention, so another mixer could be mistaken for the feed-forward part"
    found: dict[int, nn.Module] = {}
    for layer, block in enumerate(blocks):
        if _stacked(block):
            return {}, f"block {layer} is a mixture of experts, which has no single write matrix"
        written = matrix(projections[layer]) if layer in projections else None
        if written is not None and written.shape[1] != width:
            return {}, f"the attention of block {layer} writes {written.shape[1]} numbers and the stream has {width}"
        inside = _attending(block, attention[layer], projections.get(layer))
        fitting = {
            name: part for name, part in block.named_modules()
            if part not in inside and (weight := matrix(part)) is not None and weight.shape[1] == width
        }  # fmt: skip
        if len(fitting) != 1:
            return {}, f"block {layer} has {len(fitting)} maps that could write units: {', '.join(fitting) or 'none'}"
        found[layer] = next(iter(fitting.values()))
    widths = {matrix(module).shape[0] for module in found.values()}  # type: ignore[union-attr]
    return (found, "") if len(widths) == 1 else ({}, f"the number of units differs between blocks: {sorted(widths)}")


def _keys(
    block: nn.Module, attention: nn.Module, projection: nn.Module | None, write: nn.Module
) -> tuple[nn.Module, ...]:
    """The linear maps outside attention that give as many numbers as the block has units, or twice as many."""
    value_FD, inside = matrix(write), {*_attending(block, attention, projection), write}
    assert value_FD is not None, "as found"
    units, width = value_FD.shape
    return tuple(
        part for part in block.modules()
        if part not in inside and (weight := matrix(part)) is not None
        and weight.shape in ((width, units), (width, 2 * units))
    )  # fmt: skip


def _feeds(
    blocks: nn.ModuleList, attention: Mapping[int, nn.Module], projections: Mapping[int, nn.Module]
) -> dict[int, nn.Module]:
    """Of each block that attends: its only other part with matrices, such as a mixture of experts."""
    found: dict[int, nn.Module] = {}
    for layer in attention:
        inside = _attending(blocks[layer], attention[layer], projections.get(layer))
        others = [
            part for part in blocks[layer].children()
            if part not in inside and attention[layer] not in set(part.modules())
            and any(parameter.ndim > 1 for parameter in part.parameters())
        ]  # fmt: skip
        if len(others) == 1:
            found[layer] = others[0]
    return found


def _attending(block: nn.Module, attention: nn.Module, projection: nn.Module | None) -> set[nn.Module]:
    """Everything that belongs to the attention of a block; where its projection is not known, all that is around it."""
    if projection is not None:
        return {*attention.modules(), projection}
    return next((parts for child in block.children() if attention in (parts := set(child.modules()))), {attention})


def _stacked(block: nn.Module) -> bool:
    """Whether a block holds matrices one upon the other, as mixtures of experts do; a convolution is no such stack."""
    return any(
        parameter.ndim == 3
        for part in block.modules() if not isinstance(part, nn.Conv1d)
        for parameter in part.parameters(recurse=False)
    )  # fmt: skip


class _Probe:
    """One forward pass of four tokens under watch: who calls for attention, who takes its output, what is read out."""

    def __init__(self, model: PreTrainedModel, blocks: nn.ModuleList, watched: bool = False) -> None:
        self.model, self.blocks, self.watched = model, blocks, watched
        self._running: list[nn.Module] = []
        self._run: taps.Run | None = None
        self.calls: dict[int, Call] = {}
        self.projections: dict[int, nn.Module] = {}
        self.final_norm: nn.Module | None = None
        self.sinks = False
        self.streams = 0
        """Blocks that gave one stream."""
        self._block_of = {module: layer for layer, block in enumerate(blocks) for module in block.modules()}
        self._waiting: dict[int, Tensor] = {}
        self._outputs: list[tuple[nn.Module, Tensor]] = []

    def run(self) -> None:
        """Raises `NoAttention` when the model cannot read four tokens."""
        ids = torch.arange(PROBE_TOKENS) + _text_config(self.model).vocab_size // 2
        device = self.model.get_input_embeddings().get_parameter("weight").device
        self._run = run = taps.Run(layer_of=self._block_of, see=self._see, tokens=PROBE_TOKENS)
        parts = set(self.model.modules())
        try:
            with torch.inference_mode(), self._watching(), taps.running(run), self._watch():
                self.model(input_ids=ids[None].to(device), use_cache=False)
        except torch.OutOfMemoryError:
            raise
        except errors.CannotShow as error:
            raise _no_attention(self.model, error.why) from error
        except Exception as error:  # the code of any family may raise anything: it cannot be opened
            told = f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no words'])[0]}"
            raise _no_attention(self.model, f"a probe of {PROBE_TOKENS} tokens failed ({told})") from error
        if parts != set(self.model.modules()):
            raise _no_attention(self.model, "it exchanges its own parts with the length of the text")

    def _watch(self) -> AbstractContextManager[Any]:
        if not self.watched:
            return nullcontext()
        return Watch(lambda: self._running[-1] if self._running else None, 1, self._told)

    def _told(
        self, module: nn.Module, maps_BHTS: Tensor, value_BGSD: Tensor, visible_BTS: Tensor, product: Product | None
    ) -> None:  # fmt: skip
        call = Call.watched(self._block_of[module], module, maps_BHTS, value_BGSD, visible_BTS)
        assert self._run is not None
        tell(self._run, call, lambda: maps_BHTS)

    def _see(self, call: Call, maps_BHTS: Tensor) -> None:
        if call.layer in self.calls:
            raise ValueError(f"block {call.layer} calls for attention more than once")
        if not torch.allclose(maps_BHTS.sum(-1), torch.ones(()).to(maps_BHTS), atol=1e-3):
            self.sinks = True
        self.calls[call.layer] = call
        self._waiting[call.layer] = torch.matmul(maps_BHTS, _repeated(call.value_BGSD.float(), maps_BHTS.shape[1]))

    @contextmanager
    def _watching(self) -> Iterator[None]:
        handles = [part.register_forward_pre_hook(self._enter) for part in self._block_of if not list(part.children())]
        handles += [part.register_forward_hook(self._leave) for part in self.model.modules()]
        handles += [block.register_forward_hook(self._stream) for block in self.blocks]
        if self.watched:
            parts = [part for part in self._block_of if list(part.children())]  # a softmax of its own is its parent's
            handles += [part.register_forward_pre_hook(self._begin) for part in parts]
            handles += [part.register_forward_hook(self._end, always_call=True) for part in parts]
        if (unembedding := self.model.get_output_embeddings()) is not None:
            handles.append(unembedding.register_forward_pre_hook(self._read_out))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _begin(self, module: nn.Module, args: Any) -> None:
        self._running.append(module)

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        self._running.pop()

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """The first linear map whose input is the merged output of the block's attention is its projection."""
        layer = self._block_of[module]
        expected_BHTD = self._waiting.get(layer)
        if expected_BHTD is None or layer in self.projections or matrix(module) is None or not args:
            return
        expected = expected_BHTD.transpose(1, 2).flatten(-2)
        given = args[0].float()
        if (
            given.numel() == expected.numel()
            and (given.reshape(expected.shape) - expected).norm() <= 0.01 * expected.norm()
        ):
            self.projections[layer] = module

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor) and not list(module.children()) and not any(given is output for given in args):
            self._outputs.append((module, output))

    def _stream(self, block: nn.Module, args: Any, output: Any) -> None:
        given = output[0] if isinstance(output, tuple) else output
        expected = (1, PROBE_TOKENS, _text_config(self.model).hidden_size)
        self.streams += isinstance(given, Tensor) and given.shape == expected

    def _read_out(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        for candidate, output in reversed(self._outputs):
            if output.numel() == args[0].numel() and torch.equal(output.reshape(-1), args[0].reshape(-1)):
                self.final_norm = candidate
                return


def _repeated(value_BGSD: Tensor, heads: int) -> Tensor:
    return value_BGSD.repeat_interleave(heads // value_BGSD.shape[1], dim=1)
