"""All heads of a model at once: the top pairs of each, and what its W_VO is in numbers. Both are jobs."""

from typing import Annotated

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.explain import Inverse, ReadAs
from backend.schema.frozen import Frozen
from backend.schema.seed import Seed
from backend.schema.view import ModelName, Revision
from backend.schema.weights import Circuit, Distance, Filters, Sign


class TablesAsk(Frozen):
    """POST /api/v1/weights/tables: the largest entries of every head's W_VO or W_QK, exactly; a job.

    The question of POST /api/v1/weights/pairs without a layer and a head. Kept by its content: whoever asks the same of
    the same weights gets it at once.
    """

    model: ModelName
    revision: Revision = None
    circuit: Circuit = "vo"
    reading: ReadAs = "folded"
    inverse: Inverse = "transpose"
    distance: Distance = 0
    """As of one head's pairs."""
    sign: Sign = "highest"
    top: Annotated[int, Field(ge=1, le=1_000)] = 50
    filters: Filters = Filters()
    twin: Seed | None = None
    """A seed: the same tables of random matrices with the same singular values."""


class HeadTables(Frozen):
    """The job's result and its partial, head by head. N pairs of each of n heads, the largest (or lowest) first."""

    conditions: Conditions
    circuit: Circuit
    reading: ReadAs
    inverse: Inverse = "transpose"
    distance: int
    sign: Sign
    twin: int | None
    layer: Array
    """i4 [n]: the heads that were searched, layer by layer."""
    head: Array
    """i4 [n]."""
    group: Array
    """i4 [n]: their key/value heads."""
    row: Array
    """i4 [n, N] token ids."""
    column: Array
    """i4 [n, N] token ids."""
    score: Array
    """f4 [n, N], in the unit that `about` says."""
    same: Array
    """i4 [n]: of the pairs listed, those of a token with itself."""
    variants: Array
    """i4 [n]: those of two spellings of one word, a token with itself among them."""
    heads: int
    """How many heads the model has; fewer are listed while the job runs, and where `why` says so."""
    why: dict[str, str]
    """By layer, as text: why its heads have no table."""
    allowed: int
    """Pairs that the filters let through."""
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()


class SummariesAsk(Frozen):
    """POST /api/v1/weights/heads: W_VO of every head in numbers; a job, kept by its content."""

    model: ModelName
    revision: Revision = None
    reading: ReadAs = "folded"
    top: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Of how many top pairs the share of same tokens is told."""


class HeadSummaries(Frozen):
    """The job's result and its partial: first singular values and copying, then the pairs, which take longer.

    Arrays are f4 [layers, heads]; NaN: not measured yet, or not to be measured, as `why` says.
    """

    conditions: Conditions
    reading: ReadAs
    top: int
    layers: tuple[int, ...]
    """The layers that have attention."""
    heads: int
    kv_heads: int
    largest: Array
    """σ₁, the largest singular value of W_VO as a map of the stream, norms folded in as the reading says."""
    first: Array
    """σ₁² / Σ σ²: the share of the first singular direction; 1 where W_VO has rank 1."""
    rank: Array
    """exp of the entropy of σ / Σ σ (effective rank), from 1 to the head's width."""
    copying: Array
    """Σ λ / Σ |λ| over the eigenvalues of the table, tokens × tokens, from −1 to 1."""
    same: Array
    """Share, from 0 to 1, of a token with itself among the `top` highest pairs of W_VO."""
    searched: int
    """Heads whose pairs were searched."""
    why: dict[str, str]
    """By layer, as text: why it has no numbers."""
    copying_why: str = ""
    """Why no head has a copying score."""
    abouts: dict[str, str]
    """By array: its definition and unit, in words."""
    notices: tuple[str, ...] = ()
