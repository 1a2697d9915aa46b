"""Made-up answers of the trace page's deeper questions, valid in every field: cells, contributions, patches."""

import numpy as np

from backend.schema import (
    CellAnswer,
    CellAsk,
    CellSide,
    CellValue,
    ContributionsAnswer,
    ContributionsAsk,
    ContributionsSide,
    Effect,
    EffectsAnswer,
    EffectsAsk,
    Ends,
    Explain,
    Explained,
    FfnSet,
    Moved,
    PatchAnswer,
    PatchAsk,
    PatchMap,
    PatchMapAsk,
    ResidualSet,
    SwitchAnswer,
    SwitchAsk,
    UnitName,
    Words,
)
from tests.figures.answers import CONDITIONS, VOCABULARY, MadeUp, packed

WORDS = {str(id): word for id, word in enumerate(VOCABULARY)}
NOISE = 1e-4


def explained(explain: Explain, tokens: int) -> Explained:
    """The first two words, unless others were chosen."""
    target = 0 if explain.target is None else explain.target
    foil = explain.foil if explain.foil is not None else int(target == 0)
    rest = explain.against == "rest"
    return Explained(
        token=tokens - 1 if explain.token is None else explain.token, target=target, foil=None if rest else foil,
        against=explain.against, logits=2.5, probability=0.62, foil_probability=None if rest else 0.05,
    )  # fmt: skip


def words_of(seed: int, top: int = 5) -> Words:
    """The likeliest tokens of a made-up distribution."""
    noise = np.random.default_rng(seed)
    p = np.sort(noise.dirichlet(np.ones(len(VOCABULARY))))[::-1][:top]
    ids = noise.permutation(len(VOCABULARY))[:top]
    return Words(
        ids=tuple(ids.tolist()), probability=packed(p.astype("f4")), logit=packed(np.log(p).astype("f4")), entropy=2.1
    )


def ends(seed: int, count: int = 6) -> Ends:
    """Words at both ends of a made-up vector."""
    order = np.random.default_rng(seed).permutation(len(VOCABULARY))
    logits = tuple(float(3 - place / 4) for place in range(count))
    return Ends(
        highest=tuple(order[:count].tolist()), lowest=tuple(order[-count:].tolist()), highest_logit=logits,
        lowest_logit=tuple(-logit for logit in logits),
    )  # fmt: skip


def cell(made: MadeUp, ask: CellAsk) -> CellAnswer:
    """A cell whose numbers follow from its layer and token."""
    ids = made.tokens(ask.view).ids
    token = len(ids) - 1 if ask.token is None else ask.token
    compared = ask.view.compare and bool(ask.view.active_edits)
    return CellAnswer(
        conditions=CONDITIONS, ids=ids, layer=ask.layer, token=token, reading=ask.reading, block="sequential",
        explained=explained(ask.explain, len(ids)), gated=True, words=WORDS,
        about="Before is the stream after attention, after is what the block gives. A coefficient is act(g)·u.",
        edited=_side(ask, token, len(ids), 0), unedited=_side(ask, token, len(ids), 9) if compared else None,
    )  # fmt: skip


def _side(ask: CellAsk, token: int, tokens: int, seed: int) -> CellSide:
    noise = np.random.default_rng(ask.layer * 97 + token + seed)
    values = []
    for place in range(ask.values):
        at = noise.normal(0, 1, tokens).astype("f4")
        at[token] = (-1.0) ** place * (4.0 - place / 3)
        norm = 1.0 + place / 50
        contribution = float(noise.normal(0, 0.3))
        values.append(
            CellValue(unit=34 + place * 7, coefficient=float(at[token]), norm=norm, contribution=contribution,
                      magnitude=abs(float(at[token])) * norm, ends=ends(place, ask.ends), at=packed(at))
        )  # fmt: skip
    values.sort(key=lambda value: -abs(value.contribution if ask.ranked == "contribution" else value.magnitude))
    moved = tuple(
        Moved(id=id, before=0.1 + id / 50, after=0.3 - id / 20, logit_before=1.0, logit_after=2.0) for id in range(5)
    )
    return CellSide(
        before=words_of(ask.layer + seed), after=words_of(ask.layer + 1 + seed), moved=moved, values=tuple(values),
        output_norm=5.2, bias_norm=None, sum_error=2.1e-7,
    )  # fmt: skip


def contributions(made: MadeUp, ask: ContributionsAsk) -> ContributionsAnswer:
    """Parts that add up."""
    ids = made.tokens(ask.view).ids
    compared = ask.view.compare and bool(ask.view.active_edits)
    return ContributionsAnswer(
        conditions=CONDITIONS, ids=ids, explained=explained(ask.explain, len(ids)), words=WORDS,
        edited=_adding_up(made, ask, 0), unedited=_adding_up(made, ask, 5) if compared else None,
        about="The final norm is frozen at this run.",
    )  # fmt: skip


def _adding_up(made: MadeUp, ask: ContributionsAsk, seed: int) -> ContributionsSide:
    noise = np.random.default_rng(seed)
    heads = noise.normal(0, 0.2, (made.layers, made.heads)).astype("f4")
    feed_forward = noise.normal(0, 0.4, made.layers).astype("f4")
    attention = heads.sum(1)
    values = np.sort(noise.normal(0, 0.3, ask.values).astype("f4"))[::-1]
    units = tuple(UnitName(layer=place % made.layers, unit=11 * place) for place in range(ask.values))
    return ContributionsSide(
        logits=float(attention.sum() + feed_forward.sum() + 0.1), embedding=0.1, attention=packed(attention),
        feed_forward=packed(feed_forward), heads=packed(heads), units=units,
        coefficient=packed(np.ones(ask.values, "f4")), values=packed(values.copy()), rest=0.0, sum_error=3e-6,
    )  # fmt: skip


def effects(made: MadeUp, ask: EffectsAsk, done: float = 1.0) -> EffectsAnswer:
    """Direct contributions and made-up effects, every third of which has the other sign; a share of them is `done`."""
    side = _adding_up(made, ContributionsAsk(view=ask.view), 0)
    if ask.parts == "heads":
        heads = np.frombuffer(side.heads.data, "<f4").reshape(made.layers, made.heads)
        direct = [(layer, head, float(value)) for (layer, head), value in np.ndenumerate(heads)]
    elif ask.parts == "units":
        direct = [(unit.layer, unit.unit, 0.1 * (place + 1)) for place, unit in enumerate(ask.units)]
    else:
        values = np.frombuffer(getattr(side, ask.parts).data, "<f4")
        direct = [(layer, None, float(value)) for layer, value in enumerate(values)]
    ready = round(done * len(direct))
    parts = tuple(
        Effect(layer=layer, index=index, direct=value, effect=_effect(place, value) if place < ready else None,
               disagrees=place % 3 == 0 if place < ready else None)
        for place, (layer, index, value) in enumerate(direct)
    )  # fmt: skip
    ids = made.tokens(ask.view).ids
    return EffectsAnswer(
        conditions=CONDITIONS, ids=ids, explained=explained(ask.explain, len(ids)), removal=ask.removal, set=ask.set,
        parts=parts, noise=NOISE, agreement=2 / 3 if ready else None, about="Each part removed alone.", words=WORDS,
    )  # fmt: skip


def _effect(place: int, direct: float) -> float:
    return direct * (-0.5 if place % 3 == 0 else 0.8)


def patch(made: MadeUp, ask: PatchAsk) -> PatchAnswer:
    """One edit a place."""
    ids, source = made.tokens(ask.view).ids, made.tokens(ask.source).ids
    vector = "b" * 64
    edits = tuple(ResidualSet(layer=place.layer, to=vector, at=(place.token,)) for place in ask.places)
    return PatchAnswer(conditions=CONDITIONS, edits=edits, ids=ids, source_ids=source)


def patch_map(made: MadeUp, ask: PatchMapAsk, done: float = 1.0) -> PatchMap:
    """A map that grows strong at the end of the text; rows that are not done are gaps."""
    ids, source = made.tokens(ask.view).ids, made.tokens(ask.source).ids
    logits = np.random.default_rng(3).normal(2.5, 0.2, (made.layers, len(ids))).astype("f4")
    logits[:, -1] -= np.linspace(0, 4, made.layers)
    logits[round(done * made.layers) :] = np.nan
    return PatchMap(
        conditions=CONDITIONS, ids=ids, source_ids=source, explained=explained(ask.explain, len(ids)), unpatched=2.5,
        source=-1.8, logits=packed(logits), rows=tuple(f"after block {layer}" for layer in range(made.layers)),
        about="One place at a time.", words=WORDS,
    )  # fmt: skip


def switch(made: MadeUp, ask: SwitchAsk) -> SwitchAnswer:
    """LM-Debugger's switch as an edit."""
    return SwitchAnswer(
        conditions=CONDITIONS, edit=FfnSet(layer=ask.layer, unit=ask.unit, to=2.0 if ask.on else 0.0),
        pre_activation=2.01 if ask.on else 0.0, about="The layer's largest score + 0.01, before the activation.",
    )  # fmt: skip
