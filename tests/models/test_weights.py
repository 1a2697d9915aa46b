"""A head's table in the vocabulary is what the model's own matrices and its own attention say."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from backend import errors
from backend.measure.keep import dual
from backend.measure.reading import gram
from backend.models import distance, forward, opening, positions, weight_vectors
from backend.models import weights as instrument
from backend.models.circuits import table
from backend.models.vocabulary import Vocabulary, allowed
from backend.schema import Filters, HeadWeightsAsk, Limits, LineAsk, OverlapsAsk, PairsAsk, Source, SubheadsAsk
from tests import families, tiny

LIMITS = Limits()


def opened(kind):
    """As it is opened with such gains."""
    tokenizer = tiny.tokenizer_of(kind)
    model = tiny.model_of(kind, len(tokenizer))
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("weight") and parameter.ndim == 1:
                parameter += torch.rand(parameter.shape, generator=dice)
    return opening.prepare(model, tokenizer, name=f"tiny-{kind}", source=Source(kind="folder", name=f"tiny-{kind}"))


SHARED = tiny.Once(opened)


def parts(kind, layer, head):
    """W_Q, W_K, W_V [D, K] and W_O [K, D] of one head, from the model's own modules, by name."""
    model = SHARED[kind].model
    if kind == "llama":
        a, g = model.model.layers[layer].self_attn, head // 2
        own, shared = slice(8 * head, 8 * head + 8), slice(8 * g, 8 * g + 8)
        return a.q_proj.weight[own].T, a.k_proj.weight[shared].T, a.v_proj.weight[shared].T, a.o_proj.weight[:, own].T
    if kind == "gpt2":
        a, own = model.transformer.h[layer].attn, slice(8 * head, 8 * head + 8)
        q, k, v = a.c_attn.weight.split(32, 1)
        return q[:, own], k[:, own], v[:, own], a.c_proj.weight[own]
    a, own = model.bert.encoder.layer[layer].attention, slice(8 * head, 8 * head + 8)
    return (
        a.self.query.weight[own].T,
        a.self.key.weight[own].T,
        a.self.value.weight[own].T,
        a.output.dense.weight[:, own].T,
    )


def norms(kind, layer):
    """The norm before attention and the final norm, with a divisor of 1: functions of [.., D]."""
    model = SHARED[kind].model

    def centred(norm):
        return lambda x: norm.weight.double() * (x - x.mean(-1, keepdim=True))

    if kind == "llama":
        one, other = model.model.layers[layer].input_layernorm.weight, model.model.norm.weight
        return (lambda x: x * one.double()), (lambda x: x * other.double())
    if kind == "gpt2":
        return centred(model.transformer.h[layer].ln_1), centred(model.transformer.ln_f)
    return (lambda x: x), None


def dense(kind, circuit, layer, head, reading):
    """The whole table in float64."""
    model = SHARED[kind].model
    E_in, E_out = (m.weight.double() for m in (model.get_input_embeddings(), model.get_output_embeddings()))
    q, k, v, o = (part.double() for part in parts(kind, layer, head))
    before, after = norms(kind, layer) if reading == "folded" else (lambda x: x, lambda x: x)
    if circuit == "qk":
        scale = 8**-0.5 if reading == "folded" else 1
        return before(E_in) @ q @ k.T @ before(E_in).T * scale
    return after(before(E_in) @ v @ o) @ E_out.T


ASKS = [
    (kind, circuit, reading)
    for kind in tiny.KINDS for circuit in ("vo", "qk") for reading in ("folded", "raw")
    if (kind, circuit, reading) != ("bert", "vo", "folded")
]  # fmt: skip
FILTERS = st.builds(
    Filters, letters=st.booleans(), ascii=st.booleans(), apart=st.sampled_from(["any", "tokens", "words"]),
    text=st.sampled_from([None, "The cat sat on the mat, and the dog barked at the cat."]),
    words=st.sampled_from([None, ("the", "Cat", "sat", "dog", ",")]), side=st.sampled_from(["both", "rows", "columns"]),
)  # fmt: skip


def permitted(loaded, filters):
    """Pairs [V, V] that the filters let through, by the words of the schema, token by token."""
    V = len(loaded.anatomy.embedding.weight)
    texts = [Vocabulary.of(loaded).texts[id] for id in range(V)]
    every = [
        (not filters.letters or text.removeprefix(" ").isalpha()) and (not filters.ascii or text.isascii())
        for text in texts
    ]
    ids = None if filters.text is None else set(loaded.tokenizer(filters.text, add_special_tokens=False)["input_ids"])
    listed = None if filters.words is None else {word.strip().casefold() for word in filters.words}
    chosen = [
        ok and (ids is None or id in ids) and (listed is None or text.strip().casefold() in listed)
        for id, (ok, text) in enumerate(zip(every, texts, strict=True))
    ]
    rows = torch.tensor(chosen if filters.side != "columns" else every)
    columns = torch.tensor(chosen if filters.side != "rows" else every)
    mask = rows[:, None] & columns[None]
    if filters.apart == "tokens":
        mask &= ~torch.eye(V, dtype=torch.bool)
    if filters.apart == "words":
        forms = [text.strip().casefold() or text for text in texts]
        mask &= torch.tensor([[one != other for other in forms] for one in forms])
    return mask


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_top_pairs_are_those_of_the_whole_table(data):
    kind, circuit, reading = data.draw(st.sampled_from(ASKS))
    layer, head = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 3))
    sign, top, filters = (
        data.draw(st.sampled_from(["highest", "lowest"])),
        data.draw(st.integers(1, 80)),
        data.draw(FILTERS),
    )
    loaded = SHARED[kind]
    ask = PairsAsk(
        model="x", layer=layer, head=head, circuit=circuit, reading=reading, sign=sign, top=top, filters=filters
    )
    mask = permitted(loaded, filters)
    if not mask.any():
        with suppress(errors.CannotShow):  # or there are rows and columns, and no pair of them
            assert instrument.pairs(loaded, ask, LIMITS).pairs == ()
        return
    answer = instrument.pairs(loaded, ask, LIMITS)
    scores = dense(kind, circuit, layer, head, reading)
    listed = scores.masked_fill(~mask, -torch.inf if sign == "highest" else torch.inf).flatten()
    order = listed.argsort(descending=sign == "highest", stable=True)[: min(top, int(mask.sum()))]
    assert answer.allowed == int(mask.sum())
    assert len(answer.pairs) == len(order)
    found = torch.tensor([pair.score for pair in answer.pairs], dtype=torch.float64)
    torch.testing.assert_close(found, listed[order], rtol=1e-4, atol=1e-5)
    for pair in answer.pairs:
        assert mask[pair.row, pair.column]
        assert pair.score == pytest.approx(float(scores[pair.row, pair.column]), rel=1e-4, abs=1e-5)
    size = len(mask)
    apart = listed[order].diff().abs() > 1e-4  # neighbours that float32 factors can tell apart
    places = [pair.row * size + pair.column for pair in answer.pairs]
    sure = [i for i in range(len(order)) if (i == 0 or apart[i - 1]) and (i == len(order) - 1 or apart[i])]
    sure = [i for i in sure if i < len(order) - 1 or len(order) == int(mask.sum())]
    assert [places[i] for i in sure] == order[sure].tolist()
    assert answer.same == sum(pair.row == pair.column for pair in answer.pairs)


@pytest.mark.parametrize(("kind", "circuit", "reading"), ASKS)
def test_every_head_has_the_table_that_its_matrices_make(kind, circuit, reading):
    loaded = SHARED[kind]
    for layer in range(3):
        for head in range(4):
            made = table(loaded, circuit, layer, head, reading)
            found = made.rows.vectors() @ made.columns.vectors().T
            torch.testing.assert_close(found.double(), dense(kind, circuit, layer, head, reading), rtol=1e-3, atol=1e-4)


TURNED = (
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "stablelm", "granite",
    "cohere", "olmo2", "starcoder2", "gpt_neox", "gptj", "codegen", "nemotron", "glm4", "mixtral", "smollm3",
    "bloom", "mpt", "falcon", "falcon, alibi", "falcon, grouped", "gpt_neox_japanese",
)  # fmt: skip


@pytest.mark.parametrize("kind", TURNED)
def test_scores_at_a_distance_are_the_models_own_attention_logits(kind):
    """Against transformers' own eager attention: differences of log weights in a row are differences of logits."""
    loaded, plain = families.opened(kind), families.plain(kind)
    ids, layer = torch.arange(30, 35), 0
    with torch.no_grad():
        weights = plain(input_ids=ids[None], output_attentions=True).attentions[layer][0].double()
        x = loaded.anatomy.embedding.weight[ids].double()
    norm = loaded.projections.norm[layer]
    x = x - x.mean(-1, keepdim=True) if norm is not None and norm.centred else x
    divisor = x.square().mean(-1).sqrt() if norm is not None else torch.ones(5)
    if loaded.projections.of[layer, "query"].norm:
        divisor = torch.ones(5)
    for head in range(4):
        logits = torch.zeros(5, dtype=torch.float64)
        for key in range(5):
            ask = LineAsk(model="x", layer=layer, head=head, circuit="qk", token=34, distance=4 - key)
            made = distance.table(loaded, ask, "folded", None)
            row, column = made.rows.vectors()[34].double(), made.columns.vectors()[ids[key]].double()
            logits[key] = row[:8] @ column[:8] / (divisor[4] * divisor[key]) + row[8:] @ column[8:]  # and a bias
        cap = loaded.projections.capped[layer]
        logits = cap * (logits / cap).tanh() if cap else logits
        own = weights[head, 4].log()
        seen = weights[head, 4] > 0
        torch.testing.assert_close(logits[seen].diff(), own[seen].diff(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("kind", "said"), [("qwen3", "rotary"), ("llama", "rotary"), ("gpt2", "Learned"), ("bloom", "is added to scores")]
)
def test_what_distance_0_means_is_said(kind, said):
    """Also where queries are normed by themselves before they are turned."""
    loaded = families.opened(kind)
    answer = instrument.pairs(loaded, PairsAsk(model="x", layer=0, head=0, circuit="qk"), LIMITS)
    assert any(said in notice for notice in answer.notices)


def test_a_bias_that_is_left_out_is_named():
    loaded = families.opened("stablelm")
    norm = loaded.projections.norm[0]
    before = float(norm.bias_D[0])
    norm.bias_D[0] = 1.0
    try:
        for circuit in ("vo", "qk"):
            answer = instrument.pairs(loaded, PairsAsk(model="x", layer=0, head=0, circuit=circuit), LIMITS)
            assert any("bias of the norm before attention is left out" in notice for notice in answer.notices)
    finally:
        norm.bias_D[0] = before


def test_folded_words_of_a_model_without_a_norm_before_attention_name_none():
    loaded = families.opened("bert")
    answer = instrument.pairs(loaded, PairsAsk(model="x", layer=0, head=0, circuit="qk"), LIMITS)
    assert "no norm stands before attention" in answer.about
    assert "gain of the norm" not in answer.about


def test_the_curve_is_the_mean_of_the_whole_table_at_each_distance():
    loaded = SHARED["llama"]
    answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=1, head=3), LIMITS)
    assert answer.positions == "rotary"
    assert answer.curve[0].distance == 0
    assert answer.curve[-1].distance == 127
    for point in answer.curve[::9]:
        ask = LineAsk(model="x", layer=1, head=3, circuit="qk", token=0, distance=point.distance)
        made = distance.table(loaded, ask, "folded", None)
        scores = made.rows.vectors().double() @ made.columns.vectors().double().T
        assert point.score == pytest.approx(float(scores.mean()), rel=1e-3, abs=1e-5)


def test_the_curve_of_learned_positions_adds_the_vectors_of_the_places():
    loaded = SHARED["gpt2"]
    answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=2, head=1), LIMITS)
    assert answer.positions == "learned"
    q, k, _, _ = (part.double() for part in parts("gpt2", 2, 1))
    before = norms("gpt2", 2)[0]
    E, P = loaded.model.transformer.wte.weight.double(), loaded.model.transformer.wpe.weight.double()
    queries, keys = (before(E).mean(0) + before(P)) @ q, (before(E).mean(0) + before(P)) @ k
    scores = queries @ keys.T * 8**-0.5
    for point in answer.curve[::17]:
        expected = torch.stack([scores[t, t - point.distance] for t in range(point.distance, 128)]).mean()
        assert point.score == pytest.approx(float(expected), rel=1e-3, abs=1e-5)


def test_the_curve_of_scaled_embeddings_with_learned_positions_is_that_of_what_the_model_feeds_block_0():
    """BioGPT feeds √D·E + P; every token at every place, through the model's own modules by name."""
    loaded = families.opened("biogpt")
    answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=0, head=1), LIMITS)
    assert answer.positions == "learned"
    trunk = loaded.model.biogpt
    norm, attention = trunk.layers[0].self_attn_layer_norm, trunk.layers[0].self_attn
    mean_D, places_PD = trunk.embed_tokens.weight.double().mean(0), trunk.embed_positions.weight.double()[2:]
    fed_PD = 32**0.5 * mean_D + places_PD
    fed_PD = norm.weight.double() * (fed_PD - fed_PD.mean(-1, keepdim=True))
    queries, keys = (fed_PD @ m.weight[8:16].double().T for m in (attention.q_proj, attention.k_proj))
    count = len(answer.curve)
    scores = queries[:count] @ keys[:count].T * 8**-0.5
    assert count > 20
    for point in answer.curve[::9]:
        expected = float(scores.diagonal(-point.distance).mean())
        assert point.score == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_the_curve_of_positions_with_two_sets_of_factors_is_that_of_a_text_as_long_as_the_distance():
    """Longrope: a text longer than the first context is turned by the long factors, a shorter one by the short."""
    factors = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [3.0] * 4}
    tokenizer = families.tokenizer("llama")
    config = AutoConfig.for_model(
        "phi3", **families.COMMON | families.GROUPED, vocab_size=len(tokenizer), original_max_position_embeddings=16,
        rope_scaling=factors,
    )  # fmt: skip
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).eval()
    loaded = opening.prepare(model, tokenizer, name="long", source=Source(kind="folder", name="long"))
    answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=0, head=1), LIMITS)
    scores = {point.distance: point.score for point in answer.curve}
    layer = model.model.layers[0]
    x_D = (model.model.embed_tokens.weight * layer.input_layernorm.weight).mean(0)
    made_X = layer.self_attn.qkv_proj.weight @ x_D
    query_K, key_K = made_X[8:16], made_X[32:40]
    for far in (1, 9, 15, 16, 17, 60):
        if far not in scores:
            continue
        cos_TK, sin_TK = (m[0] for m in model.model.rotary_emb(x_D, torch.tensor([[0, far]])))
        query, key = (v * cos_TK[at] + torch.cat([-v[4:], v[:4]]) * sin_TK[at] for v, at in ((query_K, 1), (key_K, 0)))
        assert scores[far] == pytest.approx(float(query @ key) * 8**-0.5, rel=1e-3, abs=1e-7)
    assert any(1 <= far < 16 for far in scores)
    assert any(far >= 16 for far in scores)


def slopes(heads):
    """ALiBi's, of a power of two of heads (Press et al. 2022, §3): 2^(−8/n), 2^(−16/n), …"""
    return [2 ** (-8 * (head + 1) / heads) for head in range(heads)]


@pytest.mark.parametrize(("kind", "by"), [("bloom", 1.0), ("mpt", 1.0), ("falcon, alibi", 2 * 8**-0.5)])
def test_the_curve_of_a_model_with_alibi_falls_by_the_published_slopes(kind, by):
    """Falcon scales the sum of product and bias, and transformers adds it twice: in the mask, and after the product."""
    loaded = families.opened(kind)
    for head in range(4):
        answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=1, head=head), LIMITS)
        assert answer.positions == "bias"
        assert answer.curve[-1].distance >= 127
        for point in answer.curve:
            expected = answer.curve[0].score - by * slopes(4)[head] * point.distance
            assert point.score == pytest.approx(expected, rel=2e-3, abs=2e-3)
    ask = PairsAsk(model="x", layer=1, head=2, circuit="qk", top=5)
    near, far = (instrument.pairs(loaded, ask.model_copy(update={"distance": d}), LIMITS) for d in (0, 40))
    assert [(one.row, one.column) for one in near.pairs] == [(one.row, one.column) for one in far.pairs]
    assert far.pairs[0].score == pytest.approx(near.pairs[0].score - by * slopes(4)[2] * 40, rel=1e-3, abs=1e-3)
    assert any("the distance decides" in said for said in far.notices)


def test_a_bias_of_buckets_is_no_line_and_is_known_as_far_as_it_was_seen():
    """MPNet adds the number of a bucket of distances, over learned positions; against its own table of buckets."""
    loaded = families.opened("mpnet")
    seen = positions.places(loaded, [1, 2, 9, 40, 100])
    encoder = loaded.model.mpnet.encoder
    with torch.no_grad():
        bias_HTT = encoder.compute_position_bias(torch.zeros(1, 101, 32))[0].double()
    own = bias_HTT[:, 100] - bias_HTT[:, 100, 100:]
    for at, place in enumerate((1, 2, 9, 40, 100)):
        torch.testing.assert_close(seen.bias[1][:, at], own[:, 100 - place], rtol=1e-3, atol=1e-5)


def test_what_depends_on_words_and_places_at_once_is_refused_in_words():
    with pytest.raises(errors.CannotShow, match="no one product"):
        instrument.pairs(families.opened("deberta-v2"), PairsAsk(model="x", layer=0, head=0, circuit="qk"), LIMITS)
    bert = instrument.head(SHARED["bert"], HeadWeightsAsk(model="x", layer=0, head=0), LIMITS)
    assert (bert.positions, bert.curve) == ("unknown", ())
    assert "no curve" in bert.about
    assert "embedding norm of BERT" in bert.about
    with pytest.raises(errors.CannotShow, match="another vector for every token"):
        instrument.pairs(SHARED["bert"], PairsAsk(model="x", layer=0, head=0, circuit="qk", distance=1), LIMITS)


@pytest.mark.parametrize("kind", ["gpt_neo", "gpt2, upcast", "openai-gpt", "xglm"])
def test_watched_models_with_learned_positions_have_the_curve_of_what_they_add(kind):
    """Every token at every place through the model's own parts, by name."""
    loaded = families.opened(kind)
    answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=0, head=1), LIMITS)
    assert answer.positions == "learned"
    trunk = loaded.anatomy.trunk
    block = loaded.anatomy.blocks[0]
    own, count = slice(8, 16), len(answer.curve)
    with torch.no_grad():
        if kind == "xglm":
            E, P = 32**0.5 * trunk.embed_tokens.weight.double(), trunk.embed_positions.weights[2:].double()
            norm, a = block.self_attn_layer_norm, block.self_attn
            q, k, scale = a.q_proj.weight[own].double().T, a.k_proj.weight[own].double().T, 8**-0.5
        elif kind == "gpt_neo":
            E, P = trunk.wte.weight.double(), trunk.wpe.weight.double()
            norm, a = block.ln_1, block.attn.attention
            q, k, scale = a.q_proj.weight[own].double().T, a.k_proj.weight[own].double().T, 1.0
        else:
            E = (trunk.tokens_embed if kind == "openai-gpt" else trunk.wte).weight.double()
            P = (trunk.positions_embed if kind == "openai-gpt" else trunk.wpe).weight.double()
            norm, fused = (None if kind == "openai-gpt" else block.ln_1), block.attn.c_attn.weight.double().split(32, 1)
            q, k, scale = fused[0][:, own], fused[1][:, own], 8**-0.5
        fed = E.mean(0) + P[:count]
        if norm is not None:
            fed = norm.weight.double() * (fed - fed.mean(-1, keepdim=True))
        scores = (fed @ q) @ (fed @ k).T * scale
    assert count > 20
    for point in answer.curve[::9]:
        assert point.score == pytest.approx(float(scores.diagonal(-point.distance).mean()), rel=1e-3, abs=1e-6)


def test_queries_that_are_scaled_by_their_own_place_are_told():
    """Llama 4, in layers without rotary positions: what the attention function is given from a text of one word."""
    tokenizer = families.tokenizer("llama")
    config = AutoConfig.for_model(
        "llama4_text", **families.COMMON | families.FAMILIES["llama4_text"].config, vocab_size=len(tokenizer),
        attn_temperature_tuning=True, floor_scale=4, attn_scale=0.5,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    loaded = opening.prepare(model, tokenizer, name="warm", source=Source(kind="folder", name="warm"))
    lengths = {}
    forward.run(loaded, [[30] * 6], hold=lambda call: lengths.update({call.layer: call.query_BHTD[0, 0].norm(dim=-1)}))
    first = int((lengths[1] > 1.01 * lengths[1][0]).nonzero()[0])
    rotary, plain = (instrument.head(loaded, HeadWeightsAsk(model="x", layer=at, head=0), LIMITS) for at in (0, 1))
    assert any(f"own place, from place {first} on" in said for said in plain.notices)
    assert "No position acts" not in plain.about
    assert not any("own place" in said for said in rotary.notices)
    table = instrument.pairs(loaded, PairsAsk(model="x", layer=1, head=0, circuit="qk", top=1), LIMITS)
    assert any("own place" in said for said in table.notices)


def test_queries_of_ministral_3_are_told_to_be_scaled_by_their_place():
    """Its rotary positions turn queries and leave their norm; what the attention function is given is longer."""
    tokenizer = families.tokenizer("llama")
    rope = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.5}
    config = AutoConfig.for_model(
        "ministral3", **families.COMMON, head_dim=8, num_key_value_heads=2, vocab_size=len(tokenizer),
        rope_parameters=rope | {"original_max_position_embeddings": 4},
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    loaded = opening.prepare(model, tokenizer, name="far", source=Source(kind="folder", name="far"))
    lengths = {}
    forward.run(loaded, [[30] * 6], hold=lambda call: lengths.update({call.layer: call.query_BHTD[0, 0].norm(dim=-1)}))
    first = int((lengths[0] > 1.01 * lengths[0][0]).nonzero()[0])
    answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=0, head=0), LIMITS)
    assert any(f"own place, from place {first} on" in said for said in answer.notices)


def test_a_clip_of_queries_keys_and_values_is_told():
    answer = instrument.head(families.opened("olmo"), HeadWeightsAsk(model="x", layer=0, head=0), LIMITS)
    assert any("before the clip of queries and keys" in said and "−1 and 1" in said for said in answer.notices)
    assert any("before the clip of values" in said for said in answer.notices)
    unclipped = instrument.head(SHARED["llama"], HeadWeightsAsk(model="x", layer=0, head=0), LIMITS)
    assert not any("clip" in said for said in unclipped.notices)


@pytest.mark.parametrize("circuit", ["vo", "qk"])
def test_a_summary_has_the_singular_values_and_eigenvalues_of_the_whole_matrix(circuit):
    answer = instrument.head(SHARED["llama"], HeadWeightsAsk(model="x", layer=0, head=2), LIMITS)
    summary = getattr(answer, circuit)
    q, k, v, o = (part.double() for part in parts("llama", 0, 2))
    before, after = norms("llama", 0)
    eye = torch.eye(32, dtype=torch.float64)
    whole = after(before(eye) @ v @ o) if circuit == "vo" else before(eye) @ q @ k.T @ before(eye).T * 8**-0.5
    torch.testing.assert_close(
        torch.tensor(summary.singular).double(), torch.linalg.svdvals(whole)[:8], rtol=1e-4, atol=1e-6
    )
    eigenvalues = torch.linalg.eigvals(dense("llama", circuit, 0, 2, "folded"))
    eigenvalues = eigenvalues[eigenvalues.abs().argsort(descending=True)[:8]]
    assert summary.copying == pytest.approx(float(eigenvalues.real.sum() / eigenvalues.abs().sum()), rel=1e-3)


@pytest.mark.parametrize("kind", ["qwen3", "olmo2", "gemma3_text"])
def test_a_head_with_normed_queries_and_keys_has_no_singular_values_but_raw(kind):
    """No map of the stream is its table: one that is would be doubled where the stream is doubled."""
    loaded = families.opened(kind)
    folded, raw = (
        instrument.head(loaded, HeadWeightsAsk(model="x", layer=0, head=0, reading=reading), LIMITS).qk
        for reading in ("folded", "raw")
    )
    assert (folded.singular, folded.norm) == ((), None)
    assert "norms its queries and keys" in folded.why
    attention = loaded.model.model.layers[0].self_attn
    whole = attention.q_proj.weight[:8].double().T @ attention.k_proj.weight[:8].double()
    torch.testing.assert_close(torch.tensor(raw.singular).double(), torch.linalg.svdvals(whole)[:8], rtol=1e-4, atol=0)
    assert raw.why == ""


def test_a_head_that_copies_has_a_copying_score_of_one():
    loaded = tiny.loaded("llama", tie_word_embeddings=True)
    attention = loaded.anatomy.attention[1]
    with torch.no_grad():
        attention.o_proj.weight[:, 8:16] = attention.v_proj.weight[:8].T
    answer = instrument.head(loaded, HeadWeightsAsk(model="x", layer=1, head=1, reading="raw"), LIMITS)
    assert answer.vo.copying == pytest.approx(1, abs=1e-5)


def test_the_twin_has_the_same_singular_values_and_other_words():
    loaded = SHARED["llama"]
    made = table(loaded, "vo", 1, 1, "folded")
    asked = PairsAsk(model="x", layer=1, head=1, twin=5)
    other = instrument._twin(made, asked)
    elsewhere = instrument._twin(made, asked.model_copy(update={"head": 0}))
    assert not torch.allclose(other.rows.map_KD, elsewhere.rows.map_KD), "every head has a draw of its own"
    one, two = (torch.linalg.svdvals(t.rows.map_KD.double().T @ t.columns.map_KD.double())[:8] for t in (made, other))
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    own, twin, again, next_ = (
        instrument.pairs(loaded, PairsAsk(model="x", layer=1, head=1, twin=seed), LIMITS) for seed in (None, 5, 5, 6)
    )
    assert twin.pairs == again.pairs
    assert len({own.pairs, twin.pairs, next_.pairs}) == 3
    assert "random twin" in twin.about


def test_the_share_of_two_readings_is_that_of_their_tables():
    loaded = SHARED["gpt2"]
    ask = PairsAsk(model="x", layer=0, head=0, top=100, compare=True)
    answer = instrument.pairs(loaded, ask, LIMITS)
    other = instrument.pairs(loaded, ask.model_copy(update={"reading": "raw"}), LIMITS)
    listed = [{(pair.row, pair.column) for pair in one.pairs} for one in (answer, other)]
    assert answer.shared == other.shared == len(listed[0] & listed[1])
    wordless = instrument.pairs(
        SHARED["bert"], PairsAsk(model="x", layer=0, head=0, reading="raw", compare=True), LIMITS
    )
    assert wordless.shared is None
    assert "final norm" in wordless.other_reading


@pytest.mark.parametrize("line", ["row", "column"])
@pytest.mark.parametrize("circuit", ["vo", "qk"])
def test_a_line_is_a_row_or_column_of_the_table(circuit, line):
    answer = instrument.line(
        SHARED["llama"], LineAsk(model="x", layer=1, head=2, circuit=circuit, line=line, word="the", top=5), LIMITS
    )
    scores = dense("llama", circuit, 1, 2, "folded")
    scores = scores if line == "row" else scores.T
    assert len(answer.lines) >= 1
    for found in answer.lines:
        assert answer.words[str(found.token)].strip() == "the"
        assert found.ends.highest == tuple(scores[found.token].argsort(descending=True)[:5].tolist())
        assert found.ends.lowest == tuple(scores[found.token].argsort()[:5].tolist())
        assert found.mean == pytest.approx(float(scores[found.token].mean()), rel=1e-3, abs=1e-5)
        assert found.deviation == pytest.approx(float(scores[found.token].std(correction=0)), rel=1e-3)


@pytest.mark.parametrize("part", ["v", "o", "q", "k"])
def test_subheads_are_the_vectors_of_the_matrices(part):
    loaded = SHARED["gpt2"]
    answer = weight_vectors.subheads(loaded, SubheadsAsk(model="x", layer=1, head=3, part=part, first=2, top=4), LIMITS)
    q, k, v, o = (matrix.double() for matrix in parts("gpt2", 1, 3))
    before, after = norms("gpt2", 1)
    E = loaded.model.transformer.wte.weight.double()
    scores = after(o) @ E.T if part == "o" else (before(E) @ {"v": v, "q": q, "k": k}[part]).T
    assert answer.of == 8
    assert [one.index for one in answer.subheads] == list(range(2, 8))
    for one in answer.subheads:
        assert one.ends.highest == tuple(scores[one.index].argsort(descending=True)[:4].tolist())
        assert one.ends.lowest_logit[0] == pytest.approx(float(scores[one.index].min()), rel=1e-4)


def test_a_coordinate_of_a_query_is_without_the_factor_that_the_model_gives_its_queries():
    """OPT scales its queries by 1/√8 behind the matrix; the coordinate is the matrix's column."""
    loaded = families.opened("opt")
    answer = weight_vectors.subheads(loaded, SubheadsAsk(model="x", layer=1, head=2, part="q", top=4), LIMITS)
    layer = loaded.model.model.decoder.layers[1]
    x, norm = loaded.anatomy.embedding.weight.double(), layer.self_attn_layer_norm
    columns_DK = layer.self_attn.q_proj.weight[16:24].double().T
    scores = norm.weight.double() * (x - x.mean(-1, keepdim=True)) @ columns_DK
    gained = norm.weight.double()[:, None] * columns_DK
    for one in answer.subheads:
        assert one.ends.highest_logit[0] == pytest.approx(float(scores[:, one.index].max()), rel=1e-4)
        assert one.norm == pytest.approx(float((gained - gained.mean(0)).norm(dim=0)[one.index]), rel=1e-4)


@pytest.mark.parametrize("reading", ["folded", "raw"])
@pytest.mark.parametrize("end", ["promoted", "suppressed", "absolute"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_overlaps_are_those_of_sets_of_words(kind, end, reading):
    loaded, k = SHARED[kind], 30
    ask = OverlapsAsk(model="x", layer=2, reading=reading, end=end, k=k, least=0, limit=500)
    answer = weight_vectors.overlaps(loaded, ask, LIMITS)
    E_in = loaded.model.get_input_embeddings().weight.double()
    E_out = loaded.model.get_output_embeddings().weight.double()
    if kind == "llama":
        layer = loaded.model.model.layers[2]
        keys, values, norm = layer.mlp.gate_proj.weight, layer.mlp.down_proj.weight.T, layer.post_attention_layernorm
    else:
        layer = loaded.model.transformer.h[2]
        keys, values, norm = layer.mlp.c_fc.weight.T, layer.mlp.c_proj.weight, layer.ln_2
    x, written = E_in, values.double()
    if reading == "folded":
        x = (x - x.mean(-1, keepdim=True) if kind == "gpt2" else x) * norm.weight.double()
        written = norms(kind, 2)[1](written)
    scores = [keys.double() @ x.T, written @ E_out.T]
    scores = [one.abs() if end == "absolute" else -one if end == "suppressed" else one for one in scores]
    sets = [[set(row.argsort(descending=True)[:k].tolist()) for row in one] for one in scores]
    expected = [len(one & other) / len(one | other) for one, other in zip(*sets, strict=True)]
    found = {one.unit.unit: one for one in answer.overlaps}
    assert answer.units == len(found) == len(expected)
    for unit, one in found.items():
        assert one.jaccard == pytest.approx(expected[unit], abs=1e-6)
        assert set(one.shared) <= sets[0][unit] & sets[1][unit]
    assert [one.jaccard for one in answer.overlaps] == pytest.approx(sorted(expected, reverse=True), abs=1e-6)


@pytest.mark.parametrize("kind", families.OPENED)
def test_every_family_is_read_or_says_why_not(kind):
    loaded = families.opened(kind)
    can, layer = loaded.card.can["weights"], max(loaded.anatomy.attention)
    offered = 0
    for circuit in ("vo", "qk"):
        for reading in ("folded", "raw"):
            ask = PairsAsk(model="x", layer=layer, head=1, circuit=circuit, reading=reading, top=3)
            try:
                answer = instrument.pairs(loaded, ask, LIMITS)
            except errors.CannotShow:
                continue
            offered += 1
            made = table(loaded, circuit, layer, 1, reading)
            scores = (made.rows.vectors().double() @ made.columns.vectors().double().T)[
                allowed(loaded, Filters()).rows
            ][:, allowed(loaded, Filters()).columns]
            assert answer.pairs[0].score == pytest.approx(float(scores.max()), rel=1e-4)
    assert can.can == bool(offered)
    assert can.can or "another map stands between" in can.why or kind in {"deepseek_v3", "deepseek_v32", "qwen3_next"}


def test_what_cannot_be_asked_is_refused_in_words():
    loaded = SHARED["llama"]
    for changes, said in (
        ({"head": 4}, "4 heads"), ({"layer": 3}, "3 layers"), ({"distance": 500, "circuit": "qk"}, "128 tokens"),
        ({"distance": 1}, "does not depend"), ({"filters": Filters(words=("zzzzq",))}, "zzzzq"),
        ({"circuit": "qk", "distance": 3, "twin": 1}, "no single matrix"),
    ):  # fmt: skip
        ask = PairsAsk(model="x", layer=0, head=0).model_copy(update=changes)
        with pytest.raises(errors.CannotShow, match=said):
            instrument.pairs(loaded, ask, LIMITS)
    with pytest.raises(errors.CannotShow) as caught:
        instrument.pairs(SHARED["bert"], PairsAsk(model="x", layer=0, head=0), LIMITS)
    assert "raw" in caught.value.instead
    with pytest.raises(errors.BadQuestion):
        instrument.line(loaded, LineAsk(model="x", layer=0, head=0), LIMITS)


def dense_pseudo(kind, circuit, layer, head, reading):
    """As `dense`, each token that is read standing for its row of numpy's own pseudo-inverse of the input embedding."""
    model = SHARED[kind].model
    E_in, E_out = (m.weight.double() for m in (model.get_input_embeddings(), model.get_output_embeddings()))
    P = torch.from_numpy(np.linalg.pinv(E_in.numpy())).T
    q, k, v, o = (part.double() for part in parts(kind, layer, head))
    before, after = norms(kind, layer) if reading == "folded" else (lambda x: x, lambda x: x)
    if circuit == "qk":
        return before(P) @ q @ k.T @ before(P).T * (8**-0.5 if reading == "folded" else 1)
    return after(before(P) @ v @ o) @ E_out.T


@pytest.mark.parametrize(("kind", "circuit", "reading"), ASKS)
def test_with_the_pseudo_inverse_tokens_are_its_rows(kind, circuit, reading):
    loaded, scores = SHARED[kind], dense_pseudo(kind, circuit, 1, 2, reading)
    ask = PairsAsk(model="x", layer=1, head=2, circuit=circuit, reading=reading, inverse="pseudo", top=9)
    answer = instrument.pairs(loaded, ask, LIMITS)
    kept = allowed(loaded, Filters())
    best = scores[kept.rows][:, kept.columns].flatten().topk(9).values
    torch.testing.assert_close(torch.tensor([one.score for one in answer.pairs]).double(), best, rtol=1e-3, atol=1e-7)
    assert "pseudo-inverse" in answer.about
    line = LineAsk(model="x", layer=1, head=2, circuit=circuit, reading=reading, inverse="pseudo", token=30, top=3)
    found = instrument.line(loaded, line, LIMITS).lines[0]
    torch.testing.assert_close(
        torch.tensor(found.ends.highest_logit).double(), scores[30].topk(3).values, rtol=1e-3, atol=1e-7
    )


def test_products_over_all_tokens_are_those_of_the_stream_with_the_pseudo_inverse_alone():
    """⟨x, y⟩ = (E x) · (E⁺ᵀ y) for k = V: what a head writes and another reads, over tokens or in the stream."""
    loaded = tiny.loaded("llama", tie_word_embeddings=True)
    E = loaded.anatomy.embedding.weight.double()
    written = table(loaded, "vo", 0, 1, "raw").columns.vectors().double()
    for inverse, exact in (("pseudo", True), ("transpose", False)):
        read = table(loaded, "vo", 1, 2, "raw", inverse).rows
        over_tokens = written.T @ read.vectors().double()
        stream = torch.linalg.lstsq(E, written).solution.T @ read.map_KD.double().T
        assert torch.allclose(over_tokens, stream, rtol=1e-3, atol=1e-6) is exact


def test_an_embedding_that_leaves_directions_out_has_the_pseudo_inverse_of_numpy():
    dice = torch.Generator().manual_seed(2)
    E = torch.randn(200, 6, generator=dice) @ torch.randn(6, 16, generator=dice)
    found = E.double() @ dual(gram(E))
    expected = torch.from_numpy(np.linalg.pinv(E.double().numpy(), rcond=1e-6)).T
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-8)
    assert torch.linalg.matrix_rank(dual(gram(E)), hermitian=True) == 6


@pytest.mark.parametrize("kind", ["qwen3", "olmo2"])
def test_normed_queries_are_normed_as_the_pseudo_inverse_makes_them(kind):
    """A norm takes lengths away, so it acts on the vectors that are shown: by head in Qwen 3, over all in OLMo 2."""
    loaded = families.opened(kind)
    attention, block = loaded.anatomy.attention[0], loaded.anatomy.blocks[0]
    E = loaded.anatomy.embedding.weight.double()
    P = torch.from_numpy(np.linalg.pinv(E.numpy())).T
    x = P * block.input_layernorm.weight.double() if kind == "qwen3" else P
    q = x @ attention.q_proj.weight.double().T
    wide = q.unflatten(1, (4, 8)) if kind == "qwen3" else q
    wide = wide / wide.square().mean(-1, keepdim=True).sqrt() * attention.q_norm.weight.double()
    expected = wide[:, 1] if kind == "qwen3" else wide[:, 8:16]
    made = table(loaded, "qk", 0, 1, "folded", "pseudo")
    torch.testing.assert_close(made.rows.vectors().double(), expected * 8**-0.5, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("part", ["v", "q", "k"])
def test_subheads_and_keys_are_read_with_the_pseudo_inverse_too(part):
    loaded = SHARED["gpt2"]
    E = loaded.model.transformer.wte.weight.double()
    P = torch.from_numpy(np.linalg.pinv(E.numpy())).T
    ask = SubheadsAsk(model="x", layer=1, head=3, part=part, reading="raw", inverse="pseudo", top=2)
    answer = weight_vectors.subheads(loaded, ask, LIMITS)
    matrix = parts("gpt2", 1, 3)["qkv".index(part)].double()
    for one in answer.subheads:
        assert one.ends.highest_logit[0] == pytest.approx(float((P @ matrix)[:, one.index].max()), rel=1e-3)
        assert one.norm == pytest.approx(float(matrix[:, one.index].norm()), rel=1e-4)
    ask = OverlapsAsk(model="x", layer=1, reading="raw", inverse="pseudo", k=30, least=0, limit=500)
    overlaps = weight_vectors.overlaps(loaded, ask, LIMITS)
    mlp = loaded.model.transformer.h[1].mlp
    keys, values = P @ mlp.c_fc.weight.double(), mlp.c_proj.weight.double() @ E.T
    for one in overlaps.overlaps[:20]:
        sets = [set(row.abs().topk(30).indices.tolist()) for row in (keys[:, one.unit.unit], values[one.unit.unit])]
        assert one.jaccard == pytest.approx(len(sets[0] & sets[1]) / len(sets[0] | sets[1]), abs=1e-6)


def test_a_model_without_a_read_out_is_read_with_its_input_embedding_and_says_so():
    loaded = tiny.without_read_out()
    assert loaded.card.can["weights"].can
    answer = instrument.pairs(loaded, PairsAsk(model="x", layer=0, head=0, reading="raw"), LIMITS)
    assert any("input embedding" in notice for notice in answer.notices)
    with pytest.raises(errors.CannotShow, match="no read-out"):
        instrument.pairs(loaded, PairsAsk(model="x", layer=0, head=0), LIMITS)
    assert instrument.pairs(loaded, PairsAsk(model="x", layer=0, head=0, circuit="qk"), LIMITS).pairs
