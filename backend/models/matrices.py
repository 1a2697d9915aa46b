"""The vectors of a layer's matrices as lists of words.

Keys and values of feed-forward units; of every coordinate of every query head, its column of W_Q, W_K and W_V and its
row of W_O: key/value heads stand once for each query head that shares them. Axes: N vectors, D width, k words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from backend.measure.reading import End, Reader, moved_most
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models import vector_groups
from backend.models.checks import check_head, check_layer
from backend.models.layer_vectors import of_each_head
from backend.models.loaded import Loaded
from backend.models.taps import Cancel
from backend.models.units import check_units
from backend.schema import ReadAs, VectorGroup

VectorsOf = Literal["keys", "values", "queries", "attention_keys", "attention_values", "attention_outputs"]
GROUPS: dict[VectorsOf, VectorGroup] = {
    "values": "value", "queries": "q", "attention_keys": "k", "attention_values": "v", "attention_outputs": "o",
}  # fmt: skip


@dataclass(frozen=True)
class Vectors:
    """Vectors of one kind of a layer."""

    rows_ND: Tensor
    """float32, as they stand in the model."""
    reader: Reader

    def words(self, end: End, k: int, which: Tensor | None = None, cancel: Cancel | None = None) -> Tensor:
        """int64 [N, k] on the CPU: the k words of each of some vectors (None: of all)."""
        rows_ND = self.rows_ND if which is None else self.rows_ND[which.to(self.rows_ND.device)]
        return self.words_of(rows_ND, end, k, cancel)

    def words_of(self, rows_ND: Tensor, end: End, k: int, cancel: Cancel | None = None) -> Tensor:
        """The same of any vectors, read as these are."""
        embedding_VD, found = self.reader.embedding_VD, []
        for rows_MD in rows_ND.split(rows_in(BLOCK_BYTES, len(embedding_VD))):
            if cancel is not None:
                cancel()
            found.append(moved_most(self.reader.logits(rows_MD.to(embedding_VD.device)), end, k).cpu())
        return torch.cat(found)


def vectors_of(loaded: Loaded, kind: VectorsOf, layer: int, reading: ReadAs) -> Vectors:
    """All vectors of one kind of a layer. Raises `CannotShow` where they are not known or cannot be read so."""
    if kind in ("keys", "values"):
        check_units(loaded.anatomy, layer)
    else:
        check_head(loaded.anatomy, layer, 0)
    group = key_name(loaded, layer) if kind == "keys" else GROUPS[kind]
    rows_ND = vector_groups.rows(loaded, group, layer)
    if vector_groups.heads_of(loaded, group) is not None:
        rows_ND = of_each_head(loaded, group, rows_ND)
    return Vectors(rows_ND, vector_groups.reader_of(loaded, group, layer, reading))


def key_name(loaded: Loaded, layer: int) -> VectorGroup:
    """Which of a unit's keys is meant: `gate` of a gated block, else `key`."""
    check_layer(loaded.anatomy, layer)
    return "gate" if "gate" in loaded.keys.of.get(layer, {}) else "key"
