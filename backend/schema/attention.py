"""The attention instrument: every head at a glance, and one head exactly. Order of axes: [L, H, q, k]."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.frozen import Frozen
from backend.schema.limits import MAP_CELLS
from backend.schema.view import HeadName, Reading, Region, View


class Statistic(Frozen):
    """One number a head, beside what uniform attention would give under the same mask."""

    name: str
    label: str
    unit: str
    """nats, share, tokens or ratio."""
    definition: str
    """One sentence, as printed on the panel."""
    value: Array
    """f4 [L, H]; NaN where undefined (shown n/a, never 0)."""
    uniform: Array
    """f4 [L, H]; its value under uniform attention over the same visible keys."""
    rows: Array
    """i4 [L, H]; query rows that were averaged."""
    noise: float = 0.0
    """Of a difference: what it may be where nothing was edited; a scale is never narrower."""


class HeadMaps(Frozen):
    """All heads of one side."""

    maps: Array
    """Edited, unedited: u1 [L, H, q, k] = round(255·√p). Difference: i1, times `scale` is edited − unedited.

    A pooled cell holds the largest weight of its pairs (`max`), or the mean over the pairs that may see each other
    (`mean`); in a difference `max` is the change that is farthest from 0, with its sign.
    """
    scale: float | None = None
    statistics: tuple[Statistic, ...]


class Overview(Frozen):
    """Every layer and head of a view."""

    conditions: Conditions
    ids: tuple[int, ...]
    layers: tuple[int, ...]
    """Block number of each row of the grid."""
    heads: int
    kv_heads: int
    """Key/value heads; query heads h with equal h // (heads // kv_heads) share one."""
    causal: bool
    tokens: int
    rows_used: int
    """Query rows the statistics are averaged over."""
    rows_left_out: int
    cells: tuple[int, int]
    """Size of a thumbnail: queries, keys."""
    pooled: bool
    """False: one cell is one pair of tokens."""
    reading: Reading
    edited: HeadMaps
    """The view's own model: with its edits, if it has any."""
    unedited: HeadMaps | None = None
    difference: HeadMaps | None = None
    noise: float = 0.0
    """The numerical noise of a map difference; a difference scale is never narrower."""
    notices: tuple[str, ...] = ()


class OverviewAsk(Frozen):
    """POST /api/v1/attention."""

    view: View
    cells: Annotated[int, Field(ge=4, le=64)] | None = None
    """Cells a side of a thumbnail; None: 64 up to 300 heads, 32 above."""


class Link(Frozen):
    """One strong pair."""

    query: int
    key: int
    weight: float


class HeadSide(Frozen):
    """One head (or the mean of several), one side."""

    map: Array
    """f4 [q, k]: raw probabilities (or value-weighted norms), pooled only when `pooled`."""
    entropy: Array | None
    """f4 [T] nats, one a query row of the whole text; None for a difference of unlike things."""
    strongest: Array
    """i4 [T, n]: for each query row its n strongest keys, strongest first; −1 pads."""
    weights: Array
    """f4 [T, n]: their weights."""
    undrawn: Array
    """f4 [T]: the share of the row's total that is not in `strongest`."""
    looks_at: Array | None
    """f4 [T]: the focus token's row, exact."""
    looked_at_by: Array | None
    """f4 [T]: the focus token's column, exact."""
    links_out: tuple[Link, ...] = ()
    """Strongest links of the focus token to keys."""
    links_in: tuple[Link, ...] = ()
    """Strongest links of queries to the focus token."""


class HeadAnswer(Frozen):
    """One head exactly."""

    conditions: Conditions
    ids: tuple[int, ...]
    heads: tuple[HeadName, ...]
    region: Region
    """What the map shows."""
    cells: tuple[int, int]
    pooled: bool
    reading: Reading
    unit: Literal["probability", "norm"]
    token: int | None
    uniform_entropy: Array
    """f4 [T]: ln n of each row."""
    visible: Array
    """i4 [T]: n, the keys each row may see."""
    edited: HeadSide
    unedited: HeadSide | None = None
    difference: HeadSide | None = None
    noise: float = 0.0
    notices: tuple[str, ...] = ()


class HeadAsk(Frozen):
    """POST /api/v1/attention/head."""

    view: View
    heads: Annotated[tuple[HeadName, ...], Field(min_length=1, max_length=4096)]
    """One head, or several: their mean."""
    region: Region | None = None
    """None: the whole map."""
    cells: Annotated[int, Field(ge=1, le=MAP_CELLS)] = 512
    """Cells a side at most; a longer region is pooled."""
    token: Annotated[int, Field(ge=0, le=9_999_999)] | None = None
    """The focus token."""
    links: Annotated[int, Field(ge=1, le=32)] = 3
    """Strongest keys kept for each row."""
