"""Target and foil: resolved once on the edited side, read from final states by the model's own read-out."""

import pytest
import torch
from torch import Tensor

from backend import errors
from backend.models import forward
from backend.models.asking import Asked, ask_model
from backend.models.explain import Pair, differences, resolve
from backend.models.loaded import Loaded
from backend.schema import Edit, Explain, FfnSet, Limits, Steer, View
from tests import families, tiny
from tests.questions import VECTOR, Made

TEXT = "The quick brown fox jumps over the lazy dog."


def run(loaded: Loaded, edits: tuple[Edit, ...] = ()) -> tuple[Asked, Tensor]:
    asked = ask_model(loaded, View(model=loaded.name, text=TEXT, edits=edits, compare=True), Limits())
    return asked, forward.run(loaded, asked.ids_BT, asked.plan)


def pair_of(loaded: Loaded, edits: tuple[Edit, ...] = (), **explain) -> Pair:
    asked, final_BTD = run(loaded, edits)
    return resolve(loaded, asked, Explain(**explain), final_BTD)


def plain_logits(kind: str, asked: Asked) -> Tensor:
    with torch.no_grad():
        return families.plain(kind)(input_ids=torch.tensor([asked.read.ids])).logits[0]


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "granite", "cohere"])
def test_by_default_the_top_two_of_the_last_token_as_the_plain_model_has_them(kind):
    loaded = families.opened(kind)
    asked, _ = run(loaded)
    logits_V = plain_logits(kind, asked)[-1]
    told = pair_of(loaded).explained
    assert (told.token, [told.target, told.foil]) == (asked.tokens - 1, logits_V.topk(2).indices.tolist())
    assert told.logits == pytest.approx(float(logits_V[told.target] - logits_V[told.foil]), abs=1e-4)
    p_V = logits_V.softmax(-1)
    assert told.probability == pytest.approx(float(p_V[told.target]), rel=1e-4)
    assert told.foil_probability == pytest.approx(float(p_V[told.foil]), rel=1e-4)


@pytest.mark.parametrize("token", [3, None])
def test_what_is_not_named_is_the_likeliest_that_the_other_is_not(token):
    loaded = tiny.loaded("llama")
    first, second = (pair := pair_of(loaded, token=token).explained).target, pair.foil
    for asked, expected in (
        ({"target": first}, (first, second)), ({"target": second}, (second, first)), ({"target": 7}, (7, first)),
        ({"foil": first}, (second, first)), ({"foil": 7}, (first, 7)), ({"foil": 7, "target": 9}, (9, 7)),
        ({"against": "rest"}, (first, None)), ({"against": "rest", "target": 7, "foil": 7}, (7, None)),
    ):  # fmt: skip
        told = pair_of(loaded, token=token, **asked).explained
        assert (told.target, told.foil) == expected


def test_against_the_rest_it_is_the_logit_less_the_mean_logit_under_the_models_own_probabilities():
    loaded = families.opened("gemma2")
    asked, _ = run(loaded)
    logits_V = plain_logits("gemma2", asked)[4].double()
    told = pair_of(loaded, token=4, target=11, against="rest").explained
    assert told.logits == pytest.approx(float(logits_V[11] - logits_V.softmax(-1) @ logits_V), abs=1e-4)
    assert told.foil_probability is None


def test_it_is_resolved_on_the_edited_side_and_read_on_both_under_their_own_steers():
    loaded = tiny.loaded("gpt2")
    loaded.vectors = Made(loaded)
    edits = (FfnSet(layer=1, unit=3, to=30.0), Steer(steer=VECTOR, by=2.0))
    asked, final_BTD = run(loaded, edits)
    logits_BTV = forward.run(loaded, asked.ids_BT, asked.plan, logits=True)
    pair = resolve(loaded, asked, Explain(token=5), final_BTD)
    target, foil = pair.explained.target, pair.explained.foil
    assert [target, foil] == logits_BTV[0, 5].topk(2).indices.tolist()
    found_B = differences(loaded, pair, final_BTD, asked.plan)
    expected_B = logits_BTV[:, 5, target] - logits_BTV[:, 5, foil]
    torch.testing.assert_close(found_B, expected_B, rtol=1e-4, atol=1e-4)
    assert float(found_B[0]) == pytest.approx(pair.explained.logits, abs=1e-5)
    assert abs(float(found_B[0] - found_B[1])) > 0.1


def test_many_rows_are_read_in_blocks(monkeypatch):
    loaded = tiny.loaded("llama")
    asked, final_BTD = run(loaded)
    pair = resolve(loaded, asked, Explain(against="rest"), final_BTD)
    rows_BTD = torch.cat([final_BTD * scale for scale in (1.0, 0.5, -1.0)])
    whole_B = differences(loaded, pair, rows_BTD)
    monkeypatch.setattr("backend.models.explain.BLOCK_BYTES", 1)
    torch.testing.assert_close(differences(loaded, pair, rows_BTD), whole_B)


def test_against_the_rest_other_rows_keep_the_probabilities_of_the_resolved_run():
    """Then a small step moves the difference as it moves ln p(target)."""
    loaded = tiny.loaded("llama")
    asked, final_BTD = run(loaded)
    pair = resolve(loaded, asked, Explain(against="rest"), final_BTD)
    step_D = torch.randn(final_BTD.shape[-1], generator=torch.Generator().manual_seed(1)) * 1e-2
    rows_BTD = torch.cat([final_BTD + step_D, final_BTD - step_D])
    above, below = differences(loaded, pair, rows_BTD).tolist()
    lnp_B = forward.read_out(loaded, rows_BTD[:, -1]).double().log_softmax(-1)[:, pair.explained.target]
    assert above - below == pytest.approx(float(lnp_B[0] - lnp_B[1]), rel=1e-2)


@pytest.mark.parametrize(
    ("kind", "explain", "error", "words"),
    [
        ("bert", {}, errors.CannotShow, "no prediction to explain"),
        ("llama", {"token": 99}, errors.CannotShow, "There is no token 99"),
        ("llama", {"target": 9_999}, errors.CannotShow, "vocabulary has"),
        ("llama", {"foil": 9_999}, errors.CannotShow, "vocabulary has"),
        ("llama", {"target": 7, "foil": 7}, errors.BadQuestion, "the same token"),
    ],
)
def test_what_cannot_be_explained_is_refused_in_words(kind, explain, error, words):
    with pytest.raises(error) as refusal:
        pair_of(tiny.loaded(kind), **explain)
    assert words in f"{refusal.value.what} {refusal.value.why}"


def test_a_token_that_the_model_never_predicts_is_refused_in_words(monkeypatch):
    """Some families forbid tokens, such as those of pictures, with a logit of −inf."""
    loaded = tiny.loaded("llama")
    read_out = forward.read_out

    def forbidding(*args) -> Tensor:
        logits_NV = read_out(*args).clone()
        logits_NV[:, 7] = -torch.inf
        return logits_NV

    monkeypatch.setattr(forward, "read_out", forbidding)
    for explain in ({"target": 7}, {"foil": 7}, {"target": 7, "against": "rest"}):
        with pytest.raises(errors.CannotShow, match="cannot be explained"):
            pair_of(loaded, **explain)
    told = pair_of(loaded, target=9, against="rest").explained
    assert abs(told.logits) < 1e3
