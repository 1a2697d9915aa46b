"""Edits as data: what a view changes in the model while it runs, never in its weights.

Every edit is affine at a tap for some tokens: x becomes scale * x + shift, in the order listed.
A new kind is one class here and one row of the table in `models/plan.py`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from backend.schema.frozen import Frozen

Layer = Annotated[int, Field(ge=0, le=9_999)]
Head = Annotated[int, Field(ge=0, le=99_999)]
Unit = Annotated[int, Field(ge=0, le=9_999_999)]
Position = Annotated[int, Field(ge=0, le=9_999_999)]
Strength = Annotated[float, Field(ge=-1e6, le=1e6)]
VectorId = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""Names a stored direction or steer by the SHA-256 of its numbers (`POST /api/v1/vectors` gives it)."""
At = Literal["all", "prompt", "generated"] | Annotated[tuple[Position, ...], Field(min_length=1, max_length=4096)]


class _Edit(Frozen):
    at: At = "all"
    """Which tokens: all, those of the prompt, those of the continuation, or listed positions."""
    on: bool = True
    """An edit that is off stays in the view and changes nothing."""

    @model_serializer(mode="wrap")
    def _keep_kind(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # `kind` tells edits apart, so it must survive when defaults are left out of a link.
        return {"kind": getattr(self, "kind"), **dump(self)}  # noqa: B009


class HeadScale(_Edit):
    """A head's output (before the heads are merged) multiplied by `by`; 0 switches the head off."""

    kind: Literal["head.scale"] = "head.scale"
    layer: Layer
    head: Head
    by: Strength


class HeadSet(_Edit):
    """A head's output (before the heads are merged) replaced: every component by a constant, or by a stored vector."""

    kind: Literal["head.set"] = "head.set"
    layer: Layer
    head: Head
    to: Strength | VectorId


class FfnScale(_Edit):
    """A feed-forward unit's coefficient multiplied by `by`; 0 switches its value vector off.

    The coefficient is what the write matrix receives: the activation, in gated blocks the product act(g) * u.
    """

    kind: Literal["ffn.scale"] = "ffn.scale"
    layer: Layer
    unit: Unit
    by: Strength


class FfnSet(_Edit):
    """A feed-forward unit's coefficient set to `to`, in the units of the activation."""

    kind: Literal["ffn.set"] = "ffn.set"
    layer: Layer
    unit: Unit
    to: Strength


class FfnOutSet(_Edit):
    """What a block's feed-forward part gives, its bias included, replaced: by a constant or a stored vector.

    A norm or a multiplier that the block applies before it adds this to the stream still comes after it.
    """

    kind: Literal["ffn_out.set"] = "ffn_out.set"
    layer: Layer
    to: Strength | VectorId


class ResidualAdd(_Edit):
    """`by` times a stored direction added to the residual stream after block `layer`."""

    kind: Literal["residual.add"] = "residual.add"
    layer: Layer
    vector: VectorId
    by: Strength


class ResidualSet(_Edit):
    """The residual stream after block `layer` replaced: every component by a constant, or by a stored vector."""

    kind: Literal["residual.set"] = "residual.set"
    layer: Layer
    to: Strength | VectorId


class Steer(_Edit):
    """LM-Steer: what the output embedding receives, c, becomes c + by * (c W). Several steers add on the same c."""

    kind: Literal["steer"] = "steer"
    steer: VectorId
    by: Strength


Edit = Annotated[
    HeadScale | HeadSet | FfnScale | FfnSet | FfnOutSet | ResidualAdd | ResidualSet | Steer,
    Field(discriminator="kind"),
]
