"""Trace: the residual stream read as words at every layer and token."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.explain import TokenId
from backend.schema.frozen import Frozen
from backend.schema.view import View


class TraceAsk(Frozen):
    """POST /api/v1/trace."""

    view: View
    part: Literal["focus", "all"] = "all"
    """`focus`: only the last row and the column of the focused token (by default the last), which come first."""
    top: Annotated[int, Field(ge=1, le=20)] = 5
    """Words of a cell."""
    tracked: Annotated[tuple[TokenId, ...], Field(max_length=16)] = ()
    """Token ids whose rank, probability and logit are told at every place."""


class LensGrid(Frozen):
    """Rows × columns of the lens. Row 0 is the embedding, row n the stream after block n−1.

    Every state goes through the model's own final norm and read-out, soft-caps and multipliers included; the last row
    is the model's own prediction of the next token.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    """Token positions."""
    ids: Array
    """i4 [rows, columns, top]: the likeliest next tokens, the likeliest first."""
    probability: Array
    """f4 [rows, columns, top]."""
    logit: Array
    """f4 [rows, columns, top]: as the model gives them, after its own caps and multipliers."""
    entropy: Array
    """f4 [rows, columns]: nats, of the whole distribution."""
    final: Array
    """f4 [rows, columns]: probability here of the token that the last row puts first."""
    shown: Array | None = None
    """f4 [rows, columns], of the unedited side: its probability of the token that the edited side puts first there."""
    rank: Array
    """i4 [rows, columns, tracked]: 0 is the likeliest."""
    tracked_probability: Array
    """f4 [rows, columns, tracked]."""
    tracked_logit: Array
    """f4 [rows, columns, tracked]."""


class TraceAnswer(Frozen):
    """The lens of a view."""

    conditions: Conditions
    ids: tuple[int, ...]
    layers: int
    """Blocks; the lens has one row more."""
    tracked: tuple[int, ...]
    edited: tuple[LensGrid, ...]
    """One grid for `all`; for `focus` the last row, then the focused column."""
    unedited: tuple[LensGrid, ...] | None = None
    settled: Array | None = None
    """i4 [T] of `all`: the first row from which on the likeliest token is that of the last row."""
    noise: float = 0.0
    """Probability below which a difference of the two sides is rounding."""
    words: dict[str, str]
    """What the token ids of this answer read, by id."""
    notices: tuple[str, ...] = ()
