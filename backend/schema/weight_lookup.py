"""Lookup among the weights: concept words in, the vectors of every group of weights that are near out."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.conditions import Conditions
from backend.schema.explain import Ends, ReadAs
from backend.schema.frozen import Frozen
from backend.schema.values import Word, WordSpelling
from backend.schema.view import ModelName, Revision

Among = Literal["values", "keys", "v", "o", "q", "k"]
"""`values`, `keys`: of feed-forward units. `v`, `o`, `q`, `k`: subheads, the single vectors of a head's matrices."""
GROUPS: tuple[Among, ...] = ("values", "keys", "v", "o", "q", "k")


class ConceptAsk(Frozen):
    """POST /api/v1/weights/lookup: Dar et al.'s concept lookup among values, keys and subheads of all layers.

    A concept is the mean embedding of the spellings of its words less the mean embedding of all tokens: the output
    embedding for what writes (`values`, `o`), the input embedding for what reads.
    """

    model: ModelName
    revision: Revision = None
    words: Annotated[tuple[Word, ...], Field(min_length=1, max_length=32)]
    leave_out: bool = False
    """Of words that are no single token: False refuses the question and names each, its pieces and its forms that are
    one; True leaves them out and says so among the notices."""
    among: Annotated[tuple[Among, ...], Field(min_length=1, max_length=6)] = GROUPS
    reading: ReadAs = "raw"
    """`raw`: the vectors as they stand, as published. `folded`: with the gains of the norms that the model applies."""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Vectors listed of each group."""


class Near(Frozen):
    """One vector near a concept."""

    layer: int
    unit: int | None = None
    """Of `values` and `keys`."""
    head: int | None = None
    """Of subheads: the query head of `q` and `o`, the key/value head of `k` and `v`."""
    index: int | None = None
    """Of subheads: the coordinate of the head."""
    score: float
    """Dot product with the concept."""
    cosine: float
    ends: Ends
    """A few words that it reads, or writes, most and least."""


class ConceptGroup(Frozen):
    """What is near in one group, the largest score first; of equal ones the lower layer, then the lower place."""

    among: Among
    found: tuple[Near, ...] = ()
    searched: int = 0
    why: str = ""
    """Why this group cannot be searched; empty where it was."""


class ConceptAnswer(Frozen):
    """One list for each group that was asked for."""

    conditions: Conditions
    reading: ReadAs
    spellings: tuple[WordSpelling, ...]
    groups: tuple[ConceptGroup, ...]
    words: dict[str, str]
    about: str
    notices: tuple[str, ...] = ()
