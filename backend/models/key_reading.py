"""How what reads the stream is read in the vocabulary, keys and heads alike: with the input embedding."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from backend import errors
from backend.measure.reading import Reader
from backend.models.circuits import RAW, dual
from backend.models.loaded import Loaded
from backend.schema import Inverse, ReadAs


@dataclass(frozen=True)
class KeyReader(Reader):
    """Keys read the stream behind a norm: a token's number is k · (gain ⊙ (e − mean e))."""

    dual_DD: Tensor | None = None
    """float64: tokens are rows of the embedding's pseudo-inverse, as `circuits.Side` has them; None: of itself."""

    def fold(self, vectors_ND: Tensor) -> Tensor:
        """float32 [N, D]: what meets the embedding."""
        rows_ND = self.directions(vectors_ND)
        return rows_ND if self.dual_DD is None else (rows_ND.double() @ self.dual_DD).float()


def key_reader(loaded: Loaded, layer: int, reading: ReadAs, inverse: Inverse = "transpose") -> Reader:
    """Folded: through the gain of the norm before the feed-forward part. Raises `CannotShow` where it was not seen."""
    embedding_VD = loaded.anatomy.embedding.get_parameter("weight")
    dual_DD = dual(loaded) if inverse == "pseudo" else None
    if reading == "raw":
        return KeyReader(embedding_VD, dual_DD=dual_DD)
    if layer not in loaded.projections.feed_norm:
        raise errors.CannotShow(
            f"The norm before the feed-forward part of layer {layer} cannot be folded in", "it was not seen", RAW
        )
    norm = loaded.projections.feed_norm[layer]
    if norm is None:
        return KeyReader(embedding_VD, dual_DD=dual_DD)
    return KeyReader(embedding_VD, norm.gain_D, norm.centred, dual_DD=dual_DD)


def attention_reader(loaded: Loaded, layer: int, reading: ReadAs) -> Reader:
    """Folded: through the gain of the norm before the attention. Raises `CannotShow` where it was not seen."""
    embedding_VD = loaded.anatomy.embedding.get_parameter("weight")
    if reading == "raw":
        return Reader(embedding_VD)
    if layer in loaded.projections.norm_why:
        raise errors.CannotShow(
            f"The norm before the attention of layer {layer} cannot be folded in", loaded.projections.norm_why[layer],
            RAW,
        )  # fmt: skip
    norm = loaded.projections.norm.get(layer)
    return Reader(embedding_VD) if norm is None else KeyReader(embedding_VD, norm.gain_D, norm.centred)
