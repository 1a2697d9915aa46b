"""The tiny models of all families with every gain and bias bent: none is 1 or 0, so that each one counts."""

from functools import cache
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from backend.models import opening
from backend.models.loaded import Loaded
from backend.schema import Source
from tests import families
from tests.questions import Made

PREDICTING = tuple(kind for kind in families.WITH_UNITS if not families.FAMILIES[kind].reads_both_ways)
"""Families with known units that predict the next token."""
WITH_LENS = tuple(kind for kind in PREDICTING if not families.FAMILIES[kind].stream)
TEXT = "The quick brown fox jumps over the lazy dog."
TOKEN = 5


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "opt, norms on the stream": ("opt", {"do_layer_norm_before": False}),
    "opt, norms on the stream, a narrow embedding": ("opt", {"do_layer_norm_before": False, "word_embed_proj_dim": 16}),
    "opt, a narrow embedding": ("opt", {"word_embed_proj_dim": 16}),
    "stablelm, parallel": ("stablelm", {"use_parallel_residual": True}),
    "gpt_neox, sequential": ("gpt_neox", {"use_parallel_residual": False}),
    "falcon, sequential": ("falcon", {"parallel_attn": False}),
    "bloom, the stream from behind the norm": ("bloom", {"apply_residual_connection_post_layernorm": True}),
}
"""Other ways in which a family joins its parts: name, family, changes of its configuration."""


def model(kind: str) -> PreTrainedModel:
    """One random model of a family, always the same."""
    return bend(families.model(kind))


def bend(made: PreTrainedModel) -> PreTrainedModel:
    """Every gain, bias and multiplier moved from where it was."""
    dice = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=dice))
    return made


def variant(name: str) -> Loaded:
    """An open model of a family with other choices."""
    kind, changes = VARIANTS[name]
    torch.manual_seed(11)
    tokenizer = families.tokenizer(kind)
    sizes = families.COMMON | {"vocab_size": len(tokenizer)} | families.FAMILIES[kind].config | changes
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes)).eval()
    return opening.prepare(bend(made), tokenizer, name="variant", source=Source(kind="folder", name="variant"))


def plain(kind: str) -> PreTrainedModel:
    """The same weights in a model that LMScope has never seen."""
    made = model(kind)
    made.set_attn_implementation("eager")
    made.config._attn_implementation = "eager"  # where it cannot be set otherwise
    return made


@cache
def opened(kind: str) -> Loaded:
    """An open model, shared; it knows a made-up direction and steer."""
    source = Source(kind="folder", name=kind)
    loaded = opening.prepare(model(kind), families.tokenizer(kind), name=f"bent-{kind}", source=source)
    loaded.vectors = Made(loaded)
    return loaded
