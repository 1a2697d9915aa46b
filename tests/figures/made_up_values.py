"""Values, searches and lookups made from random numbers, valid in every field."""

import numpy as np

from backend.schema import (
    ConceptAnswer,
    ConceptAsk,
    ConceptGroup,
    Ends,
    FiresAnswer,
    FiresAsk,
    Found,
    Hit,
    Key,
    LookupAnswer,
    LookupAsk,
    Near,
    Problem,
    SearchAnswer,
    SearchAsk,
    Similar,
    UnitName,
    ValueAnswer,
    ValueAsk,
    WordSpelling,
)
from lmscope.client import Refused
from tests.figures.answers import CONDITIONS, VOCABULARY, packed

LAYERS, UNITS = 4, 48
WORDS = {str(id): word for id, word in enumerate(VOCABULARY)}
ABOUT = "Words: the vector times the final norm's gain, times the output embedding."


def logits(unit: UnitName, salt: int = 0) -> np.ndarray:
    """The value's logits over the made-up vocabulary."""
    return np.random.default_rng(unit.layer * 1009 + unit.unit + salt * 77).normal(0, 2, len(VOCABULARY))


def ends(logits_V: np.ndarray, top: int) -> Ends:
    """Both ends of made-up logits."""
    order = np.argsort(-logits_V, kind="stable").tolist()
    high, low = order[:top], order[::-1][:top]
    return Ends(highest=tuple(high), lowest=tuple(low), highest_logit=tuple(logits_V[high].tolist()),
                lowest_logit=tuple(logits_V[low].tolist()))  # fmt: skip


def value(ask: ValueAsk) -> ValueAnswer:
    """One value with a gate and an up projection."""
    unit = UnitName(layer=ask.layer, unit=ask.unit)
    logits_V = logits(unit, salt=ask.reading == "raw")
    mean, deviation = float(logits_V.mean()), float(logits_V.std())
    found = ends(logits_V, min(ask.top, len(VOCABULARY)))
    near = [UnitName(layer=(ask.layer + step) % LAYERS, unit=(ask.unit + 7 * step) % UNITS) for step in (1, 2, 3)]
    return ValueAnswer(
        conditions=CONDITIONS, unit=unit, reading=ask.reading, norm=1.234567, ends=found,
        highest_z=tuple((logit - mean) / deviation for logit in found.highest_logit),
        lowest_z=tuple((logit - mean) / deviation for logit in found.lowest_logit), mean=mean, deviation=deviation,
        keys=tuple(
            Key(name=name, norm=0.5, ends=ends(logits(unit, salt), 5)) for salt, name in ((2, "gate"), (3, "up"))
        ),
        similar=tuple(Similar(unit=name, cosine=0.9 - 0.1 * place) for place, name in enumerate(near))[: ask.similar],
        words=WORDS, about=ABOUT,
    )  # fmt: skip


def fires(ask: FiresAsk) -> FiresAnswer:
    """Coefficients of both signs, one a word of the text."""
    tokens = len((ask.view.text or "").split())
    at = np.random.default_rng(ask.layer * 1009 + ask.unit).normal(0, 1, tokens).astype("f4")
    compared = ask.view.compare and bool(ask.view.active_edits)
    return FiresAnswer(conditions=CONDITIONS, ids=tuple(range(tokens)), unit=UnitName(layer=ask.layer, unit=ask.unit),
                       edited=packed(at), unedited=packed(at / 2) if compared else None, gated=True,
                       words=WORDS)  # fmt: skip


def search(ask: SearchAsk) -> SearchAnswer:
    """Some values, the strongest first."""
    spelled = tuple(WordSpelling(word=word, id=place, text=VOCABULARY[place]) for place, word in enumerate(ask.words))
    sign = -1 if ask.end == "suppressed" else 1
    hits = tuple(
        Hit(unit=UnitName(layer=place % LAYERS, unit=5 * place % UNITS), id=0, rank=place,
            end="suppressed" if sign < 0 else "promoted", logit=sign * (9 - place / 4), z=sign * (8 - place / 4),
            ends=ends(logits(UnitName(layer=place % LAYERS, unit=5 * place % UNITS)), 5))
        for place in range(min(ask.limit, 12))
    )  # fmt: skip
    return SearchAnswer(conditions=CONDITIONS, spellings=spelled, hits=hits, values=LAYERS * UNITS, reading=ask.reading,
                        words=WORDS, about=ABOUT)  # fmt: skip


def lookup(ask: LookupAsk) -> LookupAnswer:
    """The same values, as near a concept."""
    found = search(SearchAsk(model=ask.model, words=ask.words, limit=ask.limit))
    near = tuple(Found(unit=hit.unit, score=hit.logit, ends=hit.ends) for hit in found.hits)
    return LookupAnswer(conditions=CONDITIONS, spellings=found.spellings, found=near, searched=found.values,
                        words=WORDS, about="The concept is a mean.")  # fmt: skip


LONG = "centimetre"
LEFT_OUT = f"Left out: “{LONG}” is 3 tokens"


def concept(ask: ConceptAsk) -> ConceptAnswer:
    """The same values in each group of units; coordinates in the others, but for keys of heads, which it has not.

    One word is no single token: it is refused, or left out.
    """
    if LONG in ask.words and not ask.leave_out:
        raise Refused(
            Problem(type="several-tokens", status=422, what="This word is no single token",
                    why=f"a search goes by single tokens, and “{LONG}” is 3 tokens", instead="leave it out")
        )  # fmt: skip
    found = lookup(LookupAsk(model=ask.model, words=ask.words, limit=ask.limit))
    units = tuple(
        Near(layer=one.unit.layer, unit=one.unit.unit, score=one.score, cosine=0.25, ends=one.ends)
        for one in found.found
    )
    coordinates = tuple(
        Near(layer=one.layer, head=1, index=place, score=one.score, cosine=0.25, ends=one.ends)
        for place, one in enumerate(units)
    )
    groups = tuple(
        ConceptGroup(among=name, why="W_K is not known.")
        if name == "k"
        else ConceptGroup(among=name, found=units if name in ("values", "keys") else coordinates, searched=192)
        for name in ask.among
    )
    return ConceptAnswer(conditions=CONDITIONS, reading=ask.reading, spellings=found.spellings, groups=groups,
                         words=WORDS, about=found.about,
                         notices=(LEFT_OUT,) if LONG in ask.words else ())  # fmt: skip
