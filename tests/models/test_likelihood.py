"""The likelihood of many texts under slider settings is that of each text alone in the plain model, edited by hand."""

import copy

import pytest
import torch
from torch import Tensor, nn

from backend import errors
from backend.models import forward
from backend.models.likelihood import Likelihoods, batches, likelihood_bytes, likelihoods, read_text
from backend.models.vectors import NO_VECTORS, Beside, SteerMatrix
from backend.schema import ResidualAdd, Steer
from tests import families, tiny

TEXTS = ("The cat sat on the mat.", "Off with her head! said the Queen. When Mary", "A dog", "naïve 東京 🙂")
STEER, OTHER, ALONG = "a" * 64, "b" * 64, "c" * 64


def made(width: int) -> Beside:
    dice = torch.Generator().manual_seed(2)
    steers = {
        id: SteerMatrix(0.3 * torch.randn(width, 3, generator=dice), torch.randn(3, width, generator=dice))
        for id in (STEER, OTHER)
    }
    return Beside(NO_VECTORS, {ALONG: torch.randn(width, generator=dice)}, steers)


SETTINGS = (
    (Steer(steer=STEER, by=-1.5),), (), (Steer(steer=STEER, by=0.7), Steer(steer=OTHER, by=-0.4)),
    (ResidualAdd(layer=0, vector=ALONG, by=0.8),),
    (ResidualAdd(layer=0, vector=ALONG, by=0.8), Steer(steer=STEER, by=1)),
)  # fmt: skip
BY_HAND = ({STEER: -1.5}, {}, {STEER: 0.7, OTHER: -0.4}, {ALONG: 0.8}, {ALONG: 0.8, STEER: 1})


def plain_logps(plain: nn.Module, ids: tuple[int, ...], setting: dict[str, float], stored: Beside) -> Tensor:
    """float64 [T, V] of transformers' own model, whose read-out's input and first block's output are changed by hooks
    of this test: c becomes c (1 + Σ a W), the stream moves along the direction."""
    steers = [(by, stored.steer(id)) for id, by in setting.items() if id != ALONG]

    def steered(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        added = [by * (args[0].double() @ steer.left_DK.double() @ steer.right_KD.double()) for by, steer in steers]
        return ((args[0].double() + sum(added)).to(args[0].dtype),)

    def moved(module: nn.Module, args: tuple[Tensor], output):
        by = setting.get(ALONG, 0.0) * stored.direction(ALONG).vector_D
        return (output[0] + by, *output[1:]) if isinstance(output, tuple) else output + by

    blocks = next(part for part in plain.modules() if isinstance(part, nn.ModuleList))
    handles = [blocks[0].register_forward_hook(moved)] if ALONG in setting else []
    if steers:
        handles.append(plain.get_output_embeddings().register_forward_pre_hook(steered))
    with torch.no_grad():
        logits = plain(input_ids=torch.tensor([ids])).logits[0]
    for handle in handles:
        handle.remove()
    return logits.double().log_softmax(-1)


@pytest.mark.parametrize("kind", families.DECODERS)
def test_each_text_has_the_likelihood_it_has_alone_in_the_plain_model(kind):
    loaded, plain, family = families.opened(kind), copy.deepcopy(families.plain(kind)), families.FAMILIES[kind]
    stored = made(loaded.anatomy.unembedding.get_parameter("weight").shape[1])
    kept = [place for place, hand in enumerate(BY_HAND) if not (family.steer and hand.keys() & {STEER, OTHER})
            and not (family.stream and ALONG in hand)]  # fmt: skip
    texts = [read_text(loaded, text, 12) for text in TEXTS]
    assert [text.cut for text in texts] == [len(read_text(loaded, text).ids) > 12 for text in TEXTS]
    found = likelihoods(loaded, texts, [SETTINGS[place] for place in kept], stored, base=kept.index(1))
    for row, place in enumerate(kept):
        for text, reading in enumerate(texts):
            targets = torch.tensor(reading.ids[1:])[:, None]
            base, logps = (plain_logps(plain, reading.ids, hand, stored)[:-1] for hand in ({}, BY_HAND[place]))
            nll = -logps.gather(-1, targets).mean()
            assert float(found.nll_SN[row, text]) == pytest.approx(float(nll), rel=2e-5, abs=2e-5)
            kl = (base.exp() * (base - logps)).nan_to_num().sum(-1).mean()
            assert float(found.kl_SN[row, text]) == pytest.approx(float(kl), rel=1e-3, abs=2e-5)
    assert found.tokens_N.tolist() == [len(text.ids) - 1 for text in texts]
    assert (found.kl_SN[kept.index(1)] == 0).all()
    if len(kept) > 1:
        assert found.kl_SN[0].min() > 1e-4, "a setting that changes nothing would show nothing"


def test_settings_that_differ_in_their_steers_share_one_forward_pass(monkeypatch):
    loaded = families.opened("llama")
    stored = made(loaded.anatomy.shape.width)
    ran: list[int] = []
    run = forward.run
    monkeypatch.setattr(forward, "run", lambda *args, **more: ran.append(1) or run(*args, **more))
    texts = [read_text(loaded, text) for text in TEXTS]
    likelihoods(loaded, texts, SETTINGS[:3], stored, base=1)
    assert len(ran) == 1
    likelihoods(loaded, texts, SETTINGS, stored, base=1)
    assert len(ran) == 3, "one for the base and all steers, one for the direction (alone and under a steer)"


def test_batches_hold_each_text_once_in_order_and_join_to_one_answer():
    loaded = families.opened("llama")
    stored = made(loaded.anatomy.shape.width)
    texts = [read_text(loaded, text) for text in TEXTS * 3]
    parts = batches(loaded, texts, most=5)
    assert [place for part in parts for place in part] == list(range(12))
    assert max(map(len, parts)) == 5
    whole = likelihoods(loaded, texts, SETTINGS[:3], stored, base=1)
    found = Likelihoods.joined(
        [likelihoods(loaded, [texts[at] for at in part], SETTINGS[:3], stored, base=1) for part in parts]
    )
    torch.testing.assert_close(found.nll_SN, whole.nll_SN, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.kl_SN, whole.kl_SN, rtol=1e-4, atol=1e-6)
    assert torch.equal(found.tokens_N, whole.tokens_N)
    torch.testing.assert_close(found.of(2, 7).nll_SN, whole.nll_SN[:, 2:7], rtol=1e-5, atol=1e-6)
    assert all(likelihood_bytes(loaded, [texts[at] for at in part]) > 0 for part in parts)
    assert batches(loaded, []) == []


def test_long_texts_make_smaller_batches():
    loaded = families.opened("llama")
    reading = read_text(loaded, "The cat sat on the mat. " * 8, 100)
    most = 512 // len(reading.ids)
    assert 1 < most < 12, "512 tokens on a CPU"
    assert [len(part) for part in batches(loaded, [reading] * 12)] == [most, 12 - most]
    many = [SETTINGS[0]] * 500 + [SETTINGS[3]]
    assert [len(part) for part in batches(loaded, [reading] * 3, many)] == [1, 1, 1], "never less than one"


def test_it_stops_between_blocks_and_refuses_what_has_no_likelihood():
    loaded = families.opened("llama")
    texts = [read_text(loaded, text) for text in TEXTS]

    def gone() -> None:
        raise errors.Cancelled("stopped", "nobody waits", "ask again")

    with pytest.raises(errors.Cancelled):
        likelihoods(loaded, texts, [()], cancel=gone)
    with pytest.raises(errors.BadQuestion, match="has no likelihood"):
        read_text(tiny.loaded("gpt2"), "a")
    with pytest.raises(errors.CannotShow, match="no prediction"):
        read_text(tiny.loaded("bert"), "The cat sat.")
    far = SteerMatrix(
        torch.full((loaded.anatomy.shape.width, 1), 1e30), torch.full((1, loaded.anatomy.shape.width), 1e30)
    )
    with pytest.raises(errors.CannotShow, match="breaks down"):
        likelihoods(loaded, texts, [(Steer(steer=STEER, by=1),)], Beside(loaded.vectors, {}, {STEER: far}))
