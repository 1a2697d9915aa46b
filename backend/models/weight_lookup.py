"""Lookup among the weights: which values, keys and single vectors of heads are near the words of a concept.

Axes: N vectors, D width, K numbers of a head, H heads, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from backend import errors
from backend.measure import values as measure
from backend.measure.reading import Reader, read_ends
from backend.measure.tokens import BLOCK_BYTES
from backend.models import circuits
from backend.models.key_reading import key_reader
from backend.models.loaded import Loaded
from backend.models.projections import Kind
from backend.models.reading import ends_of
from backend.models.taps import Cancel
from backend.models.units import check_units, values_of
from backend.models.weights import UNREAD
from backend.models.words import spellings_of, words_of
from backend.schema import Among, ConceptAnswer, ConceptAsk, ConceptGroup, Limits, Near, ReadAs, WordSpelling

SHOWN = 5
"""Words at each end of a vector."""
KIND_OF: dict[Among, Kind] = {"v": "value", "q": "query", "k": "key"}
CONCEPT = (
    "A concept is the mean embedding of the spellings of its words less the mean embedding of all tokens (Dar et al. "
    "2023, as in their code): the output embedding for values and W_O, which write, the input embedding for keys, W_V, "
    "W_Q and W_K, which read. Score: its dot product with the vector, {how}."
)
HOW: dict[ReadAs, str] = {
    "raw": "as it stands",
    "folded": "with the gain of the norm that the model applies before it is read, or after it is written",
}
SKIPPED = "{name}: layers {layers} are left out: {why}."
NAMES: dict[Among, str] = {"values": "Values", "keys": "Keys", "v": "W_V", "o": "W_O", "q": "W_Q", "k": "W_K"}
Rows = Callable[[int], Tensor]
"""float32 [N, D] of a layer: what meets the embedding."""


@dataclass(frozen=True)
class _Searched:
    """One group, where it can be searched."""

    layers: tuple[int, ...]
    rows: Rows
    embedding_VD: Tensor
    width: int
    """Numbers of a head, by which a place is told apart; 0: places are units."""
    notices: tuple[str, ...]

    def near(self, concept_D: Tensor, limit: int, cancel: Cancel | None) -> tuple[Near, ...]:
        """The nearest, with their words."""
        layer_N, place_N, score_N = measure.nearest(
            lambda at: self.rows(self.layers[at]), len(self.layers), concept_D, limit, cancel=cancel or measure.nobody
        )
        places = [(self.layers[at], place) for at, place in zip(layer_N.tolist(), place_N.tolist(), strict=True)]
        found_ND = torch.stack([self.rows(layer)[place] for layer, place in places]).float()
        ends = read_ends(Reader(self.embedding_VD), found_ND, SHOWN, cancel=cancel)
        cosine_N = torch.nn.functional.cosine_similarity(found_ND, concept_D[None].to(found_ND), eps=1e-30)
        return tuple(
            Near(layer=layer, score=score, cosine=cosine, ends=ends_of(ends, at), **self._named(place))
            for at, ((layer, place), score, cosine) in enumerate(
                zip(places, score_N.tolist(), cosine_N.tolist(), strict=True)
            )
        )

    def _named(self, place: int) -> dict[str, int]:
        return {"head": place // self.width, "index": place % self.width} if self.width else {"unit": place}


def lookup(loaded: Loaded, ask: ConceptAsk, limits: Limits, cancel: Cancel | None = None) -> ConceptAnswer:
    """The vectors near a concept. Raises `SeveralTokens` for a word that is no single token, unless such are left out;
    `CannotShow` for words of which none is, and where no group can be.
    """
    spelled, left_out = spellings_of(
        loaded.tokenizer, ask.words, loaded.anatomy.shape.vocabulary, leave_out=ask.leave_out
    )
    ids = list(dict.fromkeys(one.id for one in spelled))
    groups: list[ConceptGroup] = []
    notices = dict.fromkeys(left_out)
    refusals: list[errors.CannotShow] = []
    for among in dict.fromkeys(ask.among):
        try:
            searched = _searched(loaded, among, ask.reading)
        except errors.CannotShow as refusal:
            groups.append(ConceptGroup(among=among, why=f"{refusal.what}: {refusal.why}."))
            refusals.append(refusal)
            continue
        found = searched.near(_concept(loaded, searched.embedding_VD, ids), ask.limit, cancel)
        count = sum(len(searched.rows(layer)) for layer in searched.layers)
        groups.append(ConceptGroup(among=among, found=found, searched=count))
        notices |= dict.fromkeys(searched.notices)
    if len(refusals) == len(groups):
        raise refusals[0]
    shown = {id for group in groups for one in group.found for id in (*one.ends.highest, *one.ends.lowest)}
    return ConceptAnswer(
        conditions=loaded.conditions, reading=ask.reading, groups=tuple(groups),
        spellings=tuple(WordSpelling(word=one.word, id=one.id, text=one.text) for one in spelled),
        words=words_of(loaded.tokenizer, {*ids, *shown}), about=CONCEPT.format(how=HOW[ask.reading]),
        notices=tuple(notices),
    )  # fmt: skip


def lookup_bytes(loaded: Loaded, ask: ConceptAsk, limits: Limits) -> int:
    """Bytes for a layer's vectors as float32, twice, every score, and a block of logits."""
    shape, units = loaded.anatomy.shape, loaded.anatomy.units or 0
    each = max(units, shape.heads * shape.head_width)
    return 3 * BLOCK_BYTES + 4 * each * (3 * shape.width + 4 * shape.layers) + 4 * 8192 * shape.width


def _searched(loaded: Loaded, among: Among, reading: ReadAs) -> _Searched:
    """A group over all layers in which it is known. Raises `CannotShow` where that is none."""
    writes = among in ("values", "o")
    embedding_VD = _writer(loaded, reading) if writes else _input(loaded)
    units = among in ("values", "keys")
    rows = partial({"values": _values, "keys": _keys, "o": _outputs}.get(among, _read), loaded, among, reading)
    layers, refused = [], list[tuple[int, errors.CannotShow]]()
    for layer in range(loaded.anatomy.shape.layers) if units else loaded.anatomy.shape.attention_layers:
        try:
            rows(layer)
            layers.append(layer)
        except errors.CannotShow as refusal:
            refused.append((layer, refusal))
    if not layers:
        raise refused[0][1]
    notices = [UNREAD] if writes and loaded.anatomy.unembedding is None else []
    if refused:
        names = ", ".join(str(layer) for layer, _ in refused)
        notices.append(SKIPPED.format(name=NAMES[among], layers=names, why=refused[0][1].why))
    return _Searched(tuple(layers), rows, embedding_VD, 0 if units else loaded.anatomy.shape.head_width, tuple(notices))


def _writer(loaded: Loaded, reading: ReadAs) -> Tensor:
    return circuits.writer(loaded, reading).embedding_VD


def _input(loaded: Loaded) -> Tensor:
    circuits.check_input(loaded)
    embedding_VD: Tensor = loaded.anatomy.embedding.get_parameter("weight")
    return embedding_VD


def _values(loaded: Loaded, among: Among, reading: ReadAs, layer: int) -> Tensor:
    check_units(loaded.anatomy, layer)
    return circuits.writer(loaded, reading).fold(values_of(loaded.anatomy, layer))


def _keys(loaded: Loaded, among: Among, reading: ReadAs, layer: int) -> Tensor:
    check_units(loaded.anatomy, layer)
    if loaded.keys.why:
        raise errors.CannotShow("The keys of this model are not known", loaded.keys.why, "Look among the values.")
    found = loaded.keys.of[layer]
    return key_reader(loaded, layer, reading).fold(found["key" if "key" in found else "gate"].rows())


def _outputs(loaded: Loaded, among: Among, reading: ReadAs, layer: int) -> Tensor:
    heads = range(loaded.anatomy.shape.heads)
    return torch.cat([circuits.write_side(loaded, layer, head, reading).map_KD for head in heads])


def _read(loaded: Loaded, among: Among, reading: ReadAs, layer: int) -> Tensor:
    """Each head once: of keys and values that heads share, each key/value head."""
    kind, heads = KIND_OF[among], loaded.anatomy.shape.heads
    step = heads // len(circuits.projection(loaded, kind, layer).index_HK)
    return torch.cat([circuits.read_side(loaded, kind, layer, head, reading).map_KD for head in range(0, heads, step)])


def _concept(loaded: Loaded, embedding_VD: Tensor, ids: list[int]) -> Tensor:
    """float32 [D]: the mean of some rows less the mean of all, which is made once and kept."""
    key = "mean input embedding" if embedding_VD is loaded.anatomy.embedding.weight else "mean embedding"
    mean_D: Tensor | None = loaded.kept.find(key)
    if mean_D is None:
        mean_D = measure.mean_of(embedding_VD)
        loaded.kept.keep(key, mean_D, mean_D.nbytes)
    return embedding_VD[ids].float().mean(0) - mean_D
