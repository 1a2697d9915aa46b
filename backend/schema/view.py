"""View: the whole state of a page, and its link."""

import binascii
import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from backend.schema.edit import Edit, Head, Layer, Position, Unit, VectorId
from backend.schema.frozen import Frozen
from backend.schema.limits import EDITS_MOST

LINK_VERSION = 1
LINK_BYTES_PACKED = 32 * 1024
LINK_BYTES = 256 * 1024
LINK_CHARACTERS = LINK_BYTES_PACKED * 4 // 3 + 64
TEXT_CHARACTERS = 2 * 1024 * 1024
Text = Annotated[str, Field(max_length=TEXT_CHARACTERS)]
ModelName = Annotated[str, Field(min_length=1, max_length=512)]
Revision = Annotated[str, Field(min_length=1, max_length=256)] | None


class LinkError(ValueError):
    """A link that cannot be opened; the message says why."""


class Turn(Frozen):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Text


class HeadName(Frozen):
    """A query head, counted from 0 as everywhere; printed `5.3`."""

    layer: Layer
    head: Head

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}"


class UnitName(Frozen):
    """A feed-forward unit, printed `L12U34`."""

    layer: Layer
    unit: Unit

    def __str__(self) -> str:
        return f"L{self.layer}U{self.unit}"


class Region(Frozen):
    """Queries [q0, q1) and keys [k0, k1) of a map."""

    q0: Position
    q1: Position
    k0: Position
    k1: Position

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.q0 >= self.q1 or self.k0 >= self.k1:
            raise ValueError("a region needs q0 < q1 and k0 < k1")
        return self


SEED_MOST = 2**53
"""The numbers of a continuation are made from a digest of its seed, so that every one counts; beyond this the numbers
of JSON are no longer told apart."""
StopText = Annotated[str, Field(min_length=1, max_length=200)]


class Sampling(Frozen):
    """How a continuation is drawn, and where it ends. Temperature 0 is greedy."""

    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    seed: Annotated[int, Field(ge=0, le=SEED_MOST)] = 0
    tokens: Annotated[int, Field(ge=1, le=512)] = 32
    stop: Annotated[tuple[StopText, ...], Field(max_length=8)] = ()
    """Texts at which writing ends; they are left out of the text."""


StatisticName = Literal[
    "entropy", "normalised", "effective", "previous", "next", "self", "first", "separators", "punctuation",
    "distance", "induction", "sink",
]  # fmt: skip
Side = Literal["edited", "unedited", "difference"]
LensColour = Literal["probability", "agreement", "rank", "entropy"]


class Focus(Frozen):
    """What is looked at and how; changes of it never run the model's edits anew."""

    token: Position | None = None
    heads: Annotated[tuple[HeadName, ...], Field(max_length=4096)] = ()
    """The open head; several: their mean."""
    region: Region | None = None
    tab: Literal["map", "lines", "text", "table"] = "map"
    side: Side = "edited"
    colour: StatisticName = "entropy"
    """The statistic that colours the grid and the figure."""
    sort: StatisticName | None = None
    """Heads sorted by this statistic; None: in the model's own order."""
    low: float | None = None
    high: float | None = None
    """Only heads whose `colour` statistic lies in [low, high] are shown."""
    scale: Literal["linear", "log"] = "linear"
    strip: Literal["surprisal", "entropy", "none"] = "surprisal"
    spaces: bool = False
    """Whitespace is made visible in the token strip."""
    normalised: bool = False
    """Heads: the figure shows entropy divided by ln n of each row instead of nats."""
    row: Position | None = None
    """Trace: the row of the open cell, whose column is `token`; None: the last row."""
    lens: LensColour = "probability"
    """Trace: what colours the lens."""
    tracked: Position | None = None
    """Trace: the id of the token that is followed through the rows; None: what the model itself predicts."""
    explained: Position | None = None
    """Trace: the token after which the prediction is explained; None: the last."""
    target: Position | None = None
    """Trace: the id of the token that is explained; None: the likeliest."""
    foil: Position | None = None
    """Trace: the id of the token that it is explained against; None: the likeliest but for the target."""
    against: Literal["foil", "rest"] = "foil"
    """Trace: explained against one token, or against the rest of the vocabulary."""
    ranked: Literal["magnitude", "contribution"] = "magnitude"
    """Trace: what ranks the value vectors of a cell."""
    reads: Literal["folded", "raw"] = "folded"
    """Trace: how vectors are read in the vocabulary, with the final norm's gain folded in or as published."""
    debugger: bool = False
    """Trace: off and on do what they did in LM-Debugger."""
    unit: UnitName | None = None
    """Trace: the open value."""
    parts: Literal["layers", "heads", "values"] = "layers"
    """Trace: whose contributions are shown."""
    removal: Literal["zero", "mean"] = "zero"
    """Trace: what a removed part becomes when its effect is measured."""
    set: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Trace: the prompt set of the mean; None: the one that comes with the product."""
    source: Text | None = None
    """Trace: the text whose states are patched into the view's own; it has the view's model and no edits."""
    tap: Literal["residual", "heads", "ffn_out"] = "residual"
    """Trace: what is patched."""
    source_head: Head | None = None
    """Trace: the head that is patched, with `heads`; None: all heads of a layer."""
    steer: VectorId | None = None
    """Steer: the one that is looked into, swept or moved; None: the first of the shelf."""
    pad: tuple[VectorId, VectorId] | None = None
    """Steer: the sliders of the pad, across and up; None: the first two."""
    circuit: Literal["vo", "qk"] = "vo"
    """Weights: which matrix of the open head is read, as `reads` says."""
    lowest: bool = False
    """Weights: the lowest entries instead of the highest."""
    letters: bool = False
    """Weights: only tokens that are letters."""
    ascii: bool = False
    """Weights: only tokens of ASCII characters."""
    apart: Literal["any", "tokens", "words"] = "any"
    """Weights: no token with itself, or with another spelling of it."""
    only: Literal["any", "text", "words"] = "any"
    """Weights: only tokens of the view's text, or of `words`."""
    words: Annotated[str, Field(max_length=2000)] = ""
    """Weights: a list of words, with commas between them."""
    distance: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Weights: how many tokens before the query the key stands."""
    word: Annotated[str, Field(max_length=200)] = ""
    """Weights: the word that the open head is asked about; empty: one of the text."""
    line: Literal["reads", "writes", "looks", "seen"] = "reads"
    """Weights: what is asked about the word: what the head writes when it reads it, what makes the head write it, what
    it looks at, what looks at it."""
    part: Literal["v", "o", "q", "k"] = "v"
    """Weights: which single vectors of the open head are listed."""
    block: Layer | None = None
    """Weights: whose feed-forward keys and values are compared; None: the open head's layer."""
    overlap_end: Literal["promoted", "suppressed", "absolute"] = "absolute"
    """Weights: which words of a key and its value are compared."""
    overlap_k: Annotated[int, Field(ge=1, le=1_000)] = 100
    """Weights: how many of them."""
    overlap_least: Annotated[float, Field(ge=0, le=1)] = 0.15
    """Weights: the smallest overlap that is listed."""
    concept: Annotated[str, Field(max_length=2000)] = ""
    """Weights: words of a concept that is looked up, with commas between them."""
    leave_out: bool = False
    """Weights: words of the concept that are no single token are left out, which is said; else they are refused."""
    among: Literal["values", "keys", "v", "o", "q", "k"] = "values"
    """Weights: what of it is shown: of feed-forward units, or single vectors of heads."""
    inverse: Literal["transpose", "pseudo"] = "transpose"
    """Weights: how a token stands for a vector that is read, by its embedding or by the embedding's pseudo-inverse."""
    map: Literal["copying", "same", "first", "rank", "largest"] = "copying"
    """Weights: what colours the map of heads, once it is measured."""
    study: Literal["keep", "active", "similarity"] = "keep"
    """Weights: the open study."""
    other: ModelName | None = None
    """Weights: the model that this one is compared with."""
    comparing: Literal["changes", "alignment", "stitching"] = "changes"
    """Weights: how the two are compared."""
    keep_count: Annotated[int, Field(ge=2, le=2_000)] = 300
    """Weights, keeping k words: vectors of each kind."""
    active_k: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Weights, R_k: words of each vector and state."""
    active_most: Annotated[int, Field(ge=1, le=100)] = 5
    """Weights, R_k: how many of the most active vectors are taken together."""
    active_tokens: Annotated[int, Field(ge=2, le=20_000)] = 1_000
    """Weights, R_k: tokens at most."""
    similarity_k: Annotated[int, Field(ge=1, le=1_000)] = 100
    """Weights, what belongs together: words of each vector."""
    similarity_count: Annotated[int, Field(ge=2, le=100_000)] = 256
    """Weights, what belongs together: pairs of each layer."""
    by_string: bool = False
    """Weights, two models: they are mapped by the tokens that both write alike."""
    changes_by: Literal["norm", "relative", "moved"] = "norm"
    """Weights, what changed: what ranks vectors."""
    alignment_score: Literal["mean", "best"] = "mean"
    """Weights, alignment: how alike two layers are."""
    alignment_group: Literal["q", "k", "v", "o", "vo", "qk", "key", "gate", "up", "value"] | None = None
    """Weights, alignment: whose picture is shown; None: the first that both have."""
    stitching_texts: Annotated[int, Field(ge=2, le=2_000)] = 60
    """Weights, stitching: texts at most."""
    stitching_examples: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Weights, stitching: the labelled texts; None: the texts that come with the product, which have no labels."""
    stitching_positive: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Weights, stitching: the other model's label of the + texts; None: the one that is named so."""
    stitching_negative: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Weights, stitching: the label of the − texts."""


class Reading(Frozen):
    """Choices that change the numbers of an attention answer. All of them are labelled on the panel."""

    rows: Literal["text", "all"] = "text"
    """Query rows averaged over: the text's own tokens (no template, special tokens, row 0), or all."""
    without_first: bool = False
    """Hide key 0 and renormalise each row; statistics and baselines follow (ln(n-1))."""
    weighted: bool = False
    """One head's map shows attention times the norm of v W_O (value-weighted)."""
    pool: Literal["max", "mean"] = "max"
    """How a map longer than its picture is reduced."""
    definitions: Literal["lmscope", "clark"] = "lmscope"
    """`clark`: smoothing and denominators as published by Clark et al. 2019."""


class View(Frozen):
    """One prompt, one set of edits, many instruments, one link."""

    model: ModelName
    revision: Revision = None
    text: Text | None = None
    pair: tuple[Text, Text] | None = None
    turns: Annotated[tuple[Turn, ...], Field(min_length=1, max_length=256)] | None = None
    continuation: Text | None = None
    """Text that stands for what the model has written after the prompt; its tokens are `generated`."""
    template: bool | None = None
    """Chat template. None is the rule: off for text and pair, on for turns."""
    edits: Annotated[tuple[Edit, ...], Field(max_length=EDITS_MOST)] = ()
    compare: bool = False
    """Also answer for the unedited model, and the difference."""
    sampling: Sampling = Sampling()
    reading: Reading = Reading()
    focus: Focus = Focus()

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        given = [name for name in ("text", "pair", "turns") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a view has exactly one of text, pair and turns; this one has {given or 'none'}")
        return self

    @property
    def templated(self) -> bool:
        """Whether the chat template is applied."""
        return self.turns is not None if self.template is None else self.template

    @property
    def active_edits(self) -> tuple[Edit, ...]:
        """The edits that are switched on, in order."""
        return tuple(edit for edit in self.edits if edit.on)

    def question(self) -> Self:
        """The part that decides an answer: without focus, sampling and edits that are off."""
        return self.model_copy(update={"focus": Focus(), "sampling": Sampling(), "edits": self.active_edits})

    def canonical(self) -> str:
        """Canonical JSON: keys sorted, no spaces, defaults left out, numbers as a browser writes them."""
        return canonical_json(self.model_dump(mode="json", exclude_defaults=True))

    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return sha256(self.canonical().encode()).hexdigest()

    def link(self, instrument: str = "attention", base: str = "") -> str:
        """The address that shows exactly this view. The state is in the fragment: no log sees it."""
        return f"{base.rstrip('/')}/{instrument}#v={LINK_VERSION}{pack_link(self.canonical())}"

    @classmethod
    def from_link(cls, link: str) -> Self:
        """Open a whole address or the part after `#v=`.

        Raises `LinkError` when it is malformed, of another version or too large, and
        `pydantic.ValidationError` when it is well-formed and says something impossible.
        """
        return cls.model_validate(json_object(unpack_link(link)))


class LinkAsk(Frozen):
    """POST /api/v1/links: open a link."""

    link: Annotated[str, Field(min_length=1, max_length=64 * 1024)]
    """A whole address, or the part after `#v=`."""


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, to the letter what a browser writes. Raises `ValueError` for NaN."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{canonical_json(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical_json, value)) + "]"
    return _number(value) if isinstance(value, float) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """A float in the shortest decimal that reads back the same, written as ECMAScript does (Number::toString)."""
    if not isfinite(value):
        raise ValueError(f"{value} is not a number that a view may hold")
    sign, figures, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, figures))
    point = len(digits) + int(exponent)
    minus = "-" if sign and digits != "0" else ""
    if not -6 < point <= 21:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{minus}{digits[0]}{rest}e{point - 1:+}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return minus + digits + "0" * (point - len(digits))
    return f"{minus}{digits[:point]}.{digits[point:]}"


def pack_link(text: str) -> str:
    """Compress and make safe for an address. Raises `LinkError` when it would not open again."""
    raw = text.encode("utf-8", "strict")
    if len(raw) > LINK_BYTES:
        raise LinkError(f"this view has {len(raw)} bytes; a link holds at most {LINK_BYTES}")
    packed = zlib.compress(raw, 9)
    if len(packed) > LINK_BYTES_PACKED:
        raise LinkError(f"this view has {len(packed)} bytes compressed; a link holds at most {LINK_BYTES_PACKED}")
    return urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def unpack_link(link: str) -> str:
    """The canonical JSON inside a link. Never decompresses more than `LINK_BYTES`, nor copies a longer link."""
    mark = link.rfind("#v=")
    start = mark + len("#v=") if mark >= 0 else 0
    if len(link) - start > LINK_CHARACTERS:
        raise LinkError(
            f"the link has {len(link) - start} characters; at most {LINK_BYTES_PACKED} compressed bytes are opened"
        )
    part = link[start:].strip()
    if mark < 0 and not part.startswith(str(LINK_VERSION)):
        raise LinkError(f"this is not a link of LMScope, which holds `#v={LINK_VERSION}` and what it shows")
    if not part:
        raise LinkError("the link is cut short")
    if not part.startswith(str(LINK_VERSION)):
        raise LinkError(f"the link is not of version {LINK_VERSION}")
    body = part[1:]
    if not re.fullmatch(r"[A-Za-z0-9_-]*", body):
        raise LinkError("the link holds characters that no link has; it may have been cut or wrapped")
    try:
        packed = urlsafe_b64decode(body + "=" * (-len(body) % 4))
        stream = zlib.decompressobj()
        raw = stream.decompress(packed, LINK_BYTES + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise LinkError("the link is damaged; it may have been cut when it was copied") from error
    if len(raw) > LINK_BYTES:
        raise LinkError(f"the link unpacks to more than {LINK_BYTES} bytes")
    if not stream.eof:
        raise LinkError("the link is cut short")
    if stream.unused_data:
        raise LinkError("the link is longer than what it holds; it may have been joined with other text")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LinkError("the link does not hold text") from error


def json_object(text: str) -> dict[str, Any]:
    """Parse an object, refusing the NaN and Infinity that Python's parser would accept."""

    def refuse(word: str) -> Any:
        raise LinkError(f"{word} is not a number that a view may hold")

    try:
        value = json.loads(text, parse_constant=refuse)
    except LinkError:
        raise
    except (ValueError, RecursionError) as error:  # also a number of more than 4,300 digits
        raise LinkError("the link does not hold a view") from error
    if not isinstance(value, dict):
        raise LinkError("the link does not hold a view")
    return value
