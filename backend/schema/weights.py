"""Weights: what the matrices of a head are in the model's vocabulary, and the feed-forward keys beside their values.

No text is needed: an entry of W_VO or W_QK stands for two tokens, whatever is written between them.
"""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.edit import Head, Layer
from backend.schema.explain import Ends, Inverse, ReadAs, TokenId
from backend.schema.frozen import Frozen
from backend.schema.seed import Seed
from backend.schema.values import Word
from backend.schema.view import HeadName, ModelName, Revision, UnitName

Circuit = Literal["vo", "qk"]
"""`vo`: W_V W_O, row = the token that is read, column = the token that is written. `qk`: W_Q W_Kᵀ, row = the token that
looks, column = the token that is looked at."""
Part = Literal["v", "o", "q", "k"]
Sign = Literal["highest", "lowest"]
Distance = Annotated[int, Field(ge=0, le=1_000_000)]


class Filters(Frozen):
    """Which tokens may take part in a pair. Filters act inside the exact search: what is left is exact too."""

    letters: bool = False
    """Only tokens that are letters of any script, a space before them aside."""
    ascii: bool = False
    """Only tokens of ASCII characters."""
    apart: Literal["any", "tokens", "words"] = "any"
    """`tokens`: a token is no pair with itself. `words`: nor with another spelling of it (case, a space before it)."""
    text: Annotated[str, Field(max_length=100_000)] | None = None
    """Only tokens of this text; None: of any."""
    words: Annotated[tuple[Word, ...], Field(max_length=10_000)] | None = None
    """Only tokens that read like one of these words (case and a space before it aside); None: any."""
    side: Literal["both", "rows", "columns"] = "both"
    """To which side `text` and `words` apply; the other side is any token that the other filters let through."""


class _OfHead(Frozen):
    """A question about one query head of a model."""

    model: ModelName
    revision: Revision = None
    layer: Annotated[Layer, Field(strict=True)]
    head: Annotated[Head, Field(strict=True)]
    reading: ReadAs = "folded"
    """`folded`: with the gain of the norm before attention on the tokens that are read, and the final norm's on those
    that are written. `raw`: no norm, as Dar et al. published it."""
    inverse: Inverse = "transpose"


class _OfTable(_OfHead):
    """A question about entries of one of its tables."""

    circuit: Circuit = "vo"
    distance: Distance = 0
    """Of `qk` where positions are rotary: how many tokens before the query the key stands."""


class PairsAsk(_OfTable):
    """POST /api/v1/weights/pairs: the largest entries of a head's W_VO or W_QK, exactly."""

    sign: Sign = "highest"
    top: Annotated[int, Field(ge=1, le=1_000)] = 50
    filters: Filters = Filters()
    twin: Seed | None = None
    """A seed: the same table of a random matrix with the same singular values. None: of the model's own."""
    compare: bool = False
    """Find the table of the other reading too, and say how many pairs both share."""


class TokenPair(Frozen):
    """One entry."""

    row: int
    column: int
    score: float


class PairsAnswer(Frozen):
    """The largest entries, the largest (or lowest) first; of equal ones the lower row, then the lower column."""

    conditions: Conditions
    head: HeadName
    group: int
    """Its key/value head."""
    circuit: Circuit
    sign: Sign
    reading: ReadAs
    inverse: Inverse = "transpose"
    distance: int
    twin: int | None
    pairs: tuple[TokenPair, ...]
    allowed: int
    """Pairs that the filters let through."""
    rows: int
    """Tokens that may be rows."""
    columns: int
    same: int
    """Of the pairs listed, those of a token with itself."""
    variants: int
    """Of the pairs listed, those of two spellings of one word, a token with itself among them."""
    shared: int | None
    """Pairs that the table of the other reading lists too; None: not asked."""
    other_reading: str = ""
    """Why there is no other reading, where it was asked for."""
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()


class LineAsk(_OfTable):
    """POST /api/v1/weights/line: one row or column of W_VO or W_QK.

    A row of `vo`: what the head writes when it reads the token; a column: what it must read to write it. A row of `qk`:
    what the token looks at; a column: who looks at it.
    """

    line: Literal["row", "column"] = "row"
    token: TokenId | None = None
    word: Word | None = None
    """Instead of `token`: every spelling of the word that is one token."""
    top: Annotated[int, Field(ge=1, le=200)] = 20


class WeightLine(Frozen):
    """One row or column."""

    token: int
    ends: Ends
    mean: float
    """Of the line's entries over the vocabulary."""
    deviation: float


class LineAnswer(Frozen):
    """One line for each spelling."""

    conditions: Conditions
    head: HeadName
    group: int
    circuit: Circuit
    line: Literal["row", "column"]
    reading: ReadAs
    inverse: Inverse = "transpose"
    distance: int
    lines: tuple[WeightLine, ...]
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()


class SubheadsAsk(_OfHead):
    """POST /api/v1/weights/subheads: the single vectors of a head's matrices in the vocabulary."""

    part: Part = "v"
    first: Annotated[int, Field(ge=0, le=100_000)] = 0
    count: Annotated[int, Field(ge=1, le=512)] = 64
    top: Annotated[int, Field(ge=1, le=100)] = 8


class Subhead(Frozen):
    """One coordinate of a head: what it reads (`v`, `q`, `k`), or what it writes (`o`)."""

    index: int
    norm: float
    """Of the column with the norm's gain as the reading says (`v`, `q`, `k`), of the row as it stands (`o`)."""
    ends: Ends


class SubheadsAnswer(Frozen):
    """Coordinates of a head, in their order."""

    conditions: Conditions
    head: HeadName
    group: int
    part: Part
    reading: ReadAs
    inverse: Inverse = "transpose"
    subheads: tuple[Subhead, ...]
    of: int
    """How many the head has."""
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()


class CircuitSummary(Frozen):
    """One matrix of a head in numbers."""

    singular: tuple[float, ...]
    """Singular values of W_V W_O (or W_Q W_Kᵀ) as a map of the stream, norms folded in as the reading says; empty where
    `why` says so."""
    norm: float | None
    """Frobenius; None where `why` says so."""
    copying: float | None
    """Σ λ / Σ |λ| over the eigenvalues λ of the whole matrix, tokens × tokens, from −1 to 1: 1 where it maps tokens to
    themselves (Elhage et al. 2021). None where both sides do not have one vocabulary, or all λ are 0."""
    why: str = ""
    """Why there are no singular values and no norm: a norm of queries and keys makes the table no single matrix."""


class CurvePoint(Frozen):
    """The mean score at a distance."""

    distance: int
    score: float


class HeadWeightsAsk(_OfHead):
    """POST /api/v1/weights/head: one head in numbers, and its mean score against distance."""


class HeadWeightsAnswer(Frozen):
    """What one head's matrices are."""

    conditions: Conditions
    head: HeadName
    group: int
    groups: int
    reading: ReadAs
    inverse: Inverse = "transpose"
    vo: CircuitSummary | None
    qk: CircuitSummary | None
    why: dict[str, str]
    """Why one of them is absent, by its name."""
    positions: Literal["rotary", "learned", "bias", "none", "unknown"]
    """`bias`: a number is added to scores that the distance decides (ALiBi)."""
    curve: tuple[CurvePoint, ...]
    """Mean score of two tokens, over all pairs of the vocabulary, by how far the key stands behind the query."""
    about: str
    notices: tuple[str, ...] = ()


class OverlapsAsk(Frozen):
    """POST /api/v1/weights/overlaps: the units of a layer whose key and value have words in common."""

    model: ModelName
    revision: Revision = None
    layer: Annotated[Layer, Field(strict=True)]
    reading: ReadAs = "folded"
    inverse: Inverse = "transpose"
    """Of the keys."""
    end: Literal["promoted", "suppressed", "absolute"] = "absolute"
    """Which words of each are compared; `absolute`: those moved most either way, as the paper's notebook does."""
    k: Annotated[int, Field(ge=1, le=1_000)] = 100
    least: Annotated[float, Field(ge=0, le=1)] = 0.15
    """Smallest overlap that is listed."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class Overlap(Frozen):
    """One unit whose key and value are about the same words."""

    unit: UnitName
    jaccard: float
    """|both| / |either| of the two sets of k words."""
    shared: tuple[int, ...]
    """Words that both have, in the value's order; the first few."""
    key: Ends
    value: Ends


class OverlapsAnswer(Frozen):
    """The units of a layer, the largest overlap first; of equal ones the lower unit."""

    conditions: Conditions
    layer: int
    reading: ReadAs
    inverse: Inverse = "transpose"
    key: str
    """Which of the unit's keys was compared: `key`, or `gate` of a gated block."""
    units: int
    reached: int
    """Units whose overlap is at least `least`."""
    chance: float
    """Mean overlap of two random sets of k words: k / (2 V − k), near enough."""
    jaccard: Array
    """f4 [units]: the overlap of every unit."""
    overlaps: tuple[Overlap, ...]
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()
