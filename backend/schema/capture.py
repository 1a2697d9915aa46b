"""Capture: raw tensors of named places of one forward pass, as a safetensors file that is written while it runs.

A point is a place of ours (`residual.3`, `maps.*`) or the name that TransformerLens has for an equal tensor. The batch
axis is left out: one file is one text.
"""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from backend.schema.conditions import Conditions
from backend.schema.edit import Position
from backend.schema.frozen import Frozen
from backend.schema.view import View

MEDIA_TYPE = "application/vnd.safetensors"
ABOUT = "lmscope"
"""The key of the file's metadata that holds a `CaptureAbout`."""
UNEDITED = "unedited/"
"""What the names of the unedited model's tensors begin with, where the view compares."""
CUT = b"\nlmscope-problem:"
"""A stream that ends early ends with this and a Problem; a whole one is as long as its header says."""
EVERY = "*"
"""Instead of a layer: every layer that has the place."""
AXES = {
    "T": "tokens (queries)", "S": "keys", "H": "query heads", "G": "key/value heads", "W": "head width", "D": "width",
    "F": "feed-forward units", "V": "vocabulary",
}  # fmt: skip


class Place(NamedTuple):
    """One place of the forward pass."""

    axes: str
    """Letters of `AXES`; the first T is cut by `CaptureAsk.positions`."""
    about: str
    unit: str = "the model's own scale"


PLACES: dict[str, Place] = {
    "embedding": Place(
        "TD", "what enters block 0: token embeddings, with positions and norm where the model adds them"
    ),
    "query.L": Place("THW", "queries as the attention function takes them: after any norm and rotation"),
    "key.L": Place("TGW", "keys as the attention function takes them: after any norm and rotation"),
    "value.L": Place("TGW", "values as the attention function takes them"),
    "maps.L": Place("HTS", "attention probabilities (with a learned sink, rows sum to less than one)", "probability"),
    "heads.L": Place("THW", "each head's output before the heads are merged by W_O, after edits"),
    "ffn.L": Place("TF", "the feed-forward units that the write matrix takes, after edits"),
    "ffn_out.L": Place("TD", "what the feed-forward part gives, its bias included, before any later norm, after edits"),
    "residual.L": Place("TD", "the residual stream: the output of block L, after edits"),
    "final": Place("TD", "the final states that the read-out takes: after the final norm where there is one"),
    "logits": Place("TV", "logits over the vocabulary, by the model's own read-out, after steers", "logits"),
}
"""Our names, in the order in which a model makes them. L stands for a layer, counted from 0."""


class Same(NamedTuple):
    """A name of TransformerLens and the place that is equal to it."""

    place: str
    needs: str = ""
    """The fact about a model that makes them equal, as `models/points.py` finds it; empty: always."""
    layers_before: int = 0


THEIRS: dict[str, Same] = {
    "hook_embed": Same("embedding", "embedding"),
    "blocks.L.hook_in": Same("residual.L", "chain", 1),
    "blocks.L.hook_out": Same("residual.L"),
    "blocks.L.hook_resid_pre": Same("residual.L", "chain", 1),
    "blocks.L.hook_resid_post": Same("residual.L"),
    "blocks.L.attn.hook_q": Same("query.L", "plain"),
    "blocks.L.attn.hook_k": Same("key.L", "plain"),
    "blocks.L.attn.hook_v": Same("value.L", "plain"),
    "blocks.L.attn.hook_rot_q": Same("query.L", "rotated"),
    "blocks.L.attn.hook_rot_k": Same("key.L", "rotated"),
    "blocks.L.attn.hook_pattern": Same("maps.L"),
    "blocks.L.attn.hook_z": Same("heads.L"),
    "blocks.L.mlp.hook_post": Same("ffn.L"),
    "blocks.L.hook_mlp_out": Same("ffn_out.L", "added"),
    "ln_final.hook_out": Same("final", "norm"),
}
"""As TransformerBridge 4 defines them, and HookedTransformer loaded without processing where it has them: with the raw
weights, nothing folded or centred."""
NOT_THEIRS: dict[str, str] = {
    "blocks.L.attn.hook_attn_scores": "scores before the softmax are not kept; query.L and key.L give them",
    "blocks.L.attn.hook_result": "each head's output after W_O is heads.L times W_O, and is not computed",
    "blocks.L.hook_attn_out": "what attention adds is heads.L times W_O, followed by any norm of the family",
    "blocks.L.hook_resid_mid": "LMScope has the stream between blocks only: residual.L",
    "blocks.L.mlp.hook_pre": "units are kept as the write matrix takes them: ffn.L",
    "ln_final.hook_normalized": "that is before the norm's own weights; LMScope has what the norm gives: final",
    "hook_pos_embed": "positions are part of embedding where the model adds them",
    "unembed.hook_out": "that is before any scale or cap of the family; LMScope has the model's own logits: logits",
    "hook_unembed": "that is before any scale or cap of the family; LMScope has the model's own logits: logits",
}
"""Names that TransformerLens users may ask for, and why no place of ours is equal."""

Point = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.*]+$")]
Points = Annotated[tuple[Point, ...], Field(min_length=1, max_length=1024)]


class CaptureAsk(Frozen):
    """POST /api/v1/capture. The answer is a safetensors file; its metadata has a CaptureAbout under `lmscope`."""

    view: View
    points: Points
    """Such as `residual.3`, `maps.*`, `blocks.0.attn.hook_z`. `*` is every layer that has the place."""
    positions: Annotated[tuple[Position, ...], Field(min_length=1, max_length=4096)] | None = None
    """Only these tokens, counted from 0, in this order; None: all. A map keeps all its keys."""
    dtype: Literal["float32", "model"] = "float32"
    """`model`: each tensor in the dtype it was computed in. Both are exact; float32 holds every half precision."""


class CapturedTensor(Frozen):
    """What one tensor of the file is."""

    place: str
    """Our name of it, such as `residual.3`."""
    axes: tuple[str, ...]
    """Letters of `legend`, one an axis."""
    unit: str
    about: str


class CaptureAbout(Frozen):
    """What a captured file says about itself."""

    conditions: Conditions
    ids: tuple[int, ...]
    """The token ids that were really used."""
    positions: tuple[int, ...]
    """The tokens that stand along T."""
    view: str
    """Digest of the view."""
    tensors: dict[str, CapturedTensor]
    legend: dict[str, str] = AXES
    notices: tuple[str, ...] = ()


def pattern(point: str) -> tuple[str, str | None]:
    """A point's name with L for its layer, and the layer as it was written (a number or `*`)."""
    parts = point.split(".")
    for place, part in enumerate(parts):
        if part == EVERY or part.isdecimal():
            return ".".join([*parts[:place], "L", *parts[place + 1 :]]), part
    return point, None
