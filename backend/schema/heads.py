"""The heads instrument: the statistics of every head, without the maps."""

from backend.schema.attention import Statistic
from backend.schema.conditions import Conditions
from backend.schema.frozen import Frozen
from backend.schema.view import Reading, View


class HeadsAsk(Frozen):
    """POST /api/v1/heads."""

    view: View


class HeadsAnswer(Frozen):
    """Figure 1 of the lecture and the table behind it."""

    conditions: Conditions
    ids: tuple[int, ...]
    layers: tuple[int, ...]
    heads: int
    kv_heads: int
    causal: bool
    tokens: int
    rows_used: int
    rows_left_out: int
    reading: Reading
    edited: tuple[Statistic, ...]
    unedited: tuple[Statistic, ...] | None = None
    difference: tuple[Statistic, ...] | None = None
    noise: float = 0.0
    notices: tuple[str, ...] = ()
