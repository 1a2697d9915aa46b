"""Studies of what reading weights in the vocabulary is worth, as Dar et al. 2023 made them. Each is a job."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.conditions import Conditions
from backend.schema.contributions import SetId
from backend.schema.explain import Inverse, ReadAs
from backend.schema.frozen import Frozen
from backend.schema.seed import Seed
from backend.schema.steers import Interval
from backend.schema.view import ModelName, Revision

Vectors = Literal["normal", "values", "states"]
"""`normal`: every number from N(0, 1). `values`: of feed-forward units. `states`: of the stream, along texts."""
Group = Literal["keys", "values", "attention_values", "attention_outputs"]
"""Vectors of a layer: keys and values of its units; columns of W_V and rows of W_O, one of each a coordinate of a
head."""
Pairing = Literal["keys_values", "values_outputs", "queries_keys"]
"""Which vectors belong together: key and value of a unit; column of W_V and row of W_O of a head's coordinate; column
of W_Q and column of W_K of one."""


class KeepAsk(Frozen):
    """POST /api/v1/weights/keep: what is left of products when only the k largest words of each vector are kept."""

    model: ModelName
    revision: Revision = None
    vectors: Annotated[tuple[Vectors, ...], Field(min_length=1, max_length=3)] = ("normal", "values", "states")
    ks: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(max_length=64)] = ()
    """Empty: those of the paper that the vocabulary has, and the whole vocabulary."""
    count: Annotated[int, Field(ge=2, le=2_000)] = 300
    """Vectors of each kind."""
    set: SetId | None = None
    """The prompt set whose texts give the states; None: ours."""
    seed: Seed = 0


class KeepPoint(Frozen):
    """What is left at one k; intervals by bootstrap over vectors, whatever their number."""

    k: int
    cosine: Interval
    """Between the products x·y of all pairs of vectors, each with itself too, and those of what was kept."""
    apart: Interval
    """The same over pairs of two different vectors alone."""


class KeepCurve(Frozen):
    """One kind of vectors under one inverse."""

    vectors: Vectors
    inverse: Inverse
    points: tuple[KeepPoint, ...]


class KeepStudy(Frozen):
    """The job's result and its partial, curve by curve."""

    conditions: Conditions
    count: int
    curves: tuple[KeepCurve, ...]
    why: dict[str, str]
    """By kind of vectors: why it was not measured."""
    set: SetId | None = None
    about: str
    notices: tuple[str, ...] = ()


class ActiveAsk(Frozen):
    """POST /api/v1/weights/active: R_k, how far the most active vectors of a layer say what its state says."""

    model: ModelName
    revision: Revision = None
    reading: ReadAs = "folded"
    """Of the vectors; a state goes through the model's own final norm and read-out."""
    groups: Annotated[tuple[Group, ...], Field(min_length=1, max_length=4)] = (
        "keys", "values", "attention_values", "attention_outputs",
    )  # fmt: skip
    k: Annotated[int, Field(ge=1, le=1_000)] = 50
    active: Annotated[int, Field(ge=1, le=100)] = 5
    """How many of the most active vectors at a token are taken together."""
    tokens: Annotated[int, Field(ge=2, le=20_000)] = 1_000
    """At most, in whole texts, each without its first token; the first text is read whatever its length."""
    set: SetId | None = None
    seed: Seed = 0
    """Of the shuffling."""


class ActivePoint(Frozen):
    """R_k of a group of a layer; intervals over texts."""

    group: Group
    layer: int
    against: Literal["layer", "final"]
    """The state after this layer, or after the last."""
    own: Interval
    """Share, from 0 to 1, of the state's k likeliest words that are among the k of one of the active vectors."""
    shuffled: Interval
    """The same with the states of other tokens."""
    more: Interval
    """`own` minus `shuffled`, text by text."""


class ActiveStudy(Frozen):
    """The job's result and its partial, layer by layer."""

    conditions: Conditions
    reading: ReadAs
    k: int
    active: int
    tokens: int
    texts: int
    set: SetId
    points: tuple[ActivePoint, ...]
    why: dict[str, str]
    """By group: why it was not measured."""
    about: str
    notices: tuple[str, ...] = ()


class SimilarityAsk(Frozen):
    """POST /api/v1/weights/similarity: how many words two vectors that belong together share, against chance."""

    model: ModelName
    revision: Revision = None
    reading: ReadAs = "folded"
    pairings: Annotated[tuple[Pairing, ...], Field(min_length=1, max_length=3)] = (
        "keys_values", "values_outputs", "queries_keys",
    )  # fmt: skip
    end: Literal["promoted", "suppressed", "absolute"] = "absolute"
    """Which words are compared, as of the overlaps."""
    k: Annotated[int, Field(ge=1, le=1_000)] = 100
    count: Annotated[int, Field(ge=2, le=100_000)] = 256
    """Pairs of each layer, drawn at random; all, where it has fewer."""
    seed: Seed = 0


class SimilarityPoint(Frozen):
    """Mean Jaccard overlap of the two sets of k words; intervals over pairs."""

    pairing: Pairing
    layer: int | None
    """None: all layers together."""
    own: Interval
    random: Interval
    """Of pairs of the same layer at random: each vector with the partner of another."""
    twin: Interval
    """Of random directions in place of both: what the embeddings alone make alike."""
    more: Interval
    """`own` minus `random`, pair by pair."""


class SimilarityStudy(Frozen):
    """The job's result and its partial, layer by layer."""

    conditions: Conditions
    reading: ReadAs
    k: int
    points: tuple[SimilarityPoint, ...]
    why: dict[str, str]
    """By pairing, or `pairing layer`: why it was not measured."""
    about: str
    notices: tuple[str, ...] = ()
