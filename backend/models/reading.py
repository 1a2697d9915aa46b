"""How a loaded model's vectors are read in its vocabulary: its final norm and read-out, asked for their numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from backend import errors
from backend.measure.reading import BothEnds, Reader
from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.noise import tolerance
from backend.schema import Ends, ReadAs

SMALL, SMALL_HALF = 1e-2, 0.5
"""Logits of the states that the read-out is asked with, far below any soft-cap; more where biases are rounded."""
AS_PUBLISHED = "Ask with the reading `raw`, as published: the bare product with the output embedding."
WITH_INPUT = "Ask with the reading `raw`: what is written is then read with the input embedding, as it stands."
NO_READ_OUT = "it has no read-out: it ends with its states, and no norm stands before an output embedding"
TWO_LAYERS = (
    "its read-out has two layers: between the stream and the output embedding stands another map with what follows it "
    "(in BERT an activation and a norm), for which no gain can stand"
)
BESIDE = "what is read out is not the last stream through a final norm"
READINGS: dict[ReadAs, str] = {
    "folded": "Words: the vector times the final norm's gain{mean}, times the output embedding, {scale}before any "
    "soft-cap. The norm's divisor, which depends on the text, is taken as 1: order, signs and ratios are those of any "
    "run. Unit: logits per unit of the coefficient.",
    "raw": "Words: the bare product of the vector with the output embedding, as LM-Debugger published it (Geva et al. "
    "2022): no norm, no bias, no softmax. Unit: dot product per unit of the coefficient.",
}


def reader(loaded: Loaded, reading: ReadAs) -> Reader:
    """The reader of a model, made once. Raises `CannotShow` where the model has none of this kind."""
    key = f"reader {reading}"
    found: Reader | None = loaded.kept.find(key)
    if found is None:
        found = _raw(loaded) if reading == "raw" else _folded(loaded)
        loaded.kept.keep(key, found, 0 if found.gain_D is None else found.gain_D.nbytes)
    return found


def about(loaded: Loaded, reading: ReadAs) -> str:
    """What the words of an answer are."""
    used = reader(loaded, reading)
    mean = ", its mean taken away first" if used.centred else ""
    scale = "" if used.scale == 1 else f"times {used.scale:.4g} as the model scales its logits, "
    return READINGS[reading].format(mean=mean, scale=scale)


def ends_of(ends: BothEnds, place: int) -> Ends:
    """Both ends of one of the vectors, for the wire."""
    return Ends(
        highest=tuple(ends.highest_NK[place].tolist()), lowest=tuple(ends.lowest_NK[place].tolist()),
        highest_logit=tuple(ends.highest_logit_NK[place].tolist()),
        lowest_logit=tuple(ends.lowest_logit_NK[place].tolist()),
    )  # fmt: skip


def _raw(loaded: Loaded) -> Reader:
    unembedding, width = loaded.anatomy.unembedding, loaded.anatomy.shape.width
    if unembedding is None:
        raise _no_words("it ends with its states and has no output embedding", "a language modelling head")
    embedding_VD = unembedding.get_parameter("weight")
    if embedding_VD.shape[1] != width:
        raise _no_words(
            f"its output embedding takes {embedding_VD.shape[1]} numbers, and its stream has {width}: another map "
            "stands between",
            "an output embedding as wide as its stream",
        )
    return Reader(embedding_VD)


def _folded(loaded: Loaded) -> Reader:
    raw = _raw(loaded)
    if why := not_folded(loaded):
        raise unfoldable(why)
    assert loaded.anatomy.final_norm is not None, "else it is not folded"
    norm = loaded.anatomy.norms.get(loaded.anatomy.final_norm)
    if norm is None:
        raise unfoldable("it is neither a layer norm nor an RMS norm")
    return Reader(raw.embedding_VD, norm.gain_D, norm.centred, read_out_scale(loaded, raw.embedding_VD))


def unfoldable(why: str, instead: str = AS_PUBLISHED) -> errors.CannotShow:
    """The refusal of the folded reading."""
    return errors.CannotShow("The final norm of this model cannot be folded into its words", why, instead)


def not_folded(loaded: Loaded) -> str:
    """Why no gain of a final norm stands between the stream and the output embedding alone; empty: one does.

    Whether the model predicts the next token or a masked one does not matter: what matters is what lies between.
    """
    anatomy, lens = loaded.anatomy, loaded.card.can.get("trace")
    if anatomy.unembedding is None:
        return NO_READ_OUT
    if lens is not None and not lens.can and _maps_between(loaded):
        return TWO_LAYERS
    if anatomy.final_norm is None:
        return "no module was found whose output is what the output embedding takes"
    if lens is None or lens.can:
        return ""
    return lens.why if anatomy.shape.causal else _last_norm(loaded)


def _maps_between(loaded: Loaded) -> bool:
    """Whether the read-out holds a matrix beside the output embedding."""
    anatomy = loaded.anatomy
    inside = {id(each) for each in anatomy.trunk.parameters()}
    assert anatomy.unembedding is not None, "just seen"
    own = {id(each) for each in anatomy.unembedding.parameters()}
    return any(each.ndim > 1 for each in loaded.model.parameters() if id(each) not in inside | own)


def _last_norm(loaded: Loaded) -> str:
    """Why what a model that reads both ways reads out is not its last stream through its final norm; empty: it is."""
    anatomy, last = loaded.anatomy, list[Tensor]()
    assert anatomy.final_norm is not None, "just seen"
    ids_1T = torch.arange(4)[None] + anatomy.shape.vocabulary // 2
    final_1TD = forward.run(loaded, ids_1T, read={f"residual.{anatomy.shape.layers - 1}": last.append}, checked=False)
    if not last or last[0].shape[-1] != anatomy.shape.width:
        return "its blocks do not give one stream"
    with torch.inference_mode():
        found = anatomy.final_norm(last[0].reshape(final_1TD.shape))
    apart, size = float((found - final_1TD).abs().max()), 1 + float(final_1TD.abs().max())
    return "" if apart <= 10 * tolerance(loaded) * size else BESIDE


def read_out_scale(loaded: Loaded, embedding_VD: Tensor) -> float:
    """By which the read-out multiplies: from two opposite small states, so that a bias cancels and no cap bites.

    Raises `CannotShow` when the logits are not a multiple of the product with the embedding.
    """
    dice = torch.Generator().manual_seed(0)
    state_D = torch.randn(embedding_VD.shape[1], generator=dice).to(embedding_VD.device)
    plain_V = Reader(embedding_VD).logits(state_D[None])[0]
    exact = embedding_VD.dtype in (torch.float32, torch.float64)
    small = SMALL if exact else SMALL_HALF
    state_D = (state_D * (small / plain_V.abs().max())).to(embedding_VD.dtype)
    plain_V = Reader(embedding_VD).logits(state_D[None])[0]
    one_V, other_V = forward.read_out(loaded, torch.stack([state_D, -state_D])).float()
    half_V = (one_V - other_V) / 2
    known_V = half_V.isfinite()  # a forbidden token has no logit
    scale = float(half_V[known_V] @ plain_V[known_V] / (plain_V[known_V] @ plain_V[known_V]))
    apart_V = (half_V - scale * plain_V)[known_V].abs()
    rounded_V = torch.finfo(embedding_VD.dtype).eps * (one_V.abs() + other_V.abs())[known_V]
    allowed = 1e-3 if exact else 3e-2
    if bool((apart_V > allowed * abs(scale) * small + rounded_V).any()):
        raise unfoldable("its logits are no multiple of the product with its output embedding")
    # multipliers are written by people; half precision blurs them
    nearest, blur = (float(f"{scale:.3g}"), 1e-4) if allowed < 1e-2 else (float(f"{scale:.2g}"), 2e-3)
    return nearest if abs(nearest - scale) <= blur * abs(scale) else scale


def _no_words(why: str, needed: str) -> errors.CannotShow:
    return errors.CannotShow("Vectors of this model cannot be read as words", why, f"Choose a model with {needed}.")
