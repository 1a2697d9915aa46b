"""A shelf of sliders, and what they do to the next token, out of plain formulas: pages are driven with them."""

import math

import numpy as np

from backend.schema import (
    Evidence,
    Interval,
    Range,
    Shelved,
    Shift,
    SteerAnswer,
    SteerAsk,
    SteerCard,
    SteerData,
    SteerShelf,
    Words,
)
from tests.figures.answers import CONDITIONS, packed

SENTIMENT, FORMAL, DIRECTION, BARE, FOREIGN = (letter * 64 for letter in "abcde")
VOCABULARY = tuple(f" word{id}" for id in range(64))
MEASURED = Evidence(
    plus=Interval(mean=-0.0312, low=-0.0361, high=-0.0268, n=200),
    minus=Interval(mean=0.0287, low=0.0241, high=0.0330, n=200),
    random_plus=Interval(mean=-0.0011, low=-0.0040, high=0.0017, n=200),
    random_minus=Interval(mean=0.0004, low=-0.0021, high=0.0030, n=200),
    about="400 labelled texts that the making never saw",
)


def card(name: str, id: str, **more: object) -> SteerCard:
    """A steer of the made-up model."""
    given: dict[str, object] = {
        "kind": "steer", "name": name, "id": id, "plus": "positive", "minus": "negative", "model": "made-up",
        "digest": "0" * 64, "vocabulary": "1" * 64, "width": 64, "rank": 32,
        "data": SteerData(name="film snippets", licence="MIT", plus=900, minus=900, held_out=400, digest="2" * 64),
    }  # fmt: skip
    return SteerCard.model_validate(given | more)


ENDS = Range(low=-3.4, high=2.6, doubled=(True, True), perplexity=21.4, set="3" * 64)
CARDS = (
    Shelved(card=card("sentiment", SENTIMENT, evidence=MEASURED, range=ENDS, ours=True), fits=True),
    Shelved(
        card=card(
            "register", FORMAL, plus="formal", minus="casual", evidence=MEASURED, ours=True,
            range=ENDS.model_copy(update={"doubled": (True, False), "high": 8.0}),
        ),
        fits=True,
    ),
    Shelved(card=card("truth", DIRECTION, kind="direction", plus="true", minus="false", rank=None, layer=3), fits=True),
    Shelved(card=card("untested", BARE, plus="long", minus="short"), fits=True),
    Shelved(
        card=card("of another", FOREIGN, model="another-model"), fits=False,
        why="It was made for another-model, whose weights differ",
    ),
)  # fmt: skip


def shelf() -> SteerShelf:
    """Two that come with the product, a direction, one without evidence, one that does not fit."""
    return SteerShelf(steers=CARDS)


def directions(sliders: int) -> np.ndarray:
    """What one step of each slider adds to the logits [sliders, V]."""
    ids = np.arange(len(VOCABULARY))
    return np.stack([np.sin(ids * (1.7 + place)) for place in range(sliders)]) if sliders else np.zeros((0, len(ids)))


def steer(ask: SteerAsk) -> SteerAnswer:
    """The softmax of made-up logits, with and without the sliders."""
    edits = ask.view.edits
    sliders = tuple(place for place, edit in enumerate(edits) if edit.on and edit.kind in ("steer", "residual.add"))
    by = np.array([getattr(edits[place], "by") for place in sliders])  # noqa: B009
    each = by[:, None] * directions(len(sliders))
    base_V = -0.15 * np.arange(len(VOCABULARY))
    steered_V = base_V + each.sum(0)
    base, steered = softmax(base_V), softmax(steered_V)
    moved = np.argsort(-(steered - base), kind="stable")

    def shift(id: int) -> Shift:
        shares = tuple(map(float, each[:, id]))
        return Shift(id=id, base=base[id], steered=steered[id], logit=float(each[:, id].sum()), shares=shares)

    tops = [np.argsort(-side, kind="stable")[: ask.top] for side in (base, steered)]
    likely = dict.fromkeys([*map(int, tops[0]), *map(int, tops[1])])
    kl = float((base * np.log(base / steered)).sum())
    return SteerAnswer(
        conditions=CONDITIONS.model_copy(update={"model": ask.view.model}), ids=(1, 2, 3),
        token=2 if ask.token is None else ask.token, sliders=sliders, base=words(base_V, tops[0]),
        steered=words(steered_V, tops[1]), likely=tuple(map(shift, likely)),
        rose=tuple(shift(int(id)) for id in moved[: ask.top] if steered[id] > base[id]),
        fell=tuple(shift(int(id)) for id in moved[::-1][: ask.top] if steered[id] < base[id]), kl=kl,
        kl_text=kl / 2 if ask.over == "text" else None, forward=any(edits[p].kind != "steer" for p in sliders),
        words={str(id): word for id, word in enumerate(VOCABULARY)},
    )  # fmt: skip


def softmax(logits_V: np.ndarray) -> np.ndarray:
    """Probabilities."""
    grown = np.exp(logits_V - logits_V.max())
    return np.asarray(grown / grown.sum())


def words(logits_V: np.ndarray, top: np.ndarray) -> Words:
    """The likeliest of one side."""
    shares = softmax(logits_V)
    entropy = -math.fsum(share * math.log(share) for share in shares)
    return Words(
        ids=tuple(map(int, top)), probability=packed(shares[top].astype("f4")),
        logit=packed(logits_V[top].astype("f4")), entropy=entropy,
    )  # fmt: skip
