"""Steers: the shelf of sliders, how one is made, swept and moved to another model."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from backend.schema.conditions import Conditions
from backend.schema.contributions import SetId
from backend.schema.edit import Layer, Strength, VectorId
from backend.schema.frozen import Frozen
from backend.schema.notes import NO_NUL
from backend.schema.seed import Seed
from backend.schema.vectors import VectorName
from backend.schema.view import ModelName, Revision, Text, View

EXAMPLES_MOST = 200_000
"""Labelled texts of one set."""


def _no_truth(value: Any) -> Any:
    """Refuse what would count as a number and was not written as one: true, or "0_1"."""
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise ValueError("it should be a number")
    return value


OwnerName = Annotated[str, Field(max_length=60, pattern=NO_NUL)]
"""Whose it is, as people call them; the server believes it."""
PoleName = Annotated[str, Field(min_length=1, max_length=60, pattern=NO_NUL)]
Label = Annotated[float, Field(ge=-1, le=1), BeforeValidator(_no_truth)]


class Interval(Frozen):
    """A mean with its 95 % interval over the n texts (prompts, pairs, vectors) that it is a mean of.

    From 30 on by bootstrap (percentiles), which is too narrow for fewer: there Student's t, widened for skew as by
    Hall 1992; shares of right and wrong have Wilson's interval. Of one there is none: both ends are the mean. Keep-k is
    by bootstrap over vectors whatever n is: its cosine is of pairs, and no mean of one number a vector.
    """

    mean: float
    low: float
    high: float
    n: int


class Evidence(Frozen):
    """What was measured on texts that the making never saw, at ±1 of the slider.

    Each number is the mean over texts of NLL(+1) − NLL(−1), in nats a token: negative where + makes a text likelier.
    """

    plus: Interval
    """Over held-out texts of the + pole: below 0 when the slider works."""
    minus: Interval
    """Over held-out texts of the − pole: above 0 when it works."""
    random_plus: Interval
    """The same under a random steer of equal norm and rank."""
    random_minus: Interval
    about: str
    """Which texts, how many, how they were kept apart."""


class Range(Frozen):
    """The strengths at which the perplexity of neutral text doubles; beyond them a model writes nonsense."""

    low: float
    high: float
    doubled: tuple[bool, bool]
    """Whether it doubles there; False: it does not within what was tried, and the end is what was tried."""
    perplexity: float
    """Of the neutral texts at 0."""
    set: SetId
    """The neutral texts."""


class SteerData(Frozen):
    """What a steer was made from."""

    name: str
    licence: str = "not stated"
    plus: int
    """Texts of the + pole; with labels in between, those above 0."""
    minus: int
    held_out: int
    digest: str
    """SHA-256 of the labelled texts as canonical JSON: the id of the examples, where this server has them."""
    share: float = 0.2
    """Share of each pole's texts that was held out: those whose SHA-256 comes first. Of these every second one decided
    when to stop, and the others are the evidence."""
    paired: bool = False
    """Whether the k-th text of + belongs to the k-th of −: pairs are held out whole, by the SHA-256 of their + text."""


class SteerCard(Frozen):
    """One slider of the shelf. Its numbers are scaled so that 1 is the step at which its evidence was measured."""

    kind: Literal["steer", "direction"]
    name: str
    id: VectorId
    """What a `steer` or `residual.add` edit names it by."""
    plus: str
    """What + makes likelier."""
    minus: str
    model: str
    """The model it was made for, by name."""
    digest: str
    """That model's weights."""
    vocabulary: str
    """That model's vocabulary: SHA-256 of the tokens in order; empty where it is not known."""
    width: int
    rank: int | None = None
    """Of a steer; None: a direction."""
    layer: Layer | None = None
    """Of a direction: the block after which it is added."""
    data: SteerData | None = None
    evidence: Evidence | None = None
    """None: nothing was measured, and the page says so."""
    range: Range | None = None
    recipe: str = ""
    owner: str = ""
    ours: bool = False
    """It comes with the product."""
    made: float = 0.0
    """Seconds since 1970."""


class Shelved(Frozen):
    """A steer, and whether it fits a model."""

    card: SteerCard
    fits: bool
    why: str = ""
    """Why it does not; of one that fits, what to know: it was made for other weights, or it is not said for which."""


class SteerShelf(Frozen):
    """GET /api/v1/steers?model=NAME&revision=REVISION."""

    steers: tuple[Shelved, ...]


class Example(Frozen):
    """One labelled text: 1 is the + pole, −1 the − pole."""

    text: Text
    label: Label


class ExamplesAsk(Frozen):
    """POST /api/v1/steers/examples: check labelled texts and keep them. One of the three ways is given."""

    name: VectorName
    licence: Annotated[str, Field(max_length=200)] = "not stated"
    rows: Annotated[tuple[Example, ...], Field(max_length=EXAMPLES_MOST)] = ()
    plus: Annotated[tuple[Text, ...], Field(max_length=EXAMPLES_MOST)] = ()
    minus: Annotated[tuple[Text, ...], Field(max_length=EXAMPLES_MOST)] = ()
    """With `plus`: two sets of texts."""
    file: str | None = None
    """base64 of a file's bytes."""
    format: Literal["csv", "jsonl"] | None = None
    """Of the file. CSV has a header with `text` and `label`; each JSONL line is an object with the same two."""


class ExamplesCard(Frozen):
    """Checked examples, ready for the making of a steer."""

    id: SetId
    """SHA-256 of the rows as canonical JSON, and of the fact that texts were left out, where some were."""
    name: str
    licence: str
    rows: int
    plus: int
    minus: int
    neutral: int
    """Labelled 0: they train nothing and are left out."""
    duplicates: int
    """Texts that came more than once, kept once; a text with two different labels is refused."""
    longest: int
    """Characters."""
    notices: tuple[str, ...] = ()


class ExamplesShelf(Frozen):
    """GET /api/v1/steers/examples."""

    sets: tuple[ExamplesCard, ...]


class MakeAsk(Frozen):
    """POST /api/v1/steers: make a steer from examples. Answers a Job, whose result is a Made."""

    model: ModelName
    revision: Revision = None
    name: VectorName
    plus: PoleName
    minus: PoleName
    examples: SetId
    rank: Annotated[int, Field(ge=1, le=1024)] | None = 32
    """None: a full width × width matrix."""
    steps: Annotated[int, Field(ge=1, le=10_000)] = 300
    """At most: it stops when held-out text has not become likelier for `patience` checks."""
    batch: Annotated[int, Field(ge=1, le=256)] = 32
    rate: Annotated[float, Field(gt=0, le=1)] = 1e-2
    """Adam's, on factors at LM-Steer's scale (its ε is 1e-3)."""
    decay: Annotated[float, Field(ge=0, le=1)] = 1e-6
    """Weight of the squared norms of both factors."""
    every: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Steps between two checks on held-out text."""
    patience: Annotated[int, Field(ge=1, le=100)] = 3
    held_out: Annotated[float, Field(ge=0.05, le=0.5)] = 0.2
    """Share of the texts of each pole that only judges: half of it decides when to stop, half is the evidence."""
    tokens: Annotated[int, Field(ge=8, le=1024)] = 128
    """Tokens of a text at most; longer ones are cut there, and the answer says how many."""
    padding: Literal["masked", "as published"] = "masked"
    """`as published`: padding tokens count in the loss, as in LM-Steer's code."""
    seed: Seed = 0
    owner: OwnerName = ""


class MakePoint(Frozen):
    """The training after some steps."""

    step: int
    train: float | None
    """nats a token, mean loss since the point before; None at step 0."""
    held_out: float
    """nats a token, of the texts that decide when to stop, each under its own label."""


class Made(Frozen):
    """The job's result; `partial` has the curve while it runs and no card."""

    card: SteerCard | None = None
    curve: tuple[MakePoint, ...] = ()
    best: int | None = None
    """The step whose numbers were kept."""
    tokens: int = 0
    """Training tokens counted in the loss."""
    cut: int = 0
    """Texts that were longer than allowed."""
    notices: tuple[str, ...] = ()


class DirectionAsk(Frozen):
    """POST /api/v1/steers/direction: a direction of the residual stream from contrast pairs. Answers a Job (Made)."""

    model: ModelName
    revision: Revision = None
    name: VectorName
    plus: PoleName
    minus: PoleName
    examples: SetId
    layer: Layer
    method: Literal["means", "pca"] = "means"
    """`means`: mean of + minus mean of −. `pca`: first principal direction of the differences of pairs, the first text
    of + with the first of −, and so on."""
    token: Literal["last", "mean"] = "last"
    """Which state of a text: its last token's, or the mean over its tokens but the first."""
    held_out: Annotated[float, Field(ge=0.05, le=0.5)] = 0.2
    tokens: Annotated[int, Field(ge=8, le=1024)] = 128
    seed: Seed = 0
    """Of the random direction."""
    owner: OwnerName = ""


class SweepAsk(Frozen):
    """POST /api/v1/steers/sweep: what a slider does at every strength. Answers a Job, whose result is a Sweep."""

    view: View
    """Its model, its other edits and its sampling (prompt i by seed + i); its text does not matter."""
    steer: VectorId
    """A steer, or a direction of the residual stream."""
    strengths: Annotated[tuple[Strength, ...], Field(min_length=2, max_length=31)] = (-3, -2, -1, 0, 1, 2, 3)
    layer: Layer | None = None
    """Of a direction: the block after which it is added; None: as its card says."""
    other: VectorId | None = None
    """A second steer: every pair of strengths is measured."""
    other_layer: Layer | None = None
    other_strengths: Annotated[tuple[Strength, ...], Field(max_length=31)] = ()
    examples: SetId | None = None
    """Labelled texts whose likelihood is measured; None: those that the steer was held out from, where kept."""
    prompts: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """What is continued; empty: neutral prompts that come with the product. At least eight."""
    tokens: Annotated[int, Field(ge=1, le=128)] = 20
    control: bool = True
    """A random steer of equal norm and rank at the same strengths."""
    texts: Annotated[int, Field(ge=8, le=1_000)] = 64
    """Labelled texts of each pole at most."""
    seed: Seed = 0
    """Of the random control and the bootstrap; the continuations go by the view's own."""


class SweepPoint(Frozen):
    """One strength (or pair of strengths)."""

    by: float
    other: float | None = None
    plus: Interval | None = None
    """NLL of held-out texts of the + pole minus that at 0, nats a token, paired."""
    minus: Interval | None = None
    perplexity: Interval
    """Of neutral texts: exp of the mean NLL, the interval over texts."""
    distinct: tuple[float, float, float] | None = None
    """Different 1-, 2- and 3-grams of tokens over all of them, within the continuations; None: not written yet."""
    kl: Interval
    """nats, KL(base ‖ steered) over the tokens of the neutral texts."""
    samples: tuple[str, ...] = ()
    """One continuation a prompt, under random numbers shared by all strengths; those written so far."""


class Sweep(Frozen):
    """The job's result and its partial, text by text and continuation by continuation."""

    conditions: Conditions
    points: tuple[SweepPoint, ...]
    control: tuple[SweepPoint, ...] = ()
    """The random steer's."""
    prompts: tuple[str, ...]
    base: SweepPoint | None = None
    about: str
    notices: tuple[str, ...] = ()


class TransferAsk(Frozen):
    """POST /api/v1/steers/transfer: move a steer to another model. Answers a Job, whose result is a Transferred."""

    steer: VectorId
    model: ModelName
    revision: Revision = None
    """The model it shall fit; the steer's own model is read for its output embedding."""
    name: VectorName
    ridge: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    examples: SetId | None = None
    """Labelled texts on which what survives is measured, in both models."""


class Transferred(Frozen):
    """The moved steer, and how much of its effect survived."""

    conditions: Conditions
    """Of the model that it was moved to."""
    card: SteerCard
    shared: int
    """Tokens that both vocabularies have, on which the map was fitted."""
    vocabulary: int
    fit: float
    """1 − ‖E − H E'‖² / ‖E‖² over the shared tokens, both centred."""
    before: Evidence | None = None
    """In the model that it was made for."""
    after: Evidence | None = None
    survives: Interval | None = None
    """Effect after over effect before, (minus − plus) of each, interval over texts: by bootstrap, or Student's
    t widened for skew where a pole has fewer than 30."""
    notices: tuple[str, ...] = ()
