"""Two models with one vocabulary: what fine-tuning changed, which layers are alike, and one stitched onto the other.

Every ask is answered by a Job, whose partial and result are the answer as it stands. `model` comes first, `other`
second: before and after, rows and columns, lower layers and upper layers.
"""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.contributions import SetId
from backend.schema.edit import Layer
from backend.schema.explain import Ends, ReadAs
from backend.schema.frozen import Frozen
from backend.schema.seed import Seed
from backend.schema.steers import Interval
from backend.schema.view import ModelName, Revision

VectorGroup = Literal["q", "k", "v", "o", "key", "gate", "up", "value"]
"""Vectors of a layer. Of its heads: columns of W_Q, W_K, W_V and rows of W_O, one a coordinate of a head; of its
feed-forward part: a unit's keys (`key`, or `gate` and `up` of a gated one) and its value."""
AlignedGroup = Literal["q", "k", "v", "o", "vo", "qk", "key", "gate", "up", "value"]
"""`vo`, `qk`: whole heads, each by its table tokens × tokens."""
ChangedGroup = Literal[
    "q", "k", "v", "o", "key", "gate", "up", "value", "bias", "embedding", "unembedding", "classifier", "pooler",
    "norm", "position", "other",
]  # fmt: skip
"""`norm`: gains and biases of norms; `classifier`, `pooler`: their matrices and biases; `bias`: all other biases;
`other`: what belongs to no group."""


class OfTwo(Frozen):
    """A question about two models."""

    model: ModelName
    revision: Revision = None
    other: ModelName
    other_revision: Revision = None
    reading: ReadAs | None = None
    """None: `folded` where both models allow it, else `raw`. The answer says which."""
    by_string: bool = False
    """Where the vocabularies differ: False refuses, True goes by the tokens that stand for the same text in both."""


class SharedTokens(Frozen):
    """Over which tokens both models are compared."""

    tokens: int
    """In both."""
    of: int
    """Tokens of `model`."""
    other_of: int
    """Tokens of `other`."""
    by_string: bool
    """Whether they were mapped by what they stand for; else both have one vocabulary."""


class ChangesAsk(OfTwo):
    """POST /api/v1/weights/changes: how the parameters of `other` differ from those of `model`, in words.

    Answers a Job whose partial and result are ChangesAnswers.
    """

    layer: Annotated[Layer, Field(strict=True)] | None = None
    """Vectors of this layer alone; None: of every layer. Sizes are of every layer either way."""
    by: Literal["norm", "relative", "moved"] = "norm"
    """What ranks vectors: the norm of the difference, that over the norm before, or how far it moves the words."""
    limit: Annotated[int, Field(ge=1, le=200)] = 10
    """Vectors of each group that are listed."""
    top: Annotated[int, Field(ge=1, le=50)] = 8
    """Words at each end."""


class ChangeSize(Frozen):
    """How much a group of a layer changed."""

    layer: int | None
    """None: of no layer."""
    group: ChangedGroup
    norm: float
    """Frobenius norm of the difference."""
    before: float
    """That of the numbers before."""
    relative: float | None
    """norm / before; None where that is 0."""
    numbers: int
    changed: int
    """Of these numbers, those that are not what they were."""


class ChangedVector(Frozen):
    """One vector that changed: the difference after − before, read in the vocabulary of `model`."""

    layer: int | None
    group: ChangedGroup
    head: int | None = None
    """Of `q`, `o` the query head; of `k`, `v` the key/value head."""
    index: int
    """The coordinate of the head, the unit, the token id, or the label."""
    name: str
    """`L3U12`, `2.5 q 7`, a token, or a label."""
    norm: float
    relative: float | None
    moved: float
    """Standard deviation of the difference's logits over the vocabulary."""
    ends: Ends
    """Words that the change moves the vector towards (`highest`), and away from (`lowest`)."""


class ClassifierVector(Frozen):
    """One label's vector of a classifier, read in its model's vocabulary."""

    side: Literal["model", "other"]
    label: str
    norm: float
    ends: Ends
    """Of the vector itself."""
    contrast: Ends
    """Of the vector less the mean over all labels; with two labels, half of one less the other."""


class ChangesAnswer(Frozen):
    """What changed from `model` to `other`."""

    conditions: Conditions
    other_conditions: Conditions
    shared: SharedTokens
    reading: ReadAs
    same: bool
    """Whether no number differs and nothing is left out (a partial answer: as far as it was looked at)."""
    sizes: tuple[ChangeSize, ...]
    """By layer and group, the layers that were read so far."""
    vectors: tuple[ChangedVector, ...]
    """Of each group the `limit` that changed most, the most changed first; a vector that did not change is no one."""
    classifier: tuple[ClassifierVector, ...]
    """Of the models that classify."""
    why: dict[str, str]
    """By group: why its vectors are not read."""
    words: dict[str, str]
    """Of `model`."""
    other_words: dict[str, str]
    """Of `other`, where its classifier is read in a vocabulary of its own."""
    about: str
    notices: tuple[str, ...] = ()


class AlignmentAsk(OfTwo):
    """POST /api/v1/weights/alignment: which layers of two models are alike in embedding space (Dar et al. 2023, §5.1).

    Answers a Job whose partial and result are AlignmentAnswers.
    """

    groups: Annotated[tuple[AlignedGroup, ...], Field(max_length=10)] = ()
    """Empty: all that both models have."""
    score: Literal["mean", "best"] = "mean"
    """Of two layers, over all pairs of their vectors: the mean |correlation|, as published, or the mean of each
    vector's best |correlation| (both ways)."""


class LayerPair(Frozen):
    """Two layers that the assignment puts together."""

    layer: int
    other: int
    score: float


class Assignment(Frozen):
    """Layers matched one to one so that the sum of their scores is as large as can be (Hungarian algorithm)."""

    scores: Array
    """f4 [layers, other layers]; NaN where it was not measured yet."""
    pairs: tuple[LayerPair, ...] = ()
    """As many as the model with fewer layers has; empty while scores are missing."""
    same: int | None = None
    """Of these pairs, those of equal number."""
    same_by_chance: float | None = None
    """How many are expected where layers are matched at random: 1 where both models are as deep; 0.5 of 6 and 3."""
    order: float | None = None
    """Spearman correlation of the two layers' numbers over the pairs: 1 keeps the order. None below three pairs."""


class AlignedLayers(Frozen):
    """One group's alignment."""

    group: AlignedGroup
    vectors: int
    """A layer of `model` has so many (heads, of `vo` and `qk`)."""
    other_vectors: int
    projected: Assignment
    """Correlations over the shared tokens."""
    control: Assignment | None = None
    """Correlations of the same vectors over the stream's own coordinates, not projected."""
    constant: int = 0
    """Vectors that are the same for every token, and so correlate with nothing: counted as 0."""


class AlignmentAnswer(Frozen):
    """Layers of `model` (rows) against layers of `other` (columns)."""

    conditions: Conditions
    other_conditions: Conditions
    shared: SharedTokens
    reading: ReadAs
    score: Literal["mean", "best"]
    layers: tuple[int, ...]
    """Layers of `model` that were compared."""
    other_layers: tuple[int, ...]
    groups: tuple[AlignedLayers, ...]
    why: dict[str, str]
    """By group: why it is absent."""
    control_why: str = ""
    """Why there is no un-projected control."""
    about: str
    notices: tuple[str, ...] = ()


class StitchingAsk(OfTwo):
    """POST /api/v1/weights/stitching: lower layers of `model`, then upper layers of `other`, with the kernel
    E_model E_other⁺ between (Dar et al. 2023, §5.2: the pseudo-inverse here).

    Answers a Job whose partial and result are StitchingAnswers.
    """

    examples: SetId | None = None
    """Labelled texts; where `other` classifies them, accuracy is measured."""
    set: SetId | None = None
    """Texts without labels, instead; None of both: those that come with the product."""
    texts: Annotated[int, Field(ge=2, le=2_000)] = 60
    """At most, of both labels together; as many of each as there are."""
    tokens: Annotated[int, Field(ge=4, le=1024)] = 64
    """Of a text at most; longer ones are cut there."""
    cuts: Annotated[tuple[Annotated[int, Field(ge=0, le=10_000)], ...], Field(max_length=64)] = ()
    """How many blocks of `model` are run; empty: up to nine, evenly apart, from none to all."""
    last: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """How many of the last blocks of `other` follow; None: all that stand at the same depth or above."""
    positive: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """The label of the + texts; None: the only one named positive, or of two the one that is not named negative."""
    negative: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """The label of the − texts; None: the only one named negative, or of two the other one. Where that does not tell
    which is which, accuracy is refused. No label but these two is right on any text."""
    seed: Seed = 0
    """Of the random control."""


class StitchPoint(Frozen):
    """One stitched model."""

    kernel: Literal["stitched", "identity", "random"]
    """`stitched`: E_model E_other⁺. Controls: `identity`, nothing in between (equal widths only); `random`, a kernel of
    the same singular values and random singular vectors."""
    lower: int
    """Blocks of `model` that were run: its blocks 0 … lower − 1."""
    upper: int
    """The first block of `other` that followed; as many as it has: none."""
    value: Interval | None
    """Of the answer's `measure`; None where `other` has nothing to be measured by."""
    agreement: Interval | None
    """Cosine of the final state (mean over tokens) with that of `other` alone, mean over texts; None before any."""


class StitchingAnswer(Frozen):
    """Stitched models, cut by cut."""

    conditions: Conditions
    other_conditions: Conditions
    shared: SharedTokens
    reading: ReadAs
    measure: Literal["accuracy", "nll", "agreement"]
    """`accuracy`: share of texts given the right label. `nll`: nats a token. `agreement`: `other` neither classifies
    nor predicts, so only the agreement with itself is told."""
    points: tuple[StitchPoint, ...]
    whole: Interval | None
    """`other` alone, of the same measure on the same texts; None where there is nothing to measure by."""
    lower_whole: Interval | None = None
    """`model` alone, where it can be measured so."""
    chance: float | None = None
    """Accuracy of always naming the commoner label; nats a token of naming every token alike."""
    texts: int
    """That were measured so far."""
    of: int
    left_out: int = 0
    """Texts that the two models cut into different tokens, or that are too short."""
    cut: int = 0
    labels: tuple[str, ...] = ()
    """Of the classifier."""
    positive: int | None = None
    """The label that was right on + texts, where accuracy is measured."""
    negative: int | None = None
    """The label that was right on − texts."""
    examples: SetId | None = None
    """The labelled texts that it was measured on."""
    set: SetId | None = None
    """The texts without labels that it was measured on."""
    named: str = ""
    """What these texts are called on the server."""
    directions: int = 0
    """How many directions of the kernel are not 0 (its rank)."""
    about: str
    notices: tuple[str, ...] = ()
