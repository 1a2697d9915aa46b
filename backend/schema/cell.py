"""Cell: one layer and token of the lens, before and after the feed-forward block, and the values that were written."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.edit import FfnSet, Layer, Position, Unit
from backend.schema.explain import Ends, Explain, Explained, ReadAs, Words
from backend.schema.frozen import Frozen
from backend.schema.view import View


class CellAsk(Frozen):
    """POST /api/v1/trace/cell."""

    view: View
    layer: Layer
    """The block, counted from 0."""
    token: Position | None = None
    """None: the last."""
    explain: Explain = Explain()
    """`explain.token` is the token whose prediction the contributions are for; None: the cell's own token."""
    top: Annotated[int, Field(ge=1, le=50)] = 10
    values: Annotated[int, Field(ge=1, le=100)] = 10
    ends: Annotated[int, Field(ge=1, le=50)] = 10
    """Words at each end of a value."""
    ranked: Literal["magnitude", "contribution"] = "magnitude"
    """`magnitude`: |coefficient|·‖value‖. `contribution`: size of the direct contribution."""
    reading: ReadAs = "folded"


class CellValue(Frozen):
    """One value vector as it was written here."""

    unit: int
    coefficient: float
    """What the write matrix takes, after edits: the activation; in gated blocks the product act(g)·u."""
    norm: float
    """‖value‖."""
    magnitude: float
    """|coefficient|·‖value‖, LM-Debugger's score."""
    contribution: float | None
    """Direct contribution to target minus foil, in logits; None where it is not defined, and `notices` say why."""
    ends: Ends
    at: Array
    """f4 [T]: its coefficient at every position."""


class Moved(Frozen):
    """A token whose probability the feed-forward block has moved most."""

    id: int
    before: float
    after: float
    """Probabilities."""
    logit_before: float
    logit_after: float


class CellSide(Frozen):
    """One side of a cell."""

    before: Words
    """The stream that the feed-forward block adds to, through the final norm and read-out."""
    after: Words
    """What the block gives."""
    moved: tuple[Moved, ...]
    """The largest changes of probability between the two, the largest first."""
    values: tuple[CellValue, ...]
    output_norm: float
    """‖Σ coefficient · value + bias‖."""
    bias_norm: float | None
    """None: the write matrix has no bias."""
    sum_error: float
    """Largest |Σ coefficient · value + bias − what the write matrix gave|, over the norm of the latter."""


class CellAnswer(Frozen):
    """One cell of the lens, opened."""

    conditions: Conditions
    ids: tuple[int, ...]
    layer: int
    token: int
    explained: Explained | None
    """None where contributions are not defined."""
    reading: ReadAs
    block: Literal["sequential", "parallel"]
    """`parallel`: attention and feed-forward read the same state; `before` is then block input + attention."""
    gated: bool
    """Whether a coefficient is a product act(g)·u."""
    about: str
    """What before, after and coefficient mean in this model, in sentences."""
    edited: CellSide
    unedited: CellSide | None = None
    words: dict[str, str]
    notices: tuple[str, ...] = ()


class SwitchAsk(Frozen):
    """POST /api/v1/trace/switch: LM-Debugger's on and off for one value, resolved to a number once."""

    view: View
    layer: Layer
    unit: Unit
    on: bool


class SwitchAnswer(Frozen):
    """The edit that does what LM-Debugger's switch did."""

    conditions: Conditions
    edit: FfnSet
    pre_activation: float
    """What the old tool wrote before the activation: 0, or the layer's largest score at the last token + 0.01."""
    about: str
