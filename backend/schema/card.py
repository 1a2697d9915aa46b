"""ModelCard and Can: what a model is, and what it can show, with the reason where it cannot."""

from typing import Literal

from pydantic import Field

from backend.schema.frozen import Frozen
from backend.schema.problem import Problem


class Promise(Frozen):
    """One check that was made when the model was loaded."""

    name: str
    """Such as `rows sum to one`."""
    kept: bool | None
    """None: does not apply to this model."""
    detail: str
    """What was measured, with the number."""
    needed_by: tuple[str, ...] = ()
    """Instruments that are switched off when it is not kept."""


class Ability(Frozen):
    """Whether an instrument works for this model; when not, the sentence that says why."""

    can: bool
    why: str = ""


class Shape(Frozen):
    """Sizes of the model, as found by asking it."""

    layers: int
    heads: int
    kv_heads: int
    head_width: int
    width: int
    vocabulary: int
    context: int | None
    """Positions the model was made for; None: no limit is stated."""
    attention_layers: tuple[int, ...]
    """Blocks that have attention we can read."""
    causal: bool
    window: int | None = None
    """Sliding window in tokens where a layer has one."""
    parameters: int


class Source(Frozen):
    """Where the weights come from."""

    kind: Literal["package", "hub", "folder"]
    name: str
    """Package with version, hub id, or folder."""
    revision: str = ""
    licence: str = "not stated"
    credit: str = ""
    files: dict[str, str] = Field({})
    """sha256 of each weights file."""
    conversion: str = "none"
    """How the files were converted, in a sentence."""
    quantisation: str = "none"


class ModelCard(Frozen):
    """One model of the shelf, loaded or not."""

    name: str
    """The name a View uses."""
    revision: str = ""
    state: Literal["known", "cached", "loading", "loaded", "failed"]
    source: Source
    architecture: str = ""
    """Such as `LlamaForCausalLM`; empty until it is known."""
    digest: str = ""
    dtype: str = ""
    device: str = ""
    kernel: str = ""
    memory_bytes: int = 0
    """Measured after load; before that 0."""
    estimated_bytes: int = 0
    """Parameters times bytes of the dtype."""
    in_use: int = 0
    """Questions that are running or waiting on it."""
    shape: Shape | None = None
    chat_template: bool = False
    promises: tuple[Promise, ...] = ()
    can: dict[str, Ability] = Field({})
    """By instrument."""
    edits: dict[str, Ability] = Field({})
    """By tap: heads, ffn, ffn_out, residual, unembed."""
    job: str | None = None
    """The job that is loading it, while it loads."""
    about: str = ""
    """One sentence for the picker."""
    problem: Problem | None = None
    """Why it cannot be opened, when its state is `failed`."""


class Models(Frozen):
    """The shelf."""

    default: str
    budget_bytes: int
    used_bytes: int
    models: tuple[ModelCard, ...]


class LoadAsk(Frozen):
    """Load a model (POST /api/v1/models)."""

    model: str
    revision: str | None = None
