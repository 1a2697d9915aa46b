"""Circuits: a head's W_VO or W_QK as two thin factors in the vocabulary, tokens × numbers of the head.

The table tokens × tokens is A Bᵀ with A = E_in L and B = E R: L and R are the head's matrices with the norms folded in.
Source: Dar et al. 2023, "Analyzing transformers in embedding space", §3; Elhage et al. 2021 (folding a norm).
Axes: V vocabulary, D width, K numbers of a head, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backend import errors
from backend.measure import keep
from backend.measure.reading import Reader, gram
from backend.models.checks import check_head
from backend.models.loaded import Loaded
from backend.models.positions import Turn
from backend.models.projections import Kind, Projection
from backend.models.reading import NO_READ_OUT, WITH_INPUT, not_folded, reader, unfoldable
from backend.schema import Ability, Circuit, Inverse, ReadAs

NAMES: dict[Kind, str] = {"query": "queries", "key": "keys", "value": "values"}
RAW = "Ask with the reading `raw`."
OTHER = "Look at another head, or at another model."


@dataclass(frozen=True)
class Side:
    """One side of a table: vectors of tokens, as the head reads or writes them."""

    embedding_VD: Tensor
    map_KD: Tensor
    """float32: what meets a token's vector of the stream."""
    finish: Callable[[Tensor], Tensor] | None = None
    """What is done to the vectors [V, K] then, if not linear in the embedding's rows."""
    dual_DD: Tensor | None = None
    """float64: turns rows of the embedding into those of its pseudo-inverse; None: tokens are the rows themselves."""

    @property
    def rows_KD(self) -> Tensor:
        """float32: what meets the embedding's rows themselves."""
        return self.map_KD if self.dual_DD is None else (self.map_KD.double() @ self.dual_DD).float()

    def vectors(self) -> Tensor:
        """float32 [V, K]."""
        made_VK = Reader(self.embedding_VD).logits(self.rows_KD).T.contiguous()
        return made_VK if self.finish is None else self.finish(made_VK)


@dataclass(frozen=True)
class Table:
    """A head's circuit: rows × columns = A Bᵀ."""

    rows: Side
    columns: Side
    notices: tuple[str, ...] = ()

    @property
    def bilinear(self) -> bool:
        """Whether the table is a map of the stream, without a norm of queries and keys."""
        return self.rows.finish is None and self.columns.finish is None

    def turned(self, turn: Turn | None) -> Table:
        """With the query so far behind the key as a turn says."""
        if turn is None:
            return self
        finish = self.rows.finish
        return replace(self, rows=replace(self.rows, finish=lambda v: turn(v if finish is None else finish(v))))

    def raised(self, by: float) -> Table:
        """With a number added to every score: one more number on each side."""
        if not by:
            return self

        def beside(side: Side, number: float) -> Side:
            finish = side.finish
            return replace(
                side, finish=lambda v: torch.nn.functional.pad(v if finish is None else finish(v), (0, 1), value=number)
            )

        return Table(beside(self.rows, by), beside(self.columns, 1.0), self.notices)


def group_of(loaded: Loaded, head: int) -> int:
    """The key/value head of a query head."""
    shape = loaded.anatomy.shape
    return head // (shape.heads // shape.kv_heads)


def table(
    loaded: Loaded, circuit: Circuit, layer: int, head: int, reading: ReadAs, inverse: Inverse = "transpose"
) -> Table:  # fmt: skip
    """The factors of one head's circuit. Raises `CannotShow` where they are not known."""
    check_head(loaded.anatomy, layer, head)
    check_input(loaded)
    if circuit == "vo":
        notices = value_notices(loaded, layer)
        made = _made(loaded, "value", layer, head, reading, inverse)
        return Table(made, write_side(loaded, layer, head, reading), notices)
    rows, columns = (_made(loaded, kind, layer, head, reading, inverse) for kind in ("query", "key"))
    if reading == "folded":
        rows = _scaled(rows, loaded.projections.scaling[layer])
    return Table(rows, columns, query_notices(loaded, layer))


def check_input(loaded: Loaded) -> None:
    """Raise `CannotShow` where a token's embedding is no vector of the stream."""
    numbers, width = loaded.anatomy.embedding.get_parameter("weight").shape[1], loaded.anatomy.shape.width
    if numbers != width:
        raise errors.CannotShow(
            "The heads of this model cannot be read in its vocabulary",
            f"its input embedding has {numbers} numbers a token and its stream has {width}: another map stands between",
            "Choose a model whose embedding is as wide as its stream.",
        )


def read_side(
    loaded: Loaded, kind: Kind, layer: int, head: int, reading: ReadAs, inverse: Inverse = "transpose"
) -> Side:  # fmt: skip
    """The tokens through one matrix of a head, without a constant factor behind it."""
    found = projection(loaded, kind, layer)
    shared = len(found.index_HK) < loaded.anatomy.shape.heads
    weight_DK = found.weight(group_of(loaded, head) if shared else head)
    embedding_VD = loaded.anatomy.embedding.get_parameter("weight")
    dual_DD = dual(loaded) if inverse == "pseudo" else None
    if reading == "raw":
        return Side(embedding_VD, weight_DK.T.contiguous(), dual_DD=dual_DD)
    norm_rows = _before(loaded, layer)
    map_KD = norm_rows(weight_DK.T.to(embedding_VD.device))
    if not found.norm:
        return Side(embedding_VD, map_KD, dual_DD=dual_DD)
    if kind == "value":
        raise errors.CannotShow(
            f"W_V of layer {layer} is not linear in what it reads", "the model norms its values", RAW
        )
    fold = norm_rows if dual_DD is None else lambda rows_KD: (norm_rows(rows_KD).double() @ dual_DD).float()
    return Side(embedding_VD, map_KD, _normed(loaded, found, layer, head, fold), dual_DD)


def dual(loaded: Loaded) -> Tensor:
    """float64 [D, D] of the input embedding, made once and kept: its rows times it are those of its pseudo-inverse."""
    found: Tensor | None = loaded.kept.find("dual")
    if found is None:
        found = keep.dual(gram(loaded.anatomy.embedding.get_parameter("weight")))
        loaded.kept.keep("dual", found, found.nbytes)
    return found


def _made(loaded: Loaded, kind: Kind, layer: int, head: int, reading: ReadAs, inverse: Inverse) -> Side:
    """What a head makes of the tokens that it reads: folded, with the constant factor behind the matrix."""
    side, found = read_side(loaded, kind, layer, head, reading, inverse), projection(loaded, kind, layer)
    if reading == "raw" or found.norm:
        return side
    return replace(side, map_KD=side.map_KD * found.scale_K.to(side.map_KD)[:, None])


def write_side(loaded: Loaded, layer: int, head: int, reading: ReadAs) -> Side:
    """The tokens that a head writes."""
    rows_KD, used = output_rows(loaded, layer, head), writer(loaded, reading)
    return Side(used.embedding_VD, used.fold(rows_KD.to(used.embedding_VD.device)))


def writer(loaded: Loaded, reading: ReadAs) -> Reader:
    """How what is written is read: with the output embedding; raw in a model without a read-out, with the input one."""
    if loaded.anatomy.unembedding is not None:
        return reader(loaded, reading)
    check_input(loaded)
    if reading == "folded":
        raise unfoldable(NO_READ_OUT, WITH_INPUT)
    return Reader(loaded.anatomy.embedding.get_parameter("weight"))


def output_rows(loaded: Loaded, layer: int, head: int) -> Tensor:
    """float32 [K, D]: W_O of one head."""
    weight_XD = loaded.anatomy.output_matrix(layer)
    if weight_XD is None or not weight_XD.is_floating_point():
        raise errors.CannotShow(
            f"W_O of layer {layer} is not known", "no plain output matrix was found after its attention", OTHER
        )
    return weight_XD.view(loaded.anatomy.shape.heads, -1, weight_XD.shape[1])[head].float()


def projection(loaded: Loaded, kind: Kind, layer: int) -> Projection:
    """Raises `CannotShow` where it is not known."""
    found = loaded.projections.of.get((layer, kind))
    if found is None:
        why = loaded.projections.why.get((layer, kind), "it was not looked for")
        raise errors.CannotShow(f"What makes the {NAMES[kind]} of layer {layer} is not known", why, OTHER)
    return found


def ability(loaded: Loaded) -> Ability:
    """Whether some head can be read at all."""
    why = ""
    for layer in loaded.anatomy.shape.attention_layers:
        for circuit in ("vo", "qk"):
            try:
                table(loaded, circuit, layer, 0, "raw")
            except errors.CannotShow as refusal:
                why = why or f"{refusal.what}: {refusal.why}"
            else:
                return Ability(can=True)
    return Ability(can=False, why=why)


def value_notices(loaded: Loaded, layer: int) -> tuple[str, ...]:
    """What W_VO leaves out."""
    found = [_bias(loaded, ("value",), layer, "W_V"), _clip(loaded, ("value",), layer)]
    projection = loaded.anatomy.projections.get(layer)
    bias_D = getattr(projection, "bias", None)
    found.append(
        "The bias of W_O is left out: it belongs to no head." if bias_D is not None and bool(bias_D.any()) else ""
    )
    if loaded.anatomy.stream and f"ffn_out.{layer}" not in loaded.points.facts.get("added", ()):
        found.append(
            "Before it reaches the stream, this model passes what attention writes through a norm or a multiplier, or "
            "norms the stream after it: that is left out."
        )
    if loaded.anatomy.unembedding is None:
        found.append("This model has no read-out: what is written is read with the input embedding.")
    elif why := not_folded(loaded):
        found.append(f"What lies between the stream and the output embedding is left out: {why}.")
    return tuple(filter(None, found))


def query_notices(loaded: Loaded, layer: int) -> tuple[str, ...]:
    """What W_QK leaves out."""
    found = [_bias(loaded, ("query", "key"), layer, "W_Q and W_K"), _clip(loaded, ("query", "key"), layer)]
    if cap := loaded.projections.capped.get(layer):
        found.append(f"Scores are those before the model's soft-cap of {cap:.4g}, which keeps their order.")
    found.append(_tempered(loaded, layer))
    return tuple(filter(None, found))


def _bias(loaded: Loaded, kinds: tuple[Kind, ...], layer: int, named: str) -> str:
    biased = any(found.biased for kind in kinds if (found := loaded.projections.of.get((layer, kind))) is not None)
    norm = loaded.projections.norm.get(layer)
    named = " and ".join(
        filter(None, [named if biased else "", "the norm before attention" if norm and bool(norm.bias_D.any()) else ""])
    )
    return f"The bias of {named} is left out." if named else ""


def _clip(loaded: Loaded, kinds: tuple[Kind, ...], layer: int) -> str:
    """That numbers are those before a clip, such as `clip_qkv` of OLMo."""
    clipped = {
        NAMES[kind]: found.clip for kind in kinds
        if (found := loaded.projections.of.get((layer, kind))) is not None and found.clip is not None
    }  # fmt: skip
    if not clipped:
        return ""
    return (
        f"Scores are those before the clip of {' and '.join(clipped)}: the model keeps each of their numbers between "
        f"−{max(clipped.values()):.4g} and {max(clipped.values()):.4g}, which is no linear map."
    )


def _tempered(loaded: Loaded, layer: int) -> str:
    """That queries far on are scaled by their own place (Llama 4, Ministral 3), which no text of one token shows."""
    first = _first_tempered(loaded.anatomy.attention[layer])
    if first is None:
        return ""
    return (
        f"The model scales the queries of this layer by their own place, from place {first:,} on (temperature tuning): "
        "whatever the distance, scores are those of a query before that place."
    )


def _first_tempered(attention: torch.nn.Module) -> int | None:
    """The first place whose query is scaled; None: all are as they are."""
    if getattr(attention, "attn_temperature_tuning", False) and not getattr(attention, "use_rope", True):
        return max(0, int(getattr(attention, "floor_scale", 1)) - 1)
    rotary = getattr(getattr(attention, "config", None), "rope_parameters", None) or {}
    place = rotary.get("original_max_position_embeddings")
    return int(place) if place and rotary.get("llama_4_scaling_beta") else None


def _before(loaded: Loaded, layer: int) -> Callable[[Tensor], Tensor]:
    """Folds the norm before a layer's attention into rows that read the stream [K, D]."""
    if layer in loaded.projections.norm_why:
        raise errors.CannotShow(
            f"The norm before the attention of layer {layer} cannot be folded in", loaded.projections.norm_why[layer],
            RAW,
        )  # fmt: skip
    norm = loaded.projections.norm.get(layer)

    def fold(rows_KD: Tensor) -> Tensor:
        if norm is None:
            return rows_KD
        return Reader(rows_KD, norm.gain_D.to(rows_KD), norm.centred).directions(rows_KD)

    return fold


def _normed(
    loaded: Loaded, found: Projection, layer: int, head: int, fold: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """The model's own norm of queries or keys. It takes every length away, so the divisor before it does not matter."""
    assert found.gain_HK is not None, "as found"
    place = head if len(found.index_HK) == loaded.anatomy.shape.heads else group_of(loaded, head)
    gain_K = found.gain_HK[place]

    def norm(vectors_VK: Tensor) -> Tensor:
        square_V1 = vectors_VK.square().mean(1, keepdim=True)
        if found.norm == "all":
            square_V1 = torch.zeros_like(square_V1)
            for each in range(len(found.index_HK)):
                rows_KD = fold(found.weight(each).T.to(vectors_VK))
                every_VK = Reader(loaded.anatomy.embedding.get_parameter("weight")).logits(rows_KD).T
                square_V1 += every_VK.square().mean(1, keepdim=True) / len(found.index_HK)
        root_V1 = square_V1.sqrt()
        return torch.where(root_V1 > 0, vectors_VK / root_V1, 0.0) * gain_K.to(vectors_VK)

    return norm


def _scaled(side: Side, by: float) -> Side:
    finish = side.finish
    if finish is None:
        return replace(side, map_KD=side.map_KD * by)
    return replace(side, finish=lambda vectors_VK: finish(vectors_VK) * by)
