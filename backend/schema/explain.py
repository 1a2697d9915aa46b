"""Target and foil: which prediction a panel explains."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.array import Array
from backend.schema.edit import Position
from backend.schema.frozen import Frozen

TokenId = Annotated[int, Field(ge=0, le=9_999_999)]
ReadAs = Literal["folded", "raw"]
"""How a vector of the stream is read in the vocabulary: `folded`, with the final norm's gain folded in (and, in a layer
norm, its mean taken away), or `raw`, the bare product with the output embedding, as LM-Debugger published it."""

Inverse = Literal["transpose", "pseudo"]
"""What stands for the inverse of an embedding E where vectors of the stream are put into words: `transpose` (Eᵀ, as
published): a token is its row of E. `pseudo` (E⁺): its column of the pseudo-inverse, so that products over all tokens
are those of the stream. One side of a product is taken so, that which reads; what is written meets E itself."""


class Explain(Frozen):
    """What is explained: one token against another at one position, or one token against all others."""

    token: Position | None = None
    """The position whose prediction of the next token is explained; None: the last."""
    target: TokenId | None = None
    """None: the likeliest."""
    foil: TokenId | None = None
    """None: the likeliest but for the target. Not used against the rest."""
    against: Literal["foil", "rest"] = "foil"
    """`foil`: logit(target) − logit(foil). `rest`: logit(target) − Σ p logit, which moves as ln p(target) does."""


class Explained(Frozen):
    """What was explained, as it was resolved on the edited side; the same pair is used for the unedited one."""

    token: int
    target: int
    foil: int | None
    """None against the rest."""
    against: Literal["foil", "rest"]
    logits: float
    """logit(target) − logit(foil), or − Σ p logit: as the model gives them, after its caps and multipliers."""
    probability: float
    """Of the target."""
    foil_probability: float | None


class Words(Frozen):
    """The likeliest tokens of one distribution, the likeliest first; what they read is in the answer's `words`."""

    ids: tuple[int, ...]
    probability: Array
    """f4 [top]."""
    logit: Array
    """f4 [top]."""
    entropy: float
    """nats, of the whole distribution."""


class Ends(Frozen):
    """Both ends of a vector of the stream, read in the vocabulary."""

    highest: tuple[int, ...]
    """Token ids that it promotes most, the first the most."""
    lowest: tuple[int, ...]
    """Token ids that it suppresses most, the first the most."""
    highest_logit: tuple[float, ...]
    """Of a vector that is written (a value, a row of W_O): the logits that one unit of it adds. Of one that reads (a
    key, a gate, a column of W_Q, W_K or W_V): what it takes of the token, before any bias and activation. Of a row or
    column of a head's table: its entries. All under the answer's `reading`; `raw` is a bare dot product."""
    lowest_logit: tuple[float, ...]
