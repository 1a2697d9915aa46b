"""How the parameters of a model are told apart by layer and group, so that two models can be subtracted.

Vectors that are read as words come as rows (`vector_groups`); everything else by its name in the trunk, the read-out or
the classifier beside them, so that a model and one with another head have one name for each. Axes: P vectors, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from backend.measure.lens import likeliest
from backend.measure.reading import Reader
from backend.measure.tokens import BLOCK_BYTES, rows_in
from backend.models.anatomy import matrix
from backend.models.loaded import Loaded
from backend.models.taps import Cancel
from backend.models.vector_groups import layers_of
from backend.schema import ChangedGroup, Ends

EMBEDDINGS: tuple[ChangedGroup, ...] = ("embedding", "unembedding")
POOLER = "pooler"
CLASSIFIER = "classifier."
"""Before the names of what is in the classifier alone."""


@dataclass(frozen=True)
class Named:
    """One parameter that is no part of a group of vectors."""

    layer: int | None
    group: ChangedGroup
    name: str
    weight: Tensor


def others(loaded: Loaded) -> Iterator[Named]:
    """Every parameter but those of the embeddings and the groups of vectors; tied ones once, and none that was drawn at
    random for want of it in the files."""
    anatomy, classifier = loaded.anatomy, loaded.classifier
    as_vectors, left = _as_vectors(loaded)
    block_of = {module: layer for layer, block in enumerate(anatomy.blocks) for module in block.modules()}
    seen = {id(table) for group in EMBEDDINGS if (table := embedding_table(loaded, group)) is not None}
    if loaded.drawn:
        seen |= {id(weight) for name, weight in loaded.model.named_parameters() if name in loaded.drawn}
    roots: list[tuple[str, nn.Module]] = [("", anatomy.trunk), ("read-out.", loaded.model)]
    roots += [] if classifier is None else [(CLASSIFIER, classifier.whole)]
    for prefix, root in roots:
        for module_name, module in root.named_modules():
            for leaf, weight in module.named_parameters(recurse=False):
                name = f"{prefix}{module_name}.{leaf}"
                if id(weight) in seen:
                    continue
                seen.add(id(weight))
                if leaf != "weight" or module not in as_vectors:
                    yield Named(block_of.get(module), _group(loaded, module, name), name, weight)
                elif module in left:
                    yield Named(block_of.get(module), "other", name, left[module])


def embedding_table(loaded: Loaded, group: ChangedGroup) -> Tensor | None:
    """The weight of the input embedding, or that of the output embedding where it is another."""
    anatomy = loaded.anatomy
    embedding_VD = anatomy.embedding.get_parameter("weight")
    if group == "embedding" or anatomy.unembedding is None:
        return embedding_VD if group == "embedding" else None
    weight_VD = anatomy.unembedding.get_parameter("weight")
    return None if weight_VD is embedding_VD else weight_VD


def _as_vectors(loaded: Loaded) -> tuple[set[nn.Module], dict[nn.Module, Tensor]]:
    """Modules whose weights are told as rows, and what is left of a fused one that is known in part [D, outputs]."""
    anatomy = loaded.anatomy
    known: dict[nn.Module, list[Tensor]] = {}
    for projection in loaded.projections.of.values():
        known.setdefault(projection.module, []).append(projection.index_HK.flatten())
    left: dict[nn.Module, Tensor] = {}
    for module, indices in known.items():
        weight_DX = matrix(module)
        assert weight_DX is not None, "a projection is a linear map"
        unknown_X = torch.ones(weight_DX.shape[1], dtype=torch.bool)
        unknown_X[torch.cat(indices)] = False
        if bool(unknown_X.any()):
            left[module] = weight_DX[:, unknown_X.to(weight_DX.device)]
    found: set[nn.Module] = {*known, *(anatomy.projections[layer] for layer in layers_of(loaded, "o")[0])}
    found |= {part.module for parts in loaded.keys.of.values() for part in parts.values()}
    return found | set(anatomy.write.values()), left


def _group(loaded: Loaded, module: nn.Module, name: str) -> ChangedGroup:
    if POOLER in name.split("."):
        return "pooler"
    if name.startswith(CLASSIFIER):
        return "classifier"
    if module in loaded.anatomy.norms:
        return "norm"
    if name.endswith(".bias"):
        return "bias"
    return "position" if isinstance(module, nn.Embedding) else "other"


def stream_biases(loaded: Loaded) -> dict[tuple[int, int], Tensor]:
    """float32 [D] by layer and part (0: the attention's, 1: the feed-forward part's): what is written every time."""
    found: dict[tuple[int, int], Tensor] = {}
    for place, modules in enumerate((loaded.anatomy.projections, loaded.anatomy.write)):
        for layer, module in modules.items():
            bias_D = getattr(module, "bias", None)
            if isinstance(bias_D, Tensor) and bias_D.shape == (loaded.anatomy.shape.width,):
                found[layer, place] = bias_D.detach().float()
    return found


@dataclass(frozen=True)
class Size:
    """How much numbers changed, in sums that add up over blocks."""

    squares: float
    before: float
    numbers: int
    changed: int

    @classmethod
    def of(cls, after: Tensor, before: Tensor) -> Size:
        """Of numbers of one shape."""
        apart = after.double() - before.double()
        return cls(
            float(apart.square().sum()), float(before.double().square().sum()), apart.numel(),
            int((after != before).sum()),
        )  # fmt: skip

    def __add__(self, other: Size) -> Size:
        return Size(
            self.squares + other.squares, self.before + other.before, self.numbers + other.numbers,
            self.changed + other.changed,
        )  # fmt: skip


@dataclass(frozen=True)
class Read:
    """Differences as words."""

    ends: list[Ends]
    moved_P: Tensor
    """float64: standard deviation of their logits."""


def read_all(reader: Reader, vectors_PD: Tensor, top: int, cancel: Cancel) -> Read:
    """Both ends of vectors and how far they move the words, in blocks."""
    ends: list[Ends] = []
    moved = [torch.empty(0, dtype=torch.float64)]
    for block_ND in vectors_PD.split(rows_in(BLOCK_BYTES, len(reader.embedding_VD))):
        cancel()
        logits_NV = reader.logits(block_ND)
        moved.append(logits_NV.double().std(1, correction=0).cpu())
        (high_NK, highest_NK), (low_NK, lowest_NK) = likeliest(logits_NV, top), likeliest(-logits_NV, top)
        for high, highest, low, lowest in zip(
            high_NK.tolist(), highest_NK.tolist(), (-low_NK).tolist(), lowest_NK.tolist(), strict=True
        ):
            ends.append(Ends(highest=highest, lowest=lowest, highest_logit=high, lowest_logit=low))
    return Read(ends, torch.cat(moved))
