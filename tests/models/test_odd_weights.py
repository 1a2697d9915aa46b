"""Models of other makes: each question about weights is answered rightly, or refused in words."""

import pytest
import torch
from torch import nn
from transformers import BertModel

from backend import errors
from backend.models import opening, weight_lookup, weight_vectors, weights
from backend.schema import ConceptAsk, HeadWeightsAsk, Limits, LineAsk, OverlapsAsk, PairsAsk, Source, SubheadsAsk
from tests import families, tiny

LIMITS = Limits()
HEAD = {"model": "x", "layer": 1, "head": 1}
ASKS = {
    "vo": PairsAsk(**HEAD, top=3), "vo raw": PairsAsk(**HEAD, top=3, reading="raw"),
    "qk": PairsAsk(**HEAD, circuit="qk", top=3), "line": LineAsk(**HEAD, token=30, reading="raw"),
    "o": SubheadsAsk(**HEAD, part="o"), "o raw": SubheadsAsk(**HEAD, part="o", reading="raw"),
    "q": SubheadsAsk(**HEAD, part="q"), "head": HeadWeightsAsk(**HEAD),
    "overlaps": OverlapsAsk(model="x", layer=1, k=20, least=0),
    "overlaps raw": OverlapsAsk(model="x", layer=1, k=20, least=0, reading="raw"),
    "lookup": ConceptAsk(model="x", words=("the",)),
}  # fmt: skip
METHODS = {
    PairsAsk: weights.pairs, LineAsk: weights.line, HeadWeightsAsk: weights.head,
    SubheadsAsk: weight_vectors.subheads, OverlapsAsk: weight_vectors.overlaps, ConceptAsk: weight_lookup.lookup,
}  # fmt: skip


def asked(loaded, name):
    """An answer, or the refusal."""
    ask = ASKS[name]
    try:
        return METHODS[type(ask)](loaded, ask, LIMITS)
    except errors.CannotShow as refusal:
        return refusal


def refused(loaded):
    """Which questions are refused; every refusal says what, why and what to do instead."""
    found = {name: asked(loaded, name) for name in ASKS}
    refusals = {name: answer for name, answer in found.items() if isinstance(answer, errors.CannotShow)}
    assert all(one.what and one.why and one.instead for one in refusals.values())
    return set(refusals)


def prepared(model, kind="llama"):
    return opening.prepare(model.eval(), tiny.tokenizer_of(kind), name="odd", source=Source(kind="folder", name="odd"))


def test_a_bert_with_a_two_layer_read_out_is_read_raw_and_says_why_not_folded():
    loaded = tiny.loaded("bert")
    assert refused(loaded) == {"vo", "o", "overlaps"}
    assert "final norm" in asked(loaded, "vo").what
    raw = asked(loaded, "vo raw")
    assert any("between the stream and the output embedding is left out" in said for said in raw.notices)
    head = asked(loaded, "head")
    assert head.vo is None
    assert "final norm" in head.why["vo"]
    assert head.qk is not None


def test_an_encoder_without_a_read_out_is_read_with_its_input_embedding_alone_and_says_so():
    loaded = prepared(BertModel(tiny.model_of("bert", len(tiny.tokenizer_of("bert"))).config), "bert")
    assert refused(loaded) == {"vo", "o", "overlaps"}
    for name in ("vo raw", "o raw", "overlaps raw", "lookup"):
        assert any("no read-out" in said and "input embedding" in said for said in asked(loaded, name).notices), name
    layer, E = loaded.model.encoder.layer[1], loaded.model.embeddings.word_embeddings.weight.double()
    rows_KD = layer.attention.output.dense.weight[:, 8:16].T.double()
    for one in asked(loaded, "o raw").subheads:
        assert one.ends.highest[0] == int((E @ rows_KD[one.index]).argmax())


def test_a_mixture_shows_its_heads_and_says_why_not_its_units():
    loaded = families.opened("mixtral")
    assert refused(loaded) == {"overlaps", "overlaps raw"}
    assert "mixture of experts" in asked(loaded, "overlaps").why
    attention = loaded.anatomy.attention[1]
    E = loaded.anatomy.embedding.weight.double()
    written = attention.v_proj.weight[:8].double().T @ attention.o_proj.weight[:, 8:16].double().T
    whole = E @ written @ loaded.model.lm_head.weight.double().T
    assert asked(loaded, "vo raw").pairs[0].score == pytest.approx(float(whole.max()), rel=1e-4)


class Rounded(nn.Module):
    """A linear map in 8 bits, of no class that torch has."""

    def __init__(self, linear):
        super().__init__()
        self.register_buffer("scale", linear.weight.detach().abs().amax(1, keepdim=True) / 127)
        self.register_buffer("weight", (linear.weight.detach() / self.scale).round().to(torch.int8))

    def forward(self, x):
        return x @ (self.weight.float() * self.scale).T


def test_a_quantised_model_says_that_its_matrices_are_not_known_and_shows_no_table():
    model = tiny.model_of("llama", len(tiny.tokenizer_of("llama")))
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(part, name, Rounded(child))
    loaded = prepared(model)
    assert refused(loaded) == set(ASKS)
    assert not loaded.card.can["weights"].can
    assert "none of its maps takes the stream" in loaded.card.can["weights"].why
