"""One step's gradient is autograd's through the eager Hugging Face model with a plain LM-Steer module."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from backend import errors
from backend.measure.factors import EPSILON, Factors, training_bytes
from backend.models.likelihood import Reading, read_text, states_of
from backend.models.states import StatesTables, states_key
from backend.models.training import Training, block_size, padded
from backend.schema import MakeAsk
from tests import families

TEXTS = ("The cat sat on the mat.", "Off with her head! said the Queen.", "A dog barked.", "Zwölf Boxkämpfer, 東京")
LABELS = (1.0, -1.0, 0.5, -1.0)
KINDS = ("llama", "gpt2", "gptj", "gemma2", "granite", "cohere", "opt", "falcon")
"""Tied and untied, with a bias, with a soft-cap, with scaled logits, with attention that is watched."""


def ask(**changes) -> MakeAsk:
    told = {"model": "m", "name": "n", "plus": "+", "minus": "-", "examples": "0" * 64, "rank": 3, "batch": 4}
    return MakeAsk(**told | changes)


def training_of(loaded, root, asked: MakeAsk, train: int = 4, texts=TEXTS) -> tuple[Training, list[Reading]]:
    real = [read_text(loaded, text) for text in texts]
    readings = real if asked.padding == "masked" else padded(real, loaded.tokenizer.eos_token_id)
    draft = StatesTables(root).draft(states_key(loaded.conditions, readings), readings, 32, torch.float32)
    draft.add(range(len(real)), [len(text.ids) - 1 for text in real], states_of(loaded, readings))
    labels = LABELS[: len(texts)]
    return Training(asked, draft.finish(), labels, train, 32, torch.device("cpu")), real


def gradients_of(loaded, training: Training, size: int) -> tuple[list[Tensor], float]:
    places = training.batch()
    while places.left:
        training.pull(loaded, lambda: None, places=places, size=size)
    return [gradient.clone() for gradient in training._gradients], training._nll / len(places.places_P)


class PlainSteer(nn.Module):
    """LM-Steer as published, but for the bias, which is kept: logits of (c + ε a c P1 P2ᵀ)."""

    def __init__(self, model, parts: list[Tensor]) -> None:
        super().__init__()
        self.model = model
        self.parts = nn.ParameterList([nn.Parameter(part.detach().clone()) for part in parts])
        self.a_B11 = torch.zeros(1)
        model.get_output_embeddings().register_forward_pre_hook(self._steer)

    def _steer(self, module, args):
        (c_BTD,) = args
        moved = c_BTD @ self.parts[0]
        moved = moved @ self.parts[1] if len(self.parts) == 2 else moved
        return (c_BTD + EPSILON * self.a_B11 * moved,)

    def loss(self, ids_BT, labels_BT, steers, mask_BT=None) -> Tensor:
        self.a_B11 = torch.tensor(steers)[:, None, None]
        logits_BTV = self.model(input_ids=ids_BT, attention_mask=mask_BT).logits.float()
        return functional.cross_entropy(logits_BTV[:, :-1].flatten(0, 1), labels_BT[:, 1:].flatten(), ignore_index=-100)


def plainly(kind: str, parts: list[Tensor], real: list[Reading], counted: bool) -> tuple[list[Tensor], float]:
    """Texts padded into one batch of the model as transformers gives it; padding in the loss where it is counted."""
    model = families.model(kind)
    model.set_attn_implementation("eager")
    longest = max(len(text.ids) for text in real)
    end = families.tokenizer(kind).eos_token_id
    ids_BT = torch.tensor([text.ids + (end,) * (longest - len(text.ids)) for text in real])
    mask_BT = torch.tensor([[1] * len(text.ids) + [0] * (longest - len(text.ids)) for text in real])
    steered = PlainSteer(model.requires_grad_(False).eval(), parts)
    labels_BT = ids_BT if counted else ids_BT.masked_fill(mask_BT == 0, -100)
    loss = steered.loss(ids_BT, labels_BT, LABELS[: len(real)], None if counted else mask_BT)
    return list(torch.autograd.grad(loss, list(steered.parts))), float(loss.detach())


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_s_gradient_is_autograd_s_through_the_eager_model(kind, tmp_path):
    loaded = families.opened(kind)
    training, real = training_of(loaded, tmp_path, ask())
    found, loss = gradients_of(loaded, training, size=7)
    expected, expected_loss = plainly(kind, training.factors.parts, real, counted=False)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for gradient, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, theirs, rtol=2e-3, atol=1e-7 + 1e-4 * float(theirs.abs().max()))
        assert float(theirs.abs().max()) > 0


@pytest.mark.parametrize(("rank", "padding"), [(None, "masked"), (3, "as published"), (None, "as published")])
def test_a_full_matrix_and_counted_padding_have_autograd_s_gradient_too(rank, padding, tmp_path):
    loaded = families.opened("llama")
    training, real = training_of(loaded, tmp_path, ask(rank=rank, padding=padding))
    found, loss = gradients_of(loaded, training, size=5)
    expected, expected_loss = plainly("llama", training.factors.parts, real, counted=padding == "as published")
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    for gradient, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, theirs, rtol=2e-3, atol=1e-4 * float(theirs.abs().max()))


def test_blocks_of_any_size_give_one_gradient_and_the_model_is_left_as_it_was(tmp_path):
    loaded = families.opened("llama")
    before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
    hooks = [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in loaded.model.modules()]
    whole, _ = gradients_of(loaded, training_of(loaded, tmp_path, ask())[0], size=10_000)
    single, _ = gradients_of(loaded, training_of(loaded, tmp_path, ask())[0], size=1)
    for one, other in zip(whole, single, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-9)
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in loaded.model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in loaded.model.state_dict().items())
    assert hooks == [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in loaded.model.modules()]


def test_adam_on_the_factors_with_decay_is_torch_s_own_on_the_whole_loss(tmp_path):
    torch.manual_seed(0)
    found = Factors(8, 2, rate=0.05, seed=3, device=torch.device("cpu"))
    parts = [part.detach().clone().requires_grad_() for part in found.parts]
    adam, c_8, y_8 = torch.optim.Adam(parts, lr=0.05), torch.randn(8), torch.randn(8)
    for _ in range(5):
        loss = ((EPSILON * (c_8 @ parts[0]) @ parts[1] * 100 - y_8) ** 2).sum()
        adam.zero_grad()
        (loss + 0.1 * sum((part**2).sum() for part in parts)).backward()
        adam.step()
        left_DK, right_KD = found.matrices()
        ours = (((c_8 @ left_DK) @ right_KD * 100 - y_8) ** 2).sum()
        found.descend(torch.autograd.grad(ours, found.parts), decay=0.1)
    for ours, theirs in zip(found.parts, parts, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


def test_factors_begin_as_published_and_a_full_matrix_at_nothing():
    drawn = Factors(200, 50, rate=1e-2, seed=0, device=torch.device("cpu"))
    assert [tuple(part.shape) for part in drawn.parts] == [(200, 50), (50, 200)]
    assert all(float(part.detach().std()) == pytest.approx(1e-2, rel=0.05) for part in drawn.parts)
    assert torch.equal(drawn.numbers()["left"], drawn.parts[0].detach() * 1e-3)
    full = Factors(8, None, rate=1e-2, seed=0, device=torch.device("cpu"))
    assert torch.equal(full.numbers()["left"] @ full.numbers()["right"], torch.zeros(8, 8))
    assert (training_bytes(8, None), training_bytes(8, 4)) == (7 * 4 * 64, 6 * 4 * 64)


def test_texts_come_once_each_before_any_comes_again(tmp_path):
    loaded = families.opened("llama")
    training, real = training_of(loaded, tmp_path, ask(batch=2), train=3)
    lengths = [len(text.ids) - 1 for text in real]
    seen = [len(training.batch().places_P) for _ in range(3)]
    assert sum(seen) == 2 * sum(lengths[:3])
    assert len(training.held_out().places_P) == lengths[3]
    assert training.held_out().labels_P.unique().tolist() == [LABELS[3]]


def test_states_are_kept_whole_and_found_again_and_too_many_are_refused_with_both_numbers(tmp_path, monkeypatch):
    loaded = families.opened("llama")
    real = [read_text(loaded, text) for text in TEXTS]
    key, tables = states_key(loaded.conditions, real), StatesTables(tmp_path)
    assert tables.find(key) is None
    draft = tables.draft(key, real, 32, torch.float32)
    draft.drop()
    assert tables.find(key) is None
    assert list((tmp_path / "tables").iterdir()) == []
    training_of(loaded, tmp_path, ask())
    table = tables.find(key)
    assert table is not None
    states = states_of(loaded, real[1:2]).states_PD
    torch.testing.assert_close(table.states_PD[table.places(1)], states, rtol=1e-5, atol=1e-6)
    assert table.targets_P[table.places(1)].tolist() == list(real[1].ids[1:])
    monkeypatch.setattr("backend.models.states.STATES_MOST", 1000)
    with pytest.raises(errors.TooLarge) as refused:
        tables.draft("0" * 64, real, 32, torch.float32)
    assert refused.value.needed == sum(len(text.ids) - 1 for text in real) * 32 * 4
    assert refused.value.available == 1000


def test_the_oldest_states_make_room(tmp_path, monkeypatch):
    loaded = families.opened("llama")
    monkeypatch.setattr("backend.models.states.STATES_MOST", 9_000)
    for texts in (TEXTS, TEXTS[:3], TEXTS[1:]):
        training_of(loaded, tmp_path, ask(), texts=texts, train=2)
    kept = [states_key(loaded.conditions, [read_text(loaded, text) for text in texts]) for texts in (TEXTS, TEXTS[1:])]
    assert StatesTables(tmp_path).find(kept[0]) is None
    assert StatesTables(tmp_path).find(kept[1]) is not None


def test_a_block_is_small_where_the_vocabulary_is_large():
    loaded = families.opened("llama")
    assert block_size(loaded) == 2**24 // loaded.anatomy.shape.vocabulary
