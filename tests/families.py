"""Tiny random models of every family that is promised something, and what each is promised.

Configurations are small, and chosen so that what is special about a family bites: windows are shorter than the texts of
the tests, caps are low, multipliers are not 1, key/value heads are fewer than heads.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
)

from backend.models import kernel, opening
from backend.models.loaded import Loaded
from backend.schema import Source
from tests import tiny

WINDOW = 5
"""Tokens of every sliding window: fewer than any text of these tests has."""
COMMON: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 128, "initializer_range": 0.2, "bos_token_id": 0, "eos_token_id": 1,
    "pad_token_id": None,
}  # fmt: skip
GROUPED = {"num_key_value_heads": 2}
WIDE = GROUPED | {"head_dim": 8}
ALTERNATING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
TAPS = ("heads", "ffn", "ffn_out", "residual", "unembed")
EXPERTS = "mixture of experts"
HYBRID = "not every block has attention"


@dataclass(frozen=True)
class Family:
    """How to make one, and what its card must say."""

    config: dict[str, Any] = field(default_factory=dict)
    type: str = ""
    """What transformers calls it, where the table has several of a kind."""
    refused: str = ""
    """Words of the reason why it is not opened at all."""
    units: str = ""
    """Words of the reason why its feed-forward units are not offered."""
    fed: str = ""
    """Words of the reason why what its feed-forward part writes is not edited."""
    heads: str = ""
    """Words of the reason why its heads are not edited."""
    stream: str = ""
    """Words of the reason why its residual stream is not edited."""
    steer: str = ""
    """Words of the reason why its output embedding is not steered."""
    layers: tuple[int, ...] = (0, 1)
    """Blocks whose attention is shown."""
    reads_both_ways: bool = False
    watched: bool = False
    """Whether it calls no shared attention function."""
    pads: bool = True
    """Whether padding on the left leaves its numbers as they are."""


FAMILIES: dict[str, Family] = {
    "llama": Family(WIDE | {"attention_bias": True, "mlp_bias": True}),
    "mistral": Family(WIDE | {"sliding_window": WINDOW}),
    "ministral": Family(WIDE | ALTERNATING),
    "qwen2": Family(GROUPED | {"tie_word_embeddings": True}),
    "qwen3": Family(WIDE),
    "gemma": Family(WIDE),
    "gemma2": Family(
        WIDE | ALTERNATING
        | {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 8}
    ),
    "gemma3_text": Family(WIDE | ALTERNATING),
    "phi": Family({"partial_rotary_factor": 0.5}),
    "phi3": Family(GROUPED | {"sliding_window": WINDOW}),
    "stablelm": Family(GROUPED),
    "granite": Family(
        GROUPED
        | {"embedding_multiplier": 3.0, "attention_multiplier": 0.3, "residual_multiplier": 0.5, "logits_scaling": 2.0}
    ),
    "cohere": Family(GROUPED | {"logit_scale": 0.25}),
    "olmo": Family(GROUPED | {"clip_qkv": 1.0}),
    "olmo2": Family(GROUPED),
    "olmo3": Family(GROUPED | ALTERNATING),
    "starcoder2": Family(GROUPED | {"sliding_window": WINDOW}),
    "smollm3": Family(GROUPED),
    "gpt_neox": Family({"use_parallel_residual": True}),
    "gpt2": Family({"n_inner": 48}),
    "gptj": Family({"rotary_dim": 4, "n_inner": 48}),
    "gpt_bigcode": Family({"n_inner": 48}),
    "opt": Family({"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.2}),
    "codegen": Family({"rotary_dim": 4, "n_inner": 48, "n_ctx": 128}),
    "biogpt": Family(),
    "nemotron": Family(WIDE),
    "glm4": Family(WIDE),
    "bert": Family(reads_both_ways=True),
    "roberta": Family({"max_position_embeddings": 130, "pad_token_id": 1}, reads_both_ways=True),
    "distilbert": Family({"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}, reads_both_ways=True),
    "electra": Family({"embedding_size": 16}, reads_both_ways=True),
    "albert": Family({"embedding_size": 16}, refused="0 lists of that length", reads_both_ways=True),
    "albert, each block its own": Family(
        {"embedding_size": 16, "num_hidden_groups": 2}, type="albert", reads_both_ways=True
    ),
    "modernbert": Family(
        {"pad_token_id": 0, "local_attention": 4, "global_attn_every_n_layers": 2}, reads_both_ways=True
    ),
    "mobilebert": Family(
        {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16, "num_feedforward_networks": 1},
        reads_both_ways=True, steer="logits change by 0", units="writes 16 numbers and the stream has 32",
        fed="writes 16 numbers and the stream has 32",
    ),
    "mixtral": Family(WIDE | {"num_local_experts": 2, "num_experts_per_tok": 1}, units=EXPERTS),
    "qwen3_moe": Family(
        WIDE | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}, units=EXPERTS
    ),
    "gpt_oss": Family(
        WIDE | {"sliding_window": WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1}, units=EXPERTS
    ),
    "bloom": Family(watched=True),
    "falcon, grouped": Family(
        {"num_kv_heads": 2, "new_decoder_architecture": True}, type="falcon", watched=True
    ),
    "falcon, alibi": Family({"alibi": True, "multi_query": False}, type="falcon", watched=True),
    "gpt_neox_japanese": Family({"intermediate_multiple_size": 2}, watched=True),
    "xglm": Family(
        {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4, "init_std": 0.2}, watched=True
    ),
    "openai-gpt": Family(
        {"n_positions": 128}, watched=True, stream="do not give one residual stream"
    ),
    "gpt2, upcast": Family({"n_inner": 48, "reorder_and_upcast_attn": True}, type="gpt2", watched=True),
    "megatron-bert": Family(watched=True, reads_both_ways=True),
    "mpnet": Family({"pad_token_id": 1, "max_position_embeddings": 130}, watched=True, reads_both_ways=True),
    "roformer": Family({"embedding_size": 16}, watched=True, reads_both_ways=True),
    "deberta-v2": Family(
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 4}, watched=True,
        reads_both_ways=True,
    ),
    "convbert": Family({"embedding_size": 16}, watched=True, reads_both_ways=True, heads="no output projection"),
    "big_bird": Family(
        {"pad_token_id": 0, "block_size": 4}, reads_both_ways=True, refused="exchanges its own parts"
    ),
    "longformer": Family(
        {"attention_window": 4, "pad_token_id": 1}, reads_both_ways=True, refused="no call, no softmax"
    ),
    "falcon": Family({"alibi": False, "multi_query": True, "new_decoder_architecture": False}, watched=True),
    "gpt_neo": Family(
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": WINDOW},
        watched=True,
    ),
    "mpt": Family(
        {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 128}, watched=True
    ),
    "deepseek_v3": Family(
        {
            "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
            "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 16,
        },
        units=EXPERTS,
    ),
    "deepseek_v32": Family(
        {
            "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
            "topk_group": 1, "first_k_dense_replace": 1, "moe_intermediate_size": 16, "index_topk": 3,
            "index_n_heads": 8, "index_head_dim": 8,
        },
        units=EXPERTS,
    ),
    "deepseek_v4": Family(
        WIDE
        | {
            "q_lora_rank": 16, "qk_rope_head_dim": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 16, "o_groups": 2, "o_lora_rank": 8, "index_n_heads": 2, "index_head_dim": 8,
            "num_nextn_predict_layers": 0, "sliding_window": WINDOW, "num_key_value_heads": 1,
            "layer_types": ["compressed_sparse_attention", "heavily_compressed_attention"],
        },
        refused="keys where the text has 4 tokens",
    ),
    "doge": Family(GROUPED | {"keep_window_size": 128}),
    "bitnet": Family(WIDE, heads="no output projection"),
    "llama4_text": Family(
        WIDE
        | {
            "num_local_experts": 2, "num_experts_per_tok": 1, "intermediate_size_mlp": 48,
            "attention_chunk_size": WINDOW, "layer_types": ["chunked_attention", "full_attention"],
            "no_rope_layers": [1, 0],
        },
        units=EXPERTS,
    ),
    "gemma3n_text": Family(
        WIDE
        | {
            "vocab_size_per_layer_input": 420, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0,
            "laurel_rank": 4, "altup_num_inputs": 2, "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"], "activation_sparsity_pattern": [0.0, 0.0],
        },
        units="maps that could write units", fed="maps that could write units",
        stream="do not give one residual stream",
    ),
    "diffllama": Family(GROUPED, refused="more than once"),
    "mimo_v2_flash": Family(
        WIDE
        | {
            "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "v_head_dim": 8,
            "sliding_window": WINDOW,
        },
        refused="differ in heads",
    ),
    "mamba": Family({"state_size": 4}, refused="no call, no softmax"),
    "lfm2": Family(
        GROUPED | {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]},
        units=HYBRID, layers=(1,),
    ),
    "jamba": Family(
        GROUPED
        | {
            "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
            "num_experts": 2, "num_experts_per_tok": 1, "mamba_d_state": 4, "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
        units=HYBRID, layers=(1, 3),
    ),
    "recurrent_gemma": Family(
        WIDE | {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": WINDOW},
        units=HYBRID, layers=(2,), pads=False,
    ),
    "falcon_h1": Family(
        WIDE
        | {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_n_groups": 1},
        units="feed_forward.down_proj, mamba.out_proj", fed="feed_forward.down_proj, mamba.out_proj",
    ),
    "qwen3_next": Family(
        WIDE
        | {
            "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
            "linear_value_head_dim": 8, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
        },
        heads="no output projection",
        units=HYBRID, layers=(3,),
    ),
}  # fmt: skip
OPENED = tuple(kind for kind, family in FAMILIES.items() if not family.refused)
WITH_UNITS = tuple(kind for kind in OPENED if not FAMILIES[kind].units)
DECODERS = tuple(kind for kind in OPENED if not FAMILIES[kind].reads_both_ways)


@cache
def tokenizer(kind: str) -> Any:
    """A tokenizer of BERT's kind for what reads both ways, else of Llama's."""
    return tiny.tokenizer_of("bert" if FAMILIES[kind].reads_both_ways else "llama")


def config(kind: str, vocabulary: int | None = None) -> PreTrainedConfig:
    """The sizes of a family's model."""
    family, vocabulary = FAMILIES[kind], len(tokenizer(kind)) if vocabulary is None else vocabulary
    return AutoConfig.for_model(family.type or kind, **(COMMON | {"vocab_size": vocabulary} | family.config))


def model_class(kind: str) -> type[PreTrainedModel]:
    """What a family's model is, without making one."""
    known = MODEL_FOR_MASKED_LM_MAPPING if FAMILIES[kind].reads_both_ways else MODEL_FOR_CAUSAL_LM_MAPPING
    found: type[PreTrainedModel] = known[type(config(kind))]
    return found


def model(kind: str, vocabulary: int | None = None) -> PreTrainedModel:
    """One random model of a family, always the same."""
    torch.manual_seed(11)
    auto = AutoModelForMaskedLM if FAMILIES[kind].reads_both_ways else AutoModelForCausalLM
    made: PreTrainedModel = auto.from_config(config(kind, vocabulary))
    return made.eval()


def plain(kind: str) -> PreTrainedModel:
    """The same weights in a model that LMScope has never seen, with transformers' own eager attention."""
    made = model(kind)
    made.set_attn_implementation("eager")
    made.config._attn_implementation = "eager"  # where it cannot be set otherwise
    return made


def without_taps(kind: str) -> PreTrainedModel:
    """The same weights under the same kernel, without anything else of ours."""
    made = model(kind)
    kernel.put(made)
    return made


def loaded(kind: str) -> Loaded:
    """An open model of a family, for a test that changes it."""
    source = Source(kind="folder", name=kind)
    return opening.prepare(model(kind), tokenizer(kind), name=f"tiny-{kind}", source=source)


@cache
def opened(kind: str) -> Loaded:
    """An open model of a family, shared by the tests that leave it as it is."""
    return loaded(kind)
