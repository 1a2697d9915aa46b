"""Which outputs of which maps make a head's queries, keys and values: against what the attention function is given."""

import pytest
import torch

from backend.models import forward
from backend.models.points import of_call
from tests import families

NO_QUERIES = {"mobilebert", "qwen3_next", "deepseek_v3", "deepseek_v32"}


def made(found, taken):
    """By the written definition: the map's rows, the bias, then the norm."""
    weight = torch.stack([found.weight(head) for head in range(len(found.index_HK))])
    bias = getattr(found.module, "bias", None)
    vectors = torch.einsum("bd,hdk->bhk", taken.float(), weight)
    if bias is not None:
        vectors = vectors + bias[found.index_HK.flatten()].view(found.index_HK.shape)
    if found.norm:
        axes = (-1,) if found.norm == "head" else (-2, -1)
        unit = vectors / vectors.square().mean(axes, keepdim=True).sqrt()
        return unit * found.gain_HK
    return vectors * found.scale_K


@pytest.mark.parametrize("kind", families.OPENED)
def test_the_rows_that_were_found_make_what_the_attention_function_is_given(kind):
    loaded = families.opened(kind)
    seen, taken, known = {}, {}, loaded.projections.of
    modules = {found.module for found in known.values()}
    handles = [m.register_forward_hook(lambda m, args, out: (taken.setdefault(m, args[0]), None)[1]) for m in modules]

    def hold(call):
        for name in ("query", "key", "value") if call.made_BHTS is None else ("value",):
            seen[call.layer, name] = of_call(call, name)[:, 0].float()
        if call.product is not None:
            seen[call.layer, "query"] = call.product.query_BHTK[:, :, 0].float()
            seen[call.layer, "key"] = call.product.key_BGSK[:, :, 0].float()

    ids = torch.arange(20, 25)[:, None]  # texts of one token: no place turns anything
    forward.run(loaded, ids, hold=hold, products=True)
    for handle in handles:
        handle.remove()
    for (layer, name), found in known.items():
        clipped = getattr(loaded.model.config, "clip_qkv", None)
        assert found.clip == (None if clipped is None else pytest.approx(clipped)), (layer, name)
        vectors = made(found, taken[found.module].reshape(5, -1))
        vectors = vectors if clipped is None else vectors.clamp(-clipped, clipped)
        torch.testing.assert_close(vectors, seen[layer, name], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("kind", families.OPENED)
def test_what_is_not_found_says_why(kind):
    loaded = families.opened(kind)
    missing = {name for layer, name in loaded.projections.why}
    expected = {"query", "key"} if kind == "deberta-v2" else set()
    if kind in NO_QUERIES:
        expected = {"mobilebert": {"query", "key"}, "qwen3_next": {"query"}}.get(kind, {"query", "key", "value"})
    assert missing == expected
    assert all(loaded.projections.why.values())


def test_a_key_value_head_has_its_own_rows_and_a_fused_map_is_taken_apart():
    grouped, fused = families.opened("llama"), families.opened("gpt2")
    attention = grouped.anatomy.attention[1]
    found = grouped.projections.of[1, "key"]
    torch.testing.assert_close(found.weight(1), attention.k_proj.weight[8:16].T)
    weight = fused.anatomy.attention[1].c_attn.weight
    for place, name in enumerate(("query", "key", "value")):
        begin = 32 * place + 24
        torch.testing.assert_close(fused.projections.of[1, name].weight(3), weight[:, begin : begin + 8])
