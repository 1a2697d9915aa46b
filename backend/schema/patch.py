"""Patching: what one text's run holds at a place put into another's, as an edit."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.contributions import SetId
from backend.schema.edit import Edit, Head, Layer, Position, Unit
from backend.schema.explain import Explain, Explained
from backend.schema.frozen import Frozen
from backend.schema.view import HeadName, View

PatchTap = Literal["residual", "heads", "ffn_out"]


class PatchPlace(Frozen):
    """Where: the stream after block `layer`, one head of it, or what its feed-forward block writes; at one token."""

    tap: PatchTap
    layer: Layer
    head: Head | None = None
    """With `heads`."""
    token: Position


class PatchAsk(Frozen):
    """POST /api/v1/trace/patch: take what `source` holds at these places, as edits of `view`.

    The texts are aligned by position: they need the same number of tokens.
    """

    view: View
    source: View
    """The same model; its own edits act in its run."""
    places: Annotated[tuple[PatchPlace, ...], Field(min_length=1, max_length=64)]


class PatchAnswer(Frozen):
    """Edits that put the source's numbers there; the vectors are stored with their recipe."""

    conditions: Conditions
    edits: tuple[Edit, ...]
    """One a place, in order; each acts at its position only."""
    ids: tuple[int, ...]
    source_ids: tuple[int, ...]
    notices: tuple[str, ...] = ()


class PatchMapAsk(Frozen):
    """POST /api/v1/trace/patch/map: the effect of every cell of the grid, one at a time. Answers a Job."""

    view: View
    source: View
    tap: PatchTap = "residual"
    heads: Annotated[tuple[HeadName, ...], Field(max_length=1024)] = ()
    """With `heads`: a map of tokens for each of these; empty: all heads of a layer together."""
    explain: Explain = Explain()


class PatchMap(Frozen):
    """The job's result; its `partial` has NaN where a cell has not been measured."""

    conditions: Conditions
    ids: tuple[int, ...]
    source_ids: tuple[int, ...]
    explained: Explained
    unpatched: float
    """logit(target) − logit(foil) of the view."""
    source: float
    """The same pair in the source's own run."""
    logits: Array
    """f4 [rows, T]: the same pair with that one cell patched."""
    rows: tuple[str, ...]
    """What the rows are: `after block 3`, `head 9.6`, …"""
    about: str
    words: dict[str, str]


class MeanAsk(Frozen):
    """POST /api/v1/trace/mean: set a part to its mean over a prompt set, as an edit."""

    view: View
    """Its model and revision say which; its text does not matter."""
    tap: Literal["heads", "ffn", "ffn_out", "residual"]
    layer: Layer
    head: Head | None = None
    unit: Unit | None = None
    set: SetId | None = None
    """None: the set that comes with the product."""


class MeanAnswer(Frozen):
    """The edit; a mean vector is stored with its recipe, a unit's mean is a number."""

    conditions: Conditions
    edit: Edit
    tokens: int
    """Tokens averaged over: all of the set but each text's first."""
    set: SetId
