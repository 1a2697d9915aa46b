"""The values instrument: the feed-forward units of a model read in its vocabulary, and found by words.

A value is a row of a block's write matrix. No text is needed, and nothing is prepared but, for z, the mean and
deviation of every value's logits.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from backend import errors
from backend.measure import values as measure
from backend.measure.reading import BothEnds, Reader, read_ends
from backend.measure.tokens import BLOCK_BYTES
from backend.measure.values import Moments, Spread
from backend.models.loaded import Loaded
from backend.models.reading import about, ends_of, reader
from backend.models.taps import Cancel
from backend.models.units import check_units, values_of
from backend.models.words import Spelled, spellings, words_of
from backend.schema import (
    Ability,
    Ends,
    Found,
    Hit,
    Key,
    Limits,
    LookupAnswer,
    LookupAsk,
    ReadAs,
    SearchAnswer,
    SearchAsk,
    Similar,
    UnitName,
    ValueAnswer,
    ValueAsk,
    WordSpelling,
)

SHOWN = 5
"""Words at each end of a value in a list."""
Z = (
    "z: logit minus the mean of the value's logits over the vocabulary, over their standard deviation, both in closed "
    "form from the mean and covariance of the word directions."
)
RANK = "Rank: tokens ahead of the word among the whole vocabulary, from the end that it was found at."
AS_IT_STANDS = (
    "Before it reaches the stream, this model passes what the block writes through a norm or a multiplier; "
    "the words are those of the row as it stands, without that."
)
CONCEPT = (
    "The concept is the mean output embedding of the spellings less the mean over the vocabulary (Dar et al. 2023, as "
    "in their code); score: its dot product with the {of}, raw. Words at both ends are raw too."
)


def ability(loaded: Loaded) -> Ability:
    """Whether values can be read at all; folded words need a lens besides."""
    try:
        check_units(loaded.anatomy, 0)
        reader(loaded, "raw")
    except errors.CannotShow as refusal:
        return Ability(can=False, why=refusal.why)
    return Ability(can=True)


def value(loaded: Loaded, ask: ValueAsk, limits: Limits, cancel: Cancel | None = None) -> ValueAnswer:
    """One value's page. Raises `CannotShow` where there is no such value, or no words."""
    check_units(loaded.anatomy, ask.layer, ask.unit)
    used, vector_D = reader(loaded, ask.reading), values_of(loaded.anatomy, ask.layer)[ask.unit]
    logits_V = used.logits(vector_D[None])[0]
    deviation, mean = (float(number) for number in torch.std_mean(logits_V.double(), correction=0))
    ends = ends_of(BothEnds.of(logits_V[None], ask.top), 0)
    keys = _keys(loaded, ask)
    similar = _similar(loaded, ask, vector_D, cancel)
    return ValueAnswer(
        conditions=loaded.conditions, unit=UnitName(layer=ask.layer, unit=ask.unit), reading=ask.reading,
        norm=float(vector_D.float().norm()), ends=ends, highest_z=_z(ends.highest_logit, mean, deviation),
        lowest_z=_z(ends.lowest_logit, mean, deviation), mean=mean, deviation=deviation, keys=keys, similar=similar,
        words=_words(loaded, [ends, *(key.ends for key in keys)]), about=f"{about(loaded, ask.reading)} {Z}",
        notices=_notices(loaded, ask.layer),
    )  # fmt: skip


def search(loaded: Loaded, ask: SearchAsk, limits: Limits, cancel: Cancel | None = None) -> SearchAnswer:
    """Words in, values out. Raises `CannotShow` for a word that is no single token, and as `value`."""
    check_units(loaded.anatomy, 0)
    used = reader(loaded, ask.reading)
    spelled = spellings(loaded.tokenizer, ask.words, len(used.embedding_VD))
    hits = measure.search(
        lambda layer: values_of(loaded.anatomy, layer), loaded.anatomy.shape.layers, used, _once(spelled), end=ask.end,
        spread=_spread(loaded, used, ask.reading, cancel) if ask.ranked == "z" else None, limit=ask.limit, top=SHOWN,
        cancel=cancel or measure.nobody,
    )  # fmt: skip
    found = tuple(_hit(hits, place) for place in range(len(hits.layer_N)))
    return SearchAnswer(
        conditions=loaded.conditions, spellings=_spelled(spelled), hits=found, values=_count(loaded),
        reading=ask.reading, words=_words(loaded, (hit.ends for hit in found), _once(spelled)),
        about=f"{about(loaded, ask.reading)} {Z} {RANK}",
        notices=_as_they_stand(loaded, range(loaded.anatomy.shape.layers)),
    )  # fmt: skip


def lookup(loaded: Loaded, ask: LookupAsk, limits: Limits, cancel: Cancel | None = None) -> LookupAnswer:
    """Values or keys near a concept. Raises as `search`, and where keys are not known."""
    check_units(loaded.anatomy, 0)
    used = reader(loaded, "raw")
    spelled = spellings(loaded.tokenizer, ask.words, len(used.embedding_VD))
    rows, named = _rows(loaded, ask.of)
    concept_D = used.embedding_VD[_once(spelled)].float().mean(0) - _mean(loaded, used)
    layer_N, unit_N, score_N = measure.nearest(
        rows, loaded.anatomy.shape.layers, concept_D, ask.limit, cancel=cancel or measure.nobody
    )
    places = list(zip(layer_N.tolist(), unit_N.tolist(), strict=True))
    ends = read_ends(used, torch.stack([rows(layer)[unit] for layer, unit in places]), SHOWN, cancel=cancel)
    found = tuple(
        Found(unit=UnitName(layer=layer, unit=unit), score=score, ends=ends_of(ends, place))
        for place, ((layer, unit), score) in enumerate(zip(places, score_N.tolist(), strict=True))
    )
    return LookupAnswer(
        conditions=loaded.conditions, spellings=_spelled(spelled), found=found, searched=_count(loaded),
        words=_words(loaded, (one.ends for one in found), _once(spelled)), about=CONCEPT.format(of=named),
    )  # fmt: skip


def value_bytes(loaded: Loaded, ask: ValueAsk, limits: Limits) -> int:
    """Bytes for the logits of one value and its keys, and for a layer's values as float32."""
    return 16 * 4 * loaded.anatomy.shape.vocabulary + _scratch(loaded)


def search_bytes(loaded: Loaded, ask: SearchAsk, limits: Limits) -> int:
    """Bytes for a block of logits and its ranks, a layer's values and every value's score; and for the table of z."""
    table = 3 * 8 * loaded.anatomy.shape.width**2 if ask.ranked == "z" else 0
    return 3 * BLOCK_BYTES + table + 16 * _count(loaded) + _scratch(loaded)


def lookup_bytes(loaded: Loaded, ask: LookupAsk, limits: Limits) -> int:
    """As a search by logit."""
    return 3 * BLOCK_BYTES + 16 * _count(loaded) + _scratch(loaded)


def _scratch(loaded: Loaded) -> int:
    """A layer's values and a block of the embedding, where they must be converted to float32."""
    return BLOCK_BYTES + 2 * 4 * (loaded.anatomy.units or 0) * loaded.anatomy.shape.width


def _rows(loaded: Loaded, of: str) -> tuple[measure.Matrix, str]:
    """What a lookup goes through, and what it is called."""
    if of == "values":
        return lambda layer: values_of(loaded.anatomy, layer), "values"
    if loaded.keys.why:
        raise errors.CannotShow("The keys of this model are not known", loaded.keys.why, "Look among the values.")
    name = "key" if "key" in loaded.keys.of[0] else "gate"
    return lambda layer: loaded.keys.of[layer][name].rows(), "keys" if name == "key" else "keys of the gates"


def _spread(loaded: Loaded, used: Reader, reading: ReadAs, cancel: Cancel | None) -> Spread:
    """Mean and deviation of every value, made once and kept."""
    key = f"spread {reading}"
    found: Spread | None = loaded.kept.find(key)
    if found is None:
        moments = Moments.of(used, cancel or measure.nobody)
        layers = loaded.anatomy.shape.layers
        found = Spread.of(lambda layer: values_of(loaded.anatomy, layer), layers, moments, cancel or measure.nobody)
        loaded.kept.keep(key, found, found.nbytes)
    return found


def _notices(loaded: Loaded, layer: int) -> tuple[str, ...]:
    found = (f"The keys of this unit are not shown: {loaded.keys.why}.",) if loaded.keys.why else ()
    return found + _as_they_stand(loaded, (layer,))


def _as_they_stand(loaded: Loaded, layers: Iterable[int]) -> tuple[str, ...]:
    """Said where what a block of these writes is changed before it is added to the stream."""
    added = loaded.points.facts.get("added", ())
    changed = loaded.anatomy.stream and any(f"ffn_out.{layer}" not in added for layer in layers)
    return (AS_IT_STANDS,) if changed else ()


def _mean(loaded: Loaded, used: Reader) -> Tensor:
    """The mean output embedding [D], made once and kept."""
    found: Tensor | None = loaded.kept.find("mean embedding")
    if found is None:
        found = measure.mean_of(used.embedding_VD)
        loaded.kept.keep("mean embedding", found, found.nbytes)
    return found


def _keys(loaded: Loaded, ask: ValueAsk) -> tuple[Key, ...]:
    if loaded.keys.why:
        return ()
    named = {name: part.rows()[ask.unit].float() for name, part in loaded.keys.of[ask.layer].items()}
    ends = read_ends(reader(loaded, "raw"), torch.stack(list(named.values())), ask.top)
    return tuple(
        Key(name=name, norm=float(row_D.norm()), ends=ends_of(ends, place))
        for place, (name, row_D) in enumerate(named.items())
    )


def _similar(loaded: Loaded, ask: ValueAsk, vector_D: Tensor, cancel: Cancel | None) -> tuple[Similar, ...]:
    if ask.similar == 0:
        return ()
    near = measure.nearest(
        lambda layer: values_of(loaded.anatomy, layer), loaded.anatomy.shape.layers, vector_D.float(), ask.similar,
        cosine=True, but=(ask.layer, ask.unit), cancel=cancel or measure.nobody,
    )  # fmt: skip
    return tuple(
        Similar(unit=UnitName(layer=layer, unit=unit), cosine=cosine)
        for layer, unit, cosine in zip(*(part.tolist() for part in near), strict=True)
    )


def _z(logits: Iterable[float], mean: float, deviation: float) -> tuple[float, ...]:
    """Empty where all logits of a value are equal."""
    return tuple((logit - mean) / deviation for logit in logits) if deviation > 0 else ()


def _hit(hits: measure.Hits, place: int) -> Hit:
    z = float(hits.z_N[place])
    return Hit(
        unit=UnitName(layer=int(hits.layer_N[place]), unit=int(hits.unit_N[place])), id=int(hits.word_N[place]),
        end="suppressed" if hits.suppressed_N[place] else "promoted", logit=float(hits.logit_N[place]),
        z=None if z != z else z, rank=int(hits.rank_N[place]), ends=ends_of(hits.ends, place),
    )  # fmt: skip


def _once(spelled: Iterable[Spelled]) -> list[int]:
    """Token ids, each once: two words may share a spelling."""
    return list(dict.fromkeys(one.id for one in spelled))


def _spelled(spelled: Iterable[Spelled]) -> tuple[WordSpelling, ...]:
    return tuple(WordSpelling(word=one.word, id=one.id, text=one.text) for one in spelled)


def _words(loaded: Loaded, ends: Iterable[Ends], more: Iterable[int] = ()) -> dict[str, str]:
    return words_of(loaded.tokenizer, {id for one in ends for id in (*one.highest, *one.lowest)} | set(more))


def _count(loaded: Loaded) -> int:
    return loaded.anatomy.shape.layers * (loaded.anatomy.units or 0)
