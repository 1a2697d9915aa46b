"""A part set to its mean over a prompt set, as an edit."""

import asyncio
from typing import Any

from backend import errors
from backend.models.checks import check_edits
from backend.models.means import Means, MeanTables
from backend.models.vectors import Vectors
from backend.schema import (
    Conditions,
    Edit,
    FfnOutSet,
    FfnSet,
    HeadSet,
    Limits,
    MeanAnswer,
    MeanAsk,
    PromptSet,
    ResidualSet,
    VectorCard,
)
from backend.studies.asking import OnModel
from backend.studies.means import means_of

NEEDS = {"heads": "head", "ffn": "unit"}
"""The field that says which part of a tap is meant."""


async def mean(
    model: OnModel, ask: MeanAsk, chosen: PromptSet, tables: MeanTables, vectors: Vectors, limits: Limits
) -> MeanAnswer:
    """The edit. Raises `BadQuestion` and `CannotShow` for a part that is none, and as `means_of`."""
    check_names(ask)
    conditions = await model.ask(lambda loaded, cancel: _checked(loaded, ask), lambda loaded: 0)
    means = await means_of(model, conditions, chosen, tables, limits, told=lambda texts: None)
    edit = await asyncio.to_thread(_kept, ask, means, chosen, conditions, vectors)
    return MeanAnswer(conditions=conditions, edit=edit, tokens=means.tokens, set=chosen.card.id)


def check_names(ask: MeanAsk) -> None:
    """Raise `BadQuestion` unless exactly the part that the tap has is named."""
    for field in ("head", "unit"):
        given, needed = getattr(ask, field) is not None, NEEDS.get(ask.tap) == field
        if given != needed:
            raise errors.BadQuestion(
                f"`{field}` {'is missing' if needed else 'would be ignored'}",
                f"the tap `{ask.tap}` has {NEEDS.get(ask.tap, 'one vector')}{'s' * (ask.tap in NEEDS)}",
                f"{'Name' if needed else 'Leave out'} the {field}, or take another tap.",
            )


def _checked(loaded: Any, ask: MeanAsk) -> Conditions:
    check_edits(loaded.anatomy, [_edit(ask, 0.0)], 1, loaded.vectors, loaded.card.edits)
    conditions: Conditions = loaded.conditions
    return conditions


def _kept(ask: MeanAsk, means: Means, chosen: PromptSet, conditions: Conditions, vectors: Vectors) -> Edit:
    found = means.by_tap[f"{ask.tap}.{ask.layer}"]
    if ask.unit is not None:
        return _edit(ask, float(found[ask.unit]))
    head = "" if ask.head is None else f".{ask.head}"
    name = f"mean-{ask.tap.replace('_', '-')}-{ask.layer}{head}-{chosen.card.name}"[:64]
    recipe = (
        f"mean of {ask.tap}.{ask.layer}{head and f', head {ask.head},'} over {means.tokens} tokens (all but each "
        f"text's first) of the prompt set {chosen.card.name} ({chosen.card.id}) in {conditions.model} "
        f"(weights {conditions.digest[:12]})"
    )
    numbers = {"vector": (found if ask.head is None else found[ask.head]).clone()}
    return _edit(ask, vectors.keep(VectorCard(kind="direction", name=name, recipe=recipe), numbers).id)


def _edit(ask: MeanAsk, to: float | str) -> Edit:
    if ask.tap == "ffn":
        assert isinstance(to, float), "a unit's mean is a number"
        return FfnSet(layer=ask.layer, unit=ask.unit or 0, to=to)
    if ask.tap == "heads":
        return HeadSet(layer=ask.layer, head=ask.head or 0, to=to)
    return (FfnOutSet if ask.tap == "ffn_out" else ResidualSet)(layer=ask.layer, to=to)
