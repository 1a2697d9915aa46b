"""Values: the feed-forward units of a model read in its vocabulary, and found by words."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.edit import Layer, Unit
from backend.schema.explain import Ends, ReadAs
from backend.schema.frozen import Frozen
from backend.schema.view import ModelName, Revision, UnitName, View

Word = Annotated[str, Field(min_length=1, max_length=256)]


class ValueAsk(Frozen):
    """POST /api/v1/values: one value."""

    model: ModelName
    revision: Revision = None
    layer: Annotated[Layer, Field(strict=True)]
    unit: Annotated[Unit, Field(strict=True)]
    top: Annotated[int, Field(ge=1, le=200)] = 50
    similar: Annotated[int, Field(ge=0, le=50)] = 10
    reading: ReadAs = "folded"


class Key(Frozen):
    """What a unit reads: a row of one of the matrices that make its coefficient."""

    name: str
    """`key`, or `gate` and `up` in gated blocks."""
    norm: float
    ends: Ends
    """Read as it stands (raw): a key reads the stream through the block's own norm."""


class Similar(Frozen):
    """A value whose direction is near."""

    unit: UnitName
    cosine: float


class ValueAnswer(Frozen):
    """One value's page."""

    conditions: Conditions
    unit: UnitName
    reading: ReadAs
    norm: float
    ends: Ends
    highest_z: tuple[float, ...]
    """As `ends.highest`: logit minus the value's mean over the vocabulary, over its standard deviation. Empty where all
    its logits are equal."""
    lowest_z: tuple[float, ...]
    mean: float
    """Of its logits over the vocabulary."""
    deviation: float
    keys: tuple[Key, ...]
    similar: tuple[Similar, ...]
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()


class FiresAsk(Frozen):
    """POST /api/v1/values/fires: where a value fires in a text."""

    view: View
    layer: Annotated[Layer, Field(strict=True)]
    unit: Annotated[Unit, Field(strict=True)]


class FiresAnswer(Frozen):
    """A unit's coefficient at every token."""

    conditions: Conditions
    ids: tuple[int, ...]
    unit: UnitName
    edited: Array
    """f4 [T]: what the write matrix takes, after edits: the activation; in gated blocks the product act(g)·u."""
    unedited: Array | None = None
    gated: bool
    words: dict[str, str]
    notices: tuple[str, ...] = ()


class SearchAsk(Frozen):
    """POST /api/v1/values/search: words in, values out, over all layers."""

    model: ModelName
    revision: Revision = None
    words: Annotated[tuple[Word, ...], Field(min_length=1, max_length=32)]
    end: Literal["promoted", "suppressed", "both"] = "promoted"
    ranked: Literal["logit", "z"] = "z"
    """`z`: logit minus the value's mean over the vocabulary, over its standard deviation."""
    reading: ReadAs = "folded"
    limit: Annotated[int, Field(ge=1, le=200)] = 20


class WordSpelling(Frozen):
    """One way in which the tokenizer writes a word as a single token."""

    word: str
    id: int
    text: str
    """What the token reads, its space included."""


class Hit(Frozen):
    """A value that was found."""

    unit: UnitName
    id: int
    """The spelling that it moves most."""
    end: Literal["promoted", "suppressed"]
    logit: float
    z: float | None
    """None where all logits of the value are equal."""
    rank: int
    """Exact place of that token among the whole vocabulary, from that end; 0 is the first."""
    ends: Ends
    """A few words at both ends."""


class SearchAnswer(Frozen):
    """What was found, the strongest first."""

    conditions: Conditions
    spellings: tuple[WordSpelling, ...]
    hits: tuple[Hit, ...]
    values: int
    """How many were searched."""
    reading: ReadAs
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()


class LookupAsk(Frozen):
    """POST /api/v1/values/lookup: Dar et al.'s concept lookup: the mean embedding of words, less that of all tokens."""

    model: ModelName
    revision: Revision = None
    words: Annotated[tuple[Word, ...], Field(min_length=1, max_length=32)]
    of: Literal["values", "keys"] = "values"
    limit: Annotated[int, Field(ge=1, le=200)] = 20


class Found(Frozen):
    """A value or key near a concept."""

    unit: UnitName
    score: float
    """Dot product with the concept's vector."""
    ends: Ends


class LookupAnswer(Frozen):
    """What is near, the nearest first."""

    conditions: Conditions
    spellings: tuple[WordSpelling, ...]
    found: tuple[Found, ...]
    searched: int
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()
