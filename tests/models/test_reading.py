"""Vectors are read as the model itself would read them: its own norm and logits, differentiated."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from backend import errors
from backend.models import forward, opening
from backend.models.circuits import writer
from backend.models.reading import reader
from backend.schema import Source
from tests import families, tiny

LENSES = tuple(kind for kind in families.DECODERS if not families.FAMILIES[kind].stream)


@pytest.mark.parametrize("kind", LENSES)
def test_a_folded_vector_moves_the_models_own_logits_as_it_says(kind):
    """Against the model's norm and read-out: for a state x and a vector v of x's own mean square, with the divisor
    held, norm(x + v) − norm(x − v) is linear in v; divisors are measured from the states themselves."""
    loaded = families.opened(kind)
    used = reader(loaded, "folded")
    dice = torch.Generator().manual_seed(3)
    state_D, vector_D = torch.randn(2, loaded.anatomy.shape.width, generator=dice) * 50
    if used.centred:
        state_D, vector_D = state_D - state_D.mean(), vector_D - vector_D.mean()
    vector_D = vector_D - state_D * (vector_D @ state_D) / (state_D @ state_D)  # so that x + v and x − v are as long
    divisor = (state_D + vector_D).square().mean().sqrt()
    both = torch.stack([state_D + vector_D, state_D - vector_D])
    with torch.inference_mode():
        normed_2D = loaded.anatomy.final_norm(both[None])[0]
        half_D = (normed_2D[0] - normed_2D[1]) / 2
        small = 1e-3 / half_D.abs().max()  # below any soft-cap
        one_V, other_V = forward.read_out(loaded, torch.stack([half_D, -half_D]) * small)
    expected_V = (one_V - other_V) / 2 / small * divisor
    found_V = used.logits(vector_D[None])[0]
    torch.testing.assert_close(found_V, expected_V, rtol=2e-3, atol=2e-3 * float(expected_V.abs().max()))
    ids = [3, 0, 7]
    torch.testing.assert_close(used.of_words(ids) @ vector_D, found_V[ids], rtol=1e-3, atol=1e-2)


def test_gains_of_every_kind_are_found_exactly():
    for kind, find in {
        "llama": lambda model: model.model.norm, "gemma": lambda model: model.model.norm,
        "gpt2": lambda model: model.transformer.ln_f, "cohere": lambda model: model.model.norm,
    }.items():  # fmt: skip
        model = families.model(kind)
        norm = find(model)
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(-2, 2, norm.weight.numel()))
            if getattr(norm, "bias", None) is not None:
                norm.bias.copy_(torch.linspace(0, 3, norm.weight.numel()))
        expected_D = (1 + norm.weight if kind == "gemma" else norm.weight).detach()
        source = Source(kind="folder", name=kind)
        used = reader(opening.prepare(model, families.tokenizer(kind), name=kind, source=source), "folded")
        torch.testing.assert_close(used.gain_D, expected_D, rtol=1e-5, atol=1e-5)
        assert used.centred == (kind in ("gpt2", "cohere"))
        assert used.scale == (0.25 if kind == "cohere" else 1)


def test_multipliers_are_those_of_the_configuration():
    assert reader(families.opened("granite"), "folded").scale == pytest.approx(0.5, rel=1e-4)
    assert reader(families.opened("gemma2"), "folded").scale == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(("kind", "scale"), [("granite", 0.5), ("cohere", 0.25), ("gemma2", 1.0), ("gpt2", 1.0)])
def test_multipliers_are_not_blurred_by_half_precision(kind, scale):
    half, source = families.model(kind).bfloat16(), Source(kind="folder", name=kind)
    loaded = opening.prepare(half, families.tokenizer(kind), name=kind, source=source)
    assert reader(loaded, "folded").scale == scale
    assert loaded.keys.why == ""
    assert loaded.keys.of[0]


def test_raw_is_the_bare_product():
    loaded = families.opened("gpt2")
    vector_D = torch.linspace(-1, 1, 32)
    expected_V = loaded.anatomy.unembedding.weight @ vector_D
    torch.testing.assert_close(reader(loaded, "raw").logits(vector_D[None])[0], expected_V)


@pytest.mark.parametrize(
    ("kind", "why"),
    [("bert", "read-out has two layers"), ("distilbert", "read-out has two layers"), ("electra", "takes 16 numbers"),
     ("openai-gpt", "do not give one stream")],
)  # fmt: skip
def test_a_model_whose_norm_cannot_be_folded_says_the_true_reason(kind, why):
    """That a model fills in blanks is none: what counts is what stands between its stream and its words."""
    with pytest.raises(errors.CannotShow, match=why) as refused:
        reader(families.opened(kind), "folded")
    assert "next token" not in refused.value.why
    assert ("`raw`, as published" in refused.value.instead) == (kind != "electra")


def test_a_model_without_read_out_offers_its_input_embedding():
    loaded = tiny.without_read_out()
    with pytest.raises(errors.CannotShow, match="no read-out") as refused:
        writer(loaded, "folded")
    assert "input embedding" in refused.value.instead
    assert writer(loaded, "raw").embedding_VD is loaded.anatomy.embedding.weight


def test_a_model_that_reads_both_ways_is_folded_where_nothing_but_a_norm_stands_between():
    """Gemma 3 as an encoder has the read-out of Gemma 3: only its mask is another."""
    family = families.FAMILIES["gemma3_text"]
    config = AutoConfig.for_model(
        "gemma3_text", **families.COMMON | family.config, use_bidirectional_attention=True, vocab_size=420
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    loaded = opening.prepare(
        model, families.tokenizer("gemma3_text"), name="both ways", source=Source(kind="folder", name="both ways")
    )
    assert not loaded.anatomy.shape.causal
    assert not loaded.card.can["trace"].can
    used, norm = reader(loaded, "folded"), model.model.norm
    vector_1D = torch.randn(1, 32, generator=torch.Generator().manual_seed(2))
    expected_V = model.lm_head.weight @ (vector_1D[0] * (1 + norm.weight))
    torch.testing.assert_close(used.logits(vector_1D)[0], expected_V)


def test_bert_is_read_raw():
    assert reader(families.opened("bert"), "raw").logits(torch.ones(1, 32)).shape[0] == 1
