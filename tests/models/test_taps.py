"""Edits act where they say and nowhere else, rows do not see each other, and nothing is ever left behind."""

import threading
from functools import cache

import pytest
import torch
from torch import Tensor

from backend import errors
from backend.models import forward, taps
from backend.models.loaded import Loaded
from backend.models.plan import Row, fold, identity
from backend.schema import Edit, HeadScale, HeadSet
from tests import families, tiny

KINDS = (*tiny.KINDS, "mistral", "gemma2", "gpt_oss", "gpt_neox", "roberta")
TOKENS = 10


@cache
def opened(kind: str) -> Loaded:
    return fresh(kind)


def fresh(kind: str) -> Loaded:
    """For tests that change the model."""
    return tiny.loaded(kind) if kind in tiny.KINDS else families.loaded(kind)


def some_ids(loaded: Loaded) -> list[int]:
    dice = torch.Generator().manual_seed(5)
    return torch.randint(5, loaded.anatomy.shape.vocabulary, (TOKENS,), generator=dice).tolist()


def states(loaded: Loaded, rows: list[tuple[Edit, ...]], **options) -> Tensor:
    plan = fold(loaded.anatomy, [Row(edits, TOKENS - 3) for edits in rows], TOKENS)
    return forward.run(loaded, [some_ids(loaded)] * len(rows), plan, **options)


def hooks(model: torch.nn.Module) -> int:
    return sum(
        len(part._forward_hooks) + len(part._forward_pre_hooks) + len(part._backward_hooks)
        + len(part._backward_pre_hooks)
        for part in model.modules()
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_plan_is_bit_identical_to_the_model_without_taps(kind):
    loaded = fresh(kind)
    ids = torch.tensor([some_ids(loaded)])
    planned = forward.run(loaded, ids, identity(loaded.anatomy, 1, TOKENS), logits=True)
    silent = forward.run(loaded, ids, logits=True)
    for module in loaded.model.modules():
        module._forward_pre_hooks.clear()
        module._forward_hooks.clear()
    with torch.inference_mode():
        bare = loaded.model(input_ids=ids, use_cache=False).logits
    assert torch.equal(planned, bare)
    assert torch.equal(silent, bare)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_head_contributes_exactly_what_zeroed_weights_would(kind):
    loaded = fresh(kind)
    layer, head, width = 1, 2, loaded.anatomy.shape.head_width
    edited = states(loaded, [(HeadScale(layer=layer, head=head, by=0),)])
    loaded.anatomy.output_matrix(layer)[head * width : (head + 1) * width] = 0  # a view of the weights
    expected = states(loaded, [()])
    torch.testing.assert_close(edited, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_named_head_of_the_named_tokens_changes(kind):
    loaded = opened(kind)
    seen: dict[str, Tensor] = {}
    handle = loaded.anatomy.projections[1].register_forward_pre_hook(
        lambda module, args: seen.__setitem__("merged", args[0].clone())
    )
    states(loaded, [()])
    plain = seen["merged"].unflatten(-1, (loaded.anatomy.shape.heads, -1))[0]
    states(loaded, [(HeadScale(layer=1, head=2, by=-0.5, at=(4,)), HeadSet(layer=1, head=0, to=3, at="generated"))])
    edited = seen["merged"].unflatten(-1, (loaded.anatomy.shape.heads, -1))[0]
    handle.remove()
    expected = plain.clone()
    expected[4, 2] *= -0.5
    expected[TOKENS - 3 :, 0] = 3
    assert torch.equal(edited, expected)


def test_edits_act_in_the_order_listed():
    loaded = opened("llama")
    halve, fix = HeadScale(layer=0, head=1, by=0.5), HeadSet(layer=0, head=1, to=2)
    one, two = states(loaded, [(halve, fix)]), states(loaded, [(fix, halve)])
    torch.testing.assert_close(one, states(loaded, [(HeadSet(layer=0, head=1, to=2),)]))
    torch.testing.assert_close(two, states(loaded, [(HeadSet(layer=0, head=1, to=1),)]))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_different_edits_equal_solo_runs(kind):
    loaded = opened(kind)
    rows: list[tuple[Edit, ...]] = [
        (),
        (HeadScale(layer=0, head=1, by=0),),
        (HeadSet(layer=1, head=3, to=0.7, at="prompt"), HeadScale(layer=0, head=1, by=2)),
        (HeadScale(layer=0, head=1, by=0, at=(2, 5)),),
    ]
    together = states(loaded, rows)
    for place, row in enumerate(rows):
        torch.testing.assert_close(together[place : place + 1], states(loaded, [row]), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=1e-3)


def test_every_kind_of_edit_has_an_effect_at_every_layer():
    for kind in tiny.KINDS:
        loaded = opened(kind)
        plain = states(loaded, [()])
        for layer in range(3):
            for edit in (HeadScale(layer=layer, head=0, by=0), HeadSet(layer=layer, head=0, to=1)):
                assert float((states(loaded, [(edit,)]) - plain).abs().max()) > 1e-3


def test_after_two_hundred_runs_with_errors_and_cancels_nothing_is_left():
    loaded = opened("llama")
    before, found = states(loaded, [()]), hooks(loaded.model)
    weights = {name: parameter.clone() for name, parameter in loaded.model.named_parameters()}

    def fail(call, maps):
        raise ValueError("a fault in a reader")

    def stop(layers: list[int]):
        def cancel():
            layers.append(1)
            if len(layers) > 1:
                raise errors.Cancelled("stopped", "asked to", "ask again")

        return cancel

    for turn in range(200):
        edit = (HeadScale(layer=turn % 3, head=turn % 4, by=0),)
        if turn % 3 == 0:
            with pytest.raises(ValueError, match="fault"):
                states(loaded, [edit], see=fail)
        elif turn % 3 == 1:
            with pytest.raises(errors.Cancelled):
                states(loaded, [edit], cancel=stop([]))
        else:
            states(loaded, [edit])
        assert taps.current() is None
    assert torch.equal(states(loaded, [()]), before)
    assert hooks(loaded.model) == found
    assert all(torch.equal(weights[name], parameter) for name, parameter in loaded.model.named_parameters())


def test_cancel_is_asked_once_a_layer_before_the_layer_is_computed():
    loaded, asked, layers = opened("gpt2"), [], []
    states(loaded, [()], cancel=lambda: asked.append(len(layers)), hold=lambda call: layers.append(call.layer))
    assert asked == [0, 1, 2]


def test_runs_do_not_nest():
    run = taps.Run(layer_of={})
    with taps.running(run), pytest.raises(RuntimeError, match="nest"), taps.running(run):
        pass
    assert taps.current() is None


def test_two_models_at_once_in_two_threads_do_not_see_each_other():
    one, other = opened("llama"), opened("gpt2")
    alone = {name: states(loaded, [edits]) for name, loaded, edits in _two(one, other)}
    wrong: list[str] = []

    def work(name: str, loaded: Loaded, edits: tuple[Edit, ...]) -> None:
        for _ in range(50):
            if not torch.equal(states(loaded, [edits]), alone[name]):
                wrong.append(name)

    threads = [threading.Thread(target=work, args=each) for each in _two(one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _two(one: Loaded, other: Loaded) -> list[tuple[str, Loaded, tuple[Edit, ...]]]:
    return [
        ("one", one, (HeadScale(layer=0, head=1, by=0),)),
        ("other", other, (HeadSet(layer=1, head=1, to=2),)),
    ]


def test_a_plain_forward_of_the_model_is_untouched_while_no_run_is_on():
    loaded = opened("llama")
    ids = torch.tensor([some_ids(loaded)])
    plain = tiny.model_of("llama", loaded.anatomy.shape.vocabulary)
    plain.set_attn_implementation("eager")
    with torch.inference_mode():
        assert torch.equal(loaded.model(input_ids=ids).logits, plain(input_ids=ids).logits)
