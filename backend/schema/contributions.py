"""Contributions: what every part of the model writes towards one prediction, directly; and what its removal does."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.explain import Explain, Explained
from backend.schema.frozen import Frozen
from backend.schema.view import HeadName, UnitName, View

SetId = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""Names a prompt set by the SHA-256 of its texts."""


class ContributionsAsk(Frozen):
    """POST /api/v1/trace/contributions."""

    view: View
    explain: Explain = Explain()
    values: Annotated[int, Field(ge=0, le=200)] = 20
    """How many values, of all layers, come with their contribution: those that contribute most, either way."""


class ContributionsSide(Frozen):
    """Direct contributions in logits: every norm frozen at this run, its gain folded in."""

    logits: float
    """What they add up to: the pair's difference before any soft-cap."""
    embedding: float
    attention: Array
    """f4 [L]: everything that attention adds, its bias included."""
    feed_forward: Array
    """f4 [L]: everything that the feed-forward block adds, its bias included."""
    heads: Array
    """f4 [L, H]: each query head; NaN in layers without attention that can be read."""
    units: tuple[UnitName, ...]
    coefficient: Array
    """f4 [units]."""
    values: Array
    """f4 [units]: each unit's direct contribution."""
    rest: float
    """What no part holds: biases of norms and of the read-out, other constants of the stream, and what edits of the
    stream put there."""
    sum_error: float
    """|embedding + attention + feed-forward + rest − logits|."""


class ContributionsAnswer(Frozen):
    """What every part writes towards target minus foil."""

    conditions: Conditions
    ids: tuple[int, ...]
    explained: Explained
    edited: ContributionsSide
    unedited: ContributionsSide | None = None
    about: str
    words: dict[str, str]
    notices: tuple[str, ...] = ()


Removal = Literal["zero", "mean"]
"""`zero`: the part's output is 0. `mean`: it is its mean over a prompt set. They are different experiments."""


class EffectsAsk(Frozen):
    """POST /api/v1/trace/effects: remove parts, one at a time, and see what the prediction does. Answers a Job."""

    view: View
    explain: Explain = Explain()
    parts: Literal["heads", "attention", "feed_forward", "units"] = "heads"
    """All heads; all heads of a layer together; a layer's whole feed-forward output; or the `units` named."""
    heads: Annotated[tuple[HeadName, ...], Field(max_length=4096)] = ()
    """With `parts` heads: only these; empty: all."""
    units: Annotated[tuple[UnitName, ...], Field(max_length=1024)] = ()
    """With `parts` units: which."""
    removal: Removal = "zero"
    set: SetId | None = None
    """With `mean`: over which prompt set; None: the one that comes with the product."""


class Effect(Frozen):
    """One part."""

    layer: int
    index: int | None
    """Head or unit; None: the whole layer."""
    direct: float | None
    """Direct contribution, in logits; None where it is not defined."""
    effect: float | None
    """Logits with the part minus logits without it, so that it has the sign of a contribution; None: not yet."""
    disagrees: bool | None = None
    """The two have different signs, and neither is within the noise."""


class EffectsAnswer(Frozen):
    """The job's result; its `partial` has the same form with effects missing."""

    conditions: Conditions
    ids: tuple[int, ...]
    explained: Explained
    removal: Removal
    set: SetId | None
    parts: tuple[Effect, ...]
    noise: float
    """Logits that the pair differs by when the same run is a row of a larger batch."""
    agreement: float | None
    """Share of the measured parts whose direct contribution has the sign of the effect; None: none measured."""
    about: str
    words: dict[str, str]
