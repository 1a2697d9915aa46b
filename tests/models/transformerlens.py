"""Makes `transformerlens.json`: what TransformerLens says about two tiny models, beside which ours must stand.

It runs in the rivals' environment, which `lmscope bench attention --peer` makes:
`.venv/rivals/bin/python -m tests.models.transformerlens`. The weights come from numpy: every machine has the same.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from tests import tiny

KINDS = ("gpt2", "llama")
TEXT = "The quick brown fox jumps over the lazy dog."
LAYERS, TOKEN, TARGET, FOIL = 3, 5, 7, 11
LENS = (7, 11, 50)
"""Tokens whose logits the lens is asked for."""
FIXTURE = Path(__file__).with_suffix(".json")


def model_of(kind: str) -> PreTrainedModel:
    """A model whose weights are the same wherever numpy is."""
    shared = {"vocab_size": len(tiny.tokenizer_of("gpt2")), "bos_token_id": 0, "eos_token_id": 1}
    if kind == "gpt2":
        config = GPT2Config(n_embd=32, n_layer=LAYERS, n_head=4, n_positions=32, **shared)
        made: PreTrainedModel = GPT2LMHeadModel(config)
    else:
        sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
        made = LlamaForCausalLM(LlamaConfig(num_hidden_layers=LAYERS, max_position_embeddings=32, **sizes, **shared))
    dice = np.random.Generator(np.random.PCG64(5))
    with torch.no_grad():
        for name, parameter in sorted(made.named_parameters()):
            drawn = torch.from_numpy(dice.standard_normal(tuple(parameter.shape)).astype("f4") * 0.2)
            parameter.copy_(drawn + (parameter.ndim == 1 and "bias" not in name))
    return made.eval()


def told(kind: str) -> dict[str, Any]:
    """The direct contributions at one token, the units of block 1 and the lens of every block, from its cache."""
    from transformer_lens.model_bridge import TransformerBridge

    tokenizer = tiny.tokenizer_of("gpt2")
    ids = tokenizer(TEXT)["input_ids"]
    with tempfile.TemporaryDirectory() as folder:
        model_of(kind).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, device="cpu", dtype=torch.float32)
        with torch.inference_mode():
            logits, cache = bridge.run_with_cache(torch.tensor([ids]))
            lens = [_logits(bridge, cache[f"blocks.{layer}.hook_resid_post"]) for layer in range(LAYERS)]
    plain = model_of(kind)
    toward_D = _toward(kind, plain, cache[f"blocks.{LAYERS - 1}.hook_resid_post"][0, TOKEN])

    def part(name: str) -> float:
        return float(cache[name][0, TOKEN].double() @ toward_D)

    return {
        "ids": ids,
        "logits": float(logits[0, TOKEN, TARGET] - logits[0, TOKEN, FOIL]),
        "embedding": part("blocks.0.hook_resid_pre"),
        "attention": [part(f"blocks.{layer}.hook_attn_out") for layer in range(LAYERS)],
        "feed_forward": [part(f"blocks.{layer}.hook_mlp_out") for layer in range(LAYERS)],
        "heads": [_heads(kind, plain, cache, layer, toward_D) for layer in range(LAYERS)],
        "units": cache["blocks.1.mlp.hook_post" if kind == "gpt2" else "blocks.1.mlp.out.hook_in"][0, TOKEN].tolist(),
        "lens": [state_V[list(LENS)].tolist() for state_V in lens],
    }


def _logits(bridge: Any, states_BTD: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = bridge.unembed(bridge.ln_final(states_BTD))[0, TOKEN]
    return found


def _toward(kind: str, plain: Any, final_D: torch.Tensor) -> torch.Tensor:
    """Logit of target minus foil by unit of the stream, the final norm held at its divisor of this run."""
    away_D = (plain.lm_head.weight[TARGET] - plain.lm_head.weight[FOIL]).detach().double()
    final_D = final_D.double()
    if kind == "gpt2":
        norm = plain.transformer.ln_f
        toward_D = norm.weight.detach().double() * away_D / (final_D.var(unbiased=False) + norm.eps).sqrt()
        return toward_D - toward_D.mean()
    norm = plain.model.norm
    return norm.weight.detach().double() * away_D / (final_D.square().mean() + norm.variance_epsilon).sqrt()


def _heads(kind: str, plain: Any, cache: Any, layer: int, toward_D: torch.Tensor) -> list[float]:
    block = plain.transformer.h[layer].attn.c_proj.weight if kind == "gpt2" else None
    weight = plain.model.layers[layer].self_attn.o_proj.weight.T if block is None else block
    heads_HD = cache[f"blocks.{layer}.attn.hook_z"][0, TOKEN].reshape(4, -1).double()
    weight_HDM = weight.detach().double().unflatten(0, (4, -1))
    return [float(head) for head in torch.einsum("hd,hdm,m->h", heads_HD, weight_HDM, toward_D)]


if __name__ == "__main__":
    FIXTURE.write_text(json.dumps({kind: told(kind) for kind in KINDS}, indent=1) + "\n", "utf-8")
    print(f"wrote {FIXTURE}", file=sys.stderr)
