"""What is promised about a model was checked; a promise that is broken switches its instruments off and says why."""

import pytest
import torch

from backend.models import promises
from tests import tiny

KEPT = {
    "every layer calls for attention", "rows sum to one", "maps equal eager's", "asking for maps changes nothing",
    "an empty plan changes nothing", "a row beside edited rows equals itself alone", "head.scale has an effect",
    "head.set has an effect",
}  # fmt: skip


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_sound_model_keeps_every_promise_and_offers_every_instrument(kind):
    loaded = tiny.loaded(kind)
    found = {promise.name: promise.kept for promise in loaded.card.promises}
    assert all(found[name] is True for name in KEPT)
    assert False not in found.values()
    assert {name for name, ability in loaded.card.can.items() if ability.can} == {
        "tokens", "attention", "heads", "values", "patch", "weights",
        *(["trace", "write", "contributions", "cell", "effects", "steer"] if loaded.anatomy.shape.causal else []),
    }  # fmt: skip
    assert all(promise.detail for promise in loaded.card.promises)


def test_what_does_not_apply_is_neither_kept_nor_broken():
    found = {promise.name: promise.kept for promise in tiny.loaded("bert").card.promises}
    assert found["nothing above the diagonal"] is None
    assert tiny.loaded("bert").card.can["cell"].why == "this model predicts no next token"
    assert found["last lens row equals the logits"] is None
    assert {promise.name: promise.kept for promise in tiny.loaded("gpt2").card.promises}[
        "tied weights are tied"
    ] is True


def test_a_kernel_that_shows_other_maps_is_found_out(monkeypatch):
    loaded = tiny.loaded("llama")
    from backend.models import kernel

    eager = kernel.eager_of(loaded.anatomy.attention[0])

    def wrong(module, *tensors, **options):
        merged, maps = eager(module, *tensors, **options)
        return merged, maps.roll(1, -1)

    monkeypatch.setattr(kernel, "eager_of", lambda module: wrong)
    checked = promises.check(loaded)
    broken = {promise.name for promise in checked.promises if promise.kept is False}
    assert {"maps equal eager's", "nothing above the diagonal"} <= broken
    for instrument in ("attention", "heads"):
        assert not checked.can[instrument].can
        assert "maps equal eager's" in checked.can[instrument].why
    assert checked.can["tokens"].can


def test_an_edit_without_effect_is_said(monkeypatch):
    loaded = tiny.loaded("llama")
    for module in loaded.anatomy.projections.values():
        module._forward_pre_hooks.clear()
    found = {promise.name: promise for promise in promises.check(loaded).promises}
    assert found["head.scale has an effect"].kept is False
    assert found["head.set has an effect"].kept is False


def test_checking_leaves_the_model_as_it_was():
    loaded = tiny.loaded("gpt2")
    ours = loaded.model.config._attn_implementation
    hooks = sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in loaded.model.modules())
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    promises.check(loaded)
    assert loaded.model.config._attn_implementation == ours
    assert hooks == sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in loaded.model.modules())
    assert all(torch.equal(before[name], tensor) for name, tensor in loaded.model.state_dict().items())


def test_the_noise_of_a_difference_is_measured():
    assert 0 <= tiny.loaded("llama").noise < 1e-5


def test_a_model_whose_code_runs_no_single_token_opens_without_contributions(monkeypatch):
    def fail(*args, **options):
        raise ValueError("needs two tokens")

    monkeypatch.setattr("backend.models.forward.replay", fail)
    can = tiny.loaded("llama").card.can
    assert can["trace"].can
    assert not can["contributions"].can
    assert "needs two tokens" in can["contributions"].why
    assert not can["cell"].can
