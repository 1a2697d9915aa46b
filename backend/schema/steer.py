"""Steer: the next token under the sliders of a view, and without them; what in a text shows a steer."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.conditions import Conditions
from backend.schema.edit import Position, VectorId
from backend.schema.explain import Ends, TokenId, Words
from backend.schema.frozen import Frozen
from backend.schema.view import ModelName, Revision, View

SLIDERS = ("steer", "residual.add")
"""The kinds of edit that are sliders; without them means without these, all other edits staying as they are."""


class SteerAsk(Frozen):
    """POST /api/v1/steer: the next token at one position, with the sliders of the view and without them.

    The sliders are the view's active `steer` and `residual.add` edits. Steers alone need no forward pass once the text
    has been read; a direction needs one.
    """

    view: View
    token: Position | None = None
    """The position whose next token is shown; None: the last."""
    top: Annotated[int, Field(ge=1, le=50)] = 10
    over: Literal["token", "text"] = "token"
    """`text`: the Kullback-Leibler divergence is averaged over every token of the text, too, which takes longer. All
    else is there as well; a newer question of the tab replaces an older one of either kind."""


class Shift(Frozen):
    """A token whose probability the sliders moved."""

    id: int
    base: float
    """Its probability without the sliders."""
    steered: float
    logit: float
    """By how much they moved its logit."""
    shares: tuple[float, ...]
    """Of that, what each slider adds, in the order of `sliders`, in float32: of a steer a c W e on the state c that it
    acts on, times the model's multiplier; of a direction what it does alone. Where the model does not cap its logits,
    steers add up exactly, with one direction among them, too."""
    rest: float = 0.0
    """logit − Σ shares: what several directions do together only, what a cap takes, and rounding."""


class SteerAnswer(Frozen):
    """The distribution of the next token, base against steered."""

    conditions: Conditions
    ids: tuple[int, ...]
    token: int
    sliders: tuple[int, ...]
    """Which of the view's edits are the sliders, by their places in `view.edits`."""
    base: Words
    steered: Words
    likely: tuple[Shift, ...]
    """The tokens that are among the `top` likeliest without the sliders or with them: those without first, in their
    order, then those that are there with them only, in theirs."""
    rose: tuple[Shift, ...]
    """The tokens whose probability rose most, the most first."""
    fell: tuple[Shift, ...]
    kl: float
    """nats, KL(base ‖ steered) of the next token at `token`."""
    kl_text: float | None = None
    """nats, the mean of the same over every token of the text."""
    step: float = 0.0
    """Logits: how far neighbouring numbers of the model's dtype lie apart at the largest logit shown. What moves by
    less may show as nothing; 1e-6 in float32, up to 0.125 in bfloat16."""
    forward: bool
    """Whether a forward pass was needed for this answer; False: the states were kept."""
    words: dict[str, str]
    notices: tuple[str, ...] = ()


class EvidenceAsk(Frozen):
    """POST /api/v1/steer/evidence: which words of the text are likelier with the sliders than without or reversed."""

    view: View
    against: Literal["base", "reversed"] = "reversed"
    """What the sliders are compared with: none of them, or every one with its strength negated."""
    spans: Annotated[int, Field(ge=1, le=16)] = 4
    """At most so many spans, no two next to each other (LM-Steer's own: 4)."""
    length: Annotated[int, Field(ge=1, le=64)] = 10
    """Tokens of a span at most (LM-Steer's own: 10)."""
    permutations: Annotated[int, Field(ge=99, le=9_999)] = 999


class Span(Frozen):
    """Tokens [first, last) of the text. Its sum is above 0: where nothing speaks for the sliders, there is none."""

    first: int
    last: int
    evidence: float
    """nats, the sum over its tokens."""


class EvidenceAnswer(Frozen):
    """ln P(token | sliders) − ln P(token | compared with), token by token, and the best spans."""

    conditions: Conditions
    ids: tuple[int, ...]
    evidence: Array
    """f4 [T] in nats; NaN for the first token, which nothing predicts."""
    total: float
    """nats, over the text."""
    spans: tuple[Span, ...]
    """The spans with the greatest sum, exactly; in the order of the text. A best span always exists: see `p`."""
    best: float
    """nats, the sum of the spans."""
    p: float
    """Share of random orders of the same numbers whose best spans sum to as much, (1 + k) / (1 + permutations)."""
    chance: float
    """nats, the mean of `best` over those orders."""
    words: dict[str, str]
    notices: tuple[str, ...] = ()


class InsideAsk(Frozen):
    """POST /api/v1/steer/inside: a steer's singular directions, as words."""

    model: ModelName
    revision: Revision = None
    steer: VectorId
    dimensions: Annotated[int, Field(ge=1, le=50)] = 10
    top: Annotated[int, Field(ge=1, le=100)] = 20


class Dimension(Frozen):
    """One singular direction of W: c moves along `writes` in proportion to what it holds of `reads`.

    The words are those of the bare product with the output embedding, which reads what comes after the final norm, as
    LM-Steer published it. A singular vector has no sign of its own: both are turned so that the token which `writes`
    moves furthest stands at its + end (`highest`).
    """

    singular: float
    share: float
    """Its share of the squared norm of W."""
    writes: Ends
    """The right singular vector in the vocabulary: what is added to c."""
    reads: Ends
    """The left singular vector: what c must hold for it."""


class InsideAnswer(Frozen):
    """The steer taken apart."""

    conditions: Conditions
    steer: VectorId
    rank: int
    """How many singular values are not 0; no more dimensions are given."""
    norm: float
    """Frobenius norm of W at 1 of the slider."""
    dimensions: tuple[Dimension, ...]
    scatter_ids: tuple[TokenId, ...]
    """The tokens at the ends of the first two dimensions."""
    scatter: Array
    """f4 [n, 2]: their logits along the first two right singular vectors; NaN along a second that is not there."""
    words: dict[str, str]
    about: str
