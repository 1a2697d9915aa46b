"""R_k by layer: what the most active vectors say, against what the state of the layer and the final state say.

Axes: S settings, N texts, T tokens of all texts, k words.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from backend import errors
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.measure import intervals
from backend.measure.active import shuffled
from backend.measure.intervals import SHARE, SIGNED, ratios
from backend.models import active as models
from backend.models.active import Run, Steps
from backend.models.likelihood import Reading
from backend.models.loaded import Loaded
from backend.schema import ActiveAsk, ActivePoint, ActiveStudy, Conditions, Group, Limits
from backend.studies.aside import aside
from backend.studies.asking import OnModel
from backend.studies.library import Library
from backend.studies.weighing import Weighing, pieces

KIND = "active"
AGAINST: tuple[Literal["layer", "final"], ...] = ("layer", "final")
ABOUT = (
    "R_k: of the {k} likeliest words of a state, the share, from 0 to 1, that are among the {k} words moved up most "
    "by one of the {active} most active vectors of the layer at that token (Dar et al. 2023, §4.2 and Appendix B.2). "
    "Most active: of keys and values the units with the largest coefficients, signed{gated}; of W_V's columns and "
    "W_O's rows the largest coordinates of all heads' outputs. The state is that after the layer, or after the last, "
    "through the model's own final norm and read-out. {reading} Shuffled: the same vectors against the state of "
    "another token (one random order, seed {seed}). {tokens:,} tokens of {texts} texts, the first of each left out. "
    "Intervals: {intervals}."
)
GATED = " (a gated unit's coefficient is its gate's activation times its other key; its key here is the gate)"
ONE_TEXT = "All tokens are of one text: its interval says nothing of other texts."
READINGS = {
    "folded": "Vectors folded: through the gain of the norm that they stand behind, or of the final norm.",
    "raw": "Vectors raw, as published: the bare product with the embedding.",
}


@dataclass
class Found:
    """The study as it stands."""

    ask: ActiveAsk
    conditions: Conditions
    steps: Steps
    readings: list[Reading]
    set: str
    points: list[ActivePoint] = field(default_factory=list)

    def answer(self) -> ActiveStudy:
        """For the wire."""
        ask, tokens = self.ask, sum(self.lengths)
        about = ABOUT.format(
            k=ask.k, active=ask.active, gated=GATED if self.steps.gated else "", reading=READINGS[ask.reading],
            seed=ask.seed, intervals=intervals.method("texts"), tokens=tokens, texts=len(self.readings),
        )  # fmt: skip
        texts = len(self.readings)
        notices = (ONE_TEXT,) if texts == 1 else ()
        return ActiveStudy(
            conditions=self.conditions, reading=ask.reading, k=ask.k, active=ask.active, tokens=tokens,
            texts=len(self.readings), set=self.set, points=tuple(self.points), why=self.steps.why, about=about,
            notices=notices,
        )  # fmt: skip

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text, without its first."""
        return [len(read.ids) - 1 for read in self.readings]


def check(loaded: Any, ask: ActiveAsk, library: Library, cancel: Cancel) -> None:
    """Raise where nothing that is asked for can be measured."""
    models.steps_of(loaded, ask)


async def study(model: OnModel, ask: ActiveAsk, library: Library, report: Report) -> dict[str, Any]:
    """Run the texts, then measure layer by layer. Raises as `check`, and what a question raises."""
    weighing = Weighing(model, report, library.kept)
    chosen = await asyncio.to_thread(library.sets.get, ask.set)
    report("reading texts", 0, None, "")
    steps, readings = await weighing.begun(partial(_begin, ask=ask, texts=chosen.texts))
    found = Found(ask, model.conditions, steps, readings, chosen.card.id)

    async def whole() -> Any:
        runs = []
        for done, read in enumerate(readings):
            report("running texts", done, len(readings), "texts")
            make = partial(_run, read=read, steps=steps, ask=ask)
            runs.append(await weighing.ask(make, partial(models.run_bytes, tokens=len(read.ids))))
        await _measure(weighing, found, runs)
        return found.answer().model_dump(mode="json")

    told = await weighing.once(KIND, weighing.content(ask, found.set), whole)
    return {**told, "conditions": model.conditions.model_dump(mode="json")}


async def _measure(weighing: Weighing, found: Found, runs: list[Run]) -> None:
    ask, steps = found.ask, found.steps
    layers = len(runs[0].states_LTD)
    order_T = shuffled(sum(found.lengths), ask.seed)
    measured = sorted({layer for of in steps.layers.values() for layer in of})

    async def words(layer: int) -> Tensor:
        states_TD = torch.cat([run.states_LTD[layer] for run in runs])
        parts = []
        for some_TD in pieces(states_TD, steps.at_once):
            make = partial(_words, states_TD=some_TD, last=layer == layers - 1, k=ask.k)
            parts.append(await weighing.ask(make, partial(_cost, ask)))
        return torch.cat(parts)

    async def shared(group: Group, layer: int, against: dict[str, Tensor]) -> dict[str, Tensor]:
        active_TM = torch.cat([run.active[models.tap_of(group, layer)] for run in runs])
        needed_N, place_TM = models.needed(active_TM)
        parts, size = [], 0
        for some_N in pieces(needed_N, steps.at_once):
            make = partial(_of_vectors, group=group, layer=layer, needed_N=some_N, ask=ask)
            words_Nk, size = await weighing.ask(make, partial(_cost, ask))
            parts.append(words_Nk)
        return await aside(models.group_shares, torch.cat(parts), place_TM, against, size)

    final_Tk = await words(layers - 1)
    for done, layer in enumerate(measured):
        weighing.report("comparing words", done, len(measured), "layers")
        state_Tk = final_Tk if layer == layers - 1 else await words(layer)
        against = {"layer": state_Tk, "final": final_Tk}
        against |= {f"{name} shuffled": words_Tk[order_T] for name, words_Tk in against.items()}
        for group, of in steps.layers.items():
            if layer in of:
                shares = await shared(group, layer, against)
                found.points += await asyncio.to_thread(points, group, layer, shares, found.lengths, ask.seed)
        await weighing.publish(found.answer)
    weighing.report("comparing words", len(measured), len(measured), "layers")


def points(group: Group, layer: int, shares: dict[str, Tensor], lengths: list[int], seed: int) -> list[ActivePoint]:
    """Means over tokens with intervals over texts, against both states."""
    rows = []
    for against in AGAINST:
        own_T, other_T = shares[against], shares[f"{against} shuffled"]
        rows += [own_T, other_T, own_T - other_T]
    over_SN = torch.stack([torch.stack([part.sum() for part in torch.split(row_T, lengths)]) for row_T in rows])
    told = ratios(
        over_SN, torch.tensor(lengths, dtype=torch.float64)[None], seed=seed, within=[SHARE, SHARE, SIGNED] * 2
    )
    return [
        ActivePoint(group=group, layer=layer, against=against, own=own, shuffled=other, more=more)
        for against, (own, other, more) in zip(AGAINST, (told[:3], told[3:]), strict=True)
    ]


def _begin(loaded: Loaded, cancel: Cancel, *, ask: ActiveAsk, texts: tuple[str, ...]) -> tuple[Steps, list[Reading]]:
    steps, readings = models.steps_of(loaded, ask), models.read_texts(loaded, texts, ask, cancel)
    if sum(len(read.ids) - 1 for read in readings) < 2:
        raise errors.BadQuestion(
            "There are too few tokens", "the first of each text is left out, and less than two are left to shuffle",
            "Choose a set of longer texts.",
        )  # fmt: skip
    return steps, readings


def _run(loaded: Loaded, cancel: Cancel, **more: Any) -> Run:
    return models.run(loaded, cancel=cancel, **more)


def _words(loaded: Loaded, cancel: Cancel, **more: Any) -> Tensor:
    return models.state_words(loaded, cancel=cancel, **more)


def _of_vectors(loaded: Loaded, cancel: Cancel, **more: Any) -> tuple[Tensor, int]:
    return models.vector_words(loaded, cancel=cancel, **more)


def _cost(ask: ActiveAsk, loaded: Loaded) -> int:
    return models.words_bytes(loaded, ask)


def cost(loaded: Loaded, ask: ActiveAsk, limits: Limits) -> int:
    """Bytes that checking takes: the vectors of a layer."""
    return models.words_bytes(loaded, ask)
