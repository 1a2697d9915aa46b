"""Maps are the model's own: equal to eager, zero above the diagonal, and looking at them changes nothing."""

import copy
import json
from functools import cache

import pytest
import torch
from torch import Tensor

from backend.models import forward, kernel
from backend.models.loaded import Loaded
from tests import families, tiny

FAMILIES = (*tiny.KINDS, "mistral", "gemma2", "qwen3", "gpt_oss", "mixtral", "gpt_neox", "opt", "roberta", "lfm2")
TOKENS = 14
"""More than the windows of the windowed families."""


@cache
def opened(kind: str) -> Loaded:
    return fresh(kind)


def fresh(kind: str) -> Loaded:
    """For tests that change the model."""
    return tiny.loaded(kind) if kind in tiny.KINDS else families.loaded(kind)


def untouched(kind: str) -> torch.nn.Module:
    """The same weights in a model that LMScope has never seen, with transformers' own eager attention."""
    vocabulary = len(tiny.tokenizer_of("bert" if kind in ("bert", "roberta") else "llama" if kind != "gpt2" else kind))
    model = tiny.model_of(kind, vocabulary) if kind in tiny.KINDS else families.model(kind, vocabulary)
    model.set_attn_implementation("eager")
    return model


def some_ids(loaded: Loaded, rows: int = 1) -> Tensor:
    dice = torch.Generator().manual_seed(3)
    return torch.randint(5, loaded.anatomy.shape.vocabulary, (rows, TOKENS), generator=dice)


def maps_of(loaded: Loaded, ids: Tensor) -> dict[int, Tensor]:
    maps = {}
    forward.run(loaded, ids, see=lambda call, maps_BHTS: maps.__setitem__(call.layer, maps_BHTS.clone()))
    return maps


@pytest.mark.parametrize("kind", FAMILIES)
def test_maps_and_logits_equal_the_eager_model(kind):
    loaded, plain = opened(kind), untouched(kind)
    ids = some_ids(loaded, rows=2)
    with torch.no_grad():
        expected = plain(input_ids=ids, output_attentions=True)
    theirs = [maps for maps in expected.attentions if maps is not None]
    ours = maps_of(loaded, ids)
    assert len(ours) == len(theirs) == len(loaded.anatomy.attention)
    for layer, maps in zip(sorted(ours), theirs, strict=True):
        torch.testing.assert_close(ours[layer], maps, rtol=0, atol=1e-5)
    torch.testing.assert_close(forward.run(loaded, ids, logits=True), expected.logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_asking_for_maps_never_changes_the_logits(kind):
    loaded = opened(kind)
    ids = some_ids(loaded)
    plain = forward.run(loaded, ids, logits=True)
    asked = forward.run(loaded, ids, logits=True, see=lambda call, maps: None, hold=lambda call: None)
    assert torch.equal(plain, asked)


@pytest.mark.parametrize("kind", FAMILIES)
def test_no_weight_is_above_the_diagonal_and_rows_sum_to_one(kind):
    loaded = opened(kind)
    for maps in maps_of(loaded, some_ids(loaded)).values():
        if loaded.anatomy.shape.causal:
            assert float(maps.triu(1).abs().max()) == 0
        if not loaded.anatomy.sinks:
            torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_kept_inputs_give_the_same_maps_again_row_by_row(kind):
    loaded = opened(kind)
    ids, calls = some_ids(loaded), {}
    forward.run(loaded, ids, hold=lambda call: calls.__setitem__(call.layer, call))
    for layer, maps in maps_of(loaded, ids).items():
        with torch.inference_mode():
            again = torch.cat([calls[layer].maps(start, min(start + 5, TOKENS)) for start in range(0, TOKENS, 5)], 2)
        torch.testing.assert_close(again, maps, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["mistral", "gemma2", "gpt_oss"])
def test_a_window_is_what_the_mask_says(kind):
    loaded = opened(kind)
    seen = {}
    forward.run(loaded, some_ids(loaded), hold=lambda call: seen.__setitem__(call.layer, call.mask_BTS[0, 0].sum(-1)))
    assert loaded.anatomy.shape.window == families.WINDOW
    assert seen[0].tolist() == [min(row + 1, families.WINDOW) for row in range(TOKENS)]


def test_each_family_runs_its_own_eager_function():
    for kind in ("llama", "gpt2", "bert", "gemma2"):
        module = opened(kind).anatomy.attention[0]
        assert kernel.eager_of(module).__module__ == type(module).__module__


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert", "mistral", "qwen3", "gpt_neox", "opt"])
def test_the_fused_kernel_shows_the_maps_and_logits_of_eager(kind):
    loaded = fresh(kind)
    ids = some_ids(loaded, rows=2)
    expected, logits = maps_of(loaded, ids), forward.run(loaded, ids, logits=True)
    loaded.model.set_attn_implementation(kernel.FUSED)
    found = maps_of(loaded, ids)
    for layer, maps in expected.items():
        torch.testing.assert_close(found[layer], maps, rtol=0, atol=1e-5)
    fused = forward.run(loaded, ids, logits=True)
    torch.testing.assert_close(fused, logits, rtol=0, atol=1e-4)
    assert torch.equal(fused, forward.run(loaded, ids, logits=True, see=lambda call, maps: None))


def test_two_loaded_models_may_run_different_kernels_at_once():
    one, other = opened("llama"), fresh("llama")
    other.model.set_attn_implementation(kernel.FUSED)
    ids = some_ids(one)
    with torch.inference_mode():
        masks = {}
        for name, loaded in (("one", one), ("other", other)):
            forward.run(loaded, ids, hold=lambda call, name=name: masks.setdefault(name, call.mask_BTS))
    assert one.model.config._attn_implementation == kernel.EAGER
    assert other.model.config._attn_implementation == kernel.FUSED
    assert torch.equal(masks["one"], masks["other"])


def test_a_processor_runs_eager_and_a_family_without_sdpa_too():
    class Without:
        _supports_sdpa = False

    class With:
        _supports_sdpa = True

    assert kernel.choose(With, torch.device("cpu")) == kernel.EAGER
    assert kernel.choose(Without, torch.device("cuda")) == kernel.EAGER
    assert kernel.choose(With, torch.device("cuda")) == kernel.FUSED


def test_in_half_precision_maps_are_float32_and_rows_sum_to_one():
    loaded = fresh("llama")
    loaded.model.to(torch.bfloat16)
    ids = some_ids(loaded)
    for maps in maps_of(loaded, ids).values():
        assert maps.dtype == torch.float32
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]), rtol=0, atol=1e-6)
        assert float(maps.triu(1).abs().max()) == 0
    plain = forward.run(loaded, ids, logits=True)
    assert plain.dtype == torch.bfloat16
    assert torch.equal(plain, forward.run(loaded, ids, logits=True, see=lambda call, maps: None))


def test_a_kernel_answers_to_the_name_of_the_plain_one_whose_masks_it_has():
    """Families with sparse attention ask for it before they hide keys."""
    loaded = fresh("llama")
    name = loaded.model.config._attn_implementation
    assert name == "eager"
    assert name == kernel.EAGER
    assert name in ("eager", "sdpa")
    assert name != "sdpa"
    assert {kernel.EAGER: 1}[name] == 1, "it is found under its own name"
    assert kernel.Name(kernel.FUSED) == "sdpa"
    assert copy.deepcopy(loaded.model).config._attn_implementation == "eager"
    assert json.loads(json.dumps(name)) == kernel.EAGER


def test_without_us_a_model_runs_as_transformers_runs_it_and_then_ours_again():
    loaded = fresh("llama")
    ids = some_ids(loaded)
    with kernel.without(loaded.model):
        assert str(loaded.model.config._attn_implementation) == "eager"
        assert maps_of(loaded, ids) == {}
    assert str(loaded.model.config._attn_implementation) == kernel.EAGER
    assert len(maps_of(loaded, ids)) == 3
