"""The read-out on blocks of states gives the model's own logits, caps and scales of its family included."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, BertConfig, BertModel, PreTrainedModel

from backend.errors import CannotShow
from backend.models.readout import ReadOut, tolerance

SMALL = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "pad_token_id": 0,
    "initializer_range": 0.3,
}  # fmt: skip
OPT = {
    "vocab_size": 97, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "word_embed_proj_dim": 16, "do_layer_norm_before": False,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": SMALL,
    "gpt2": {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3},
    "gemma2": {**SMALL, "final_logit_softcapping": 3.0},
    "gemma3_text": {**SMALL, "final_logit_softcapping": 2.0},
    "granite": {**SMALL, "logits_scaling": 7.0},
    "cohere": {**SMALL, "logit_scale": 0.25},
    "opt": OPT,
    "phi": SMALL,
    "gptj": {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    "mixtral": {**SMALL, "num_local_experts": 2},
    "gpt_neox": SMALL,
    "biogpt": SMALL,
}


def model_of(family: str, **changes: Any) -> PreTrainedModel:
    torch.manual_seed(3)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**FAMILIES[family], **changes})).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_of_states_give_the_models_own_logits(family: str) -> None:
    model = model_of(family)
    ids_1T = torch.arange(9)[None] + 20
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.inference_mode():
        logits_TV = model(input_ids=ids_1T, use_cache=False).logits[0]
        states_TD = model.base_model(input_ids=ids_1T, use_cache=False).last_hidden_state[0]
        read = ReadOut(model)
        found_TV = torch.cat([read(states_TD[:4]), read(states_TD[4:])])
        read.check(states_TD, logits_TV)
    assert torch.allclose(found_TV, logits_TV, atol=1e-5)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("family", ["gemma2", "granite", "cohere"])
def test_the_caps_and_scales_tried_here_matter(family: str) -> None:
    model = model_of(family)
    with torch.inference_mode():
        states_TD = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
        bare_TV = model.get_output_embeddings()(states_TD)
        assert not torch.allclose(ReadOut(model)(states_TD), bare_TV, atol=1e-3)


def test_a_read_out_that_differs_is_refused_with_the_number() -> None:
    read = ReadOut(model_of("llama"))
    states_TD = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    wrong_TV = read(states_TD) + 0.5
    with pytest.raises(CannotShow, match="differ by"):
        read.check(states_TD, wrong_TV)


def test_a_model_without_a_head_is_refused() -> None:
    model = BertModel(BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    with pytest.raises(CannotShow, match="no read-out"):
        ReadOut(model)


def test_half_precision_is_allowed_to_differ_more() -> None:
    assert tolerance(torch.bfloat16) > tolerance(torch.float32)
