"""A measured effect is what a solo run with that one edit says, and the study is a job like any other."""

from typing import Any

import pytest
import torch
from torch import Tensor

from backend import errors
from backend.measure.array import from_array
from backend.models import forward
from backend.models.contributions import contributions
from backend.models.loaded import Loaded
from backend.models.means import Means, Sums
from backend.models.plan import Row, fold
from backend.models.vectors import Beside
from backend.schema import (
    ContributionsAsk,
    Edit,
    EffectsAsk,
    Explain,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadName,
    HeadScale,
    HeadSet,
    Limits,
    UnitName,
    View,
)
from backend.studies.effects import begin, measure
from tests import families, tiny

TEXT = "The cat sat on the mat."
TEXTS = ("The dog barked at the cat.", "Off with her head! said the Queen.", "A")
ENOUGH = {"rtol": 1e-4, "atol": 2e-5}


def ask(loaded: Loaded, **more: Any) -> EffectsAsk:
    return EffectsAsk(view=View(model=loaded.name, text=TEXT, **more.pop("of_view", {})), **more)


def measured(loaded: Loaded, asked: EffectsAsk, means: Means | None = None, most: int = 5):
    found = begin(loaded, lambda: None, ask=asked, limits=Limits())
    while len(found.effects) < len(found.parts):
        measure(loaded, lambda: None, found=found, means=means, most=most)
    return found.answer()


def solo(loaded: Loaded, answer, edits: tuple[Edit, ...], own: dict[str, Tensor] | None = None) -> float:
    """logit(target) − logit(foil) of the model's own logits, at the last token, with edits at every token."""
    ids = [answer.ids]
    plan = fold(loaded.anatomy, [Row(edits, len(answer.ids))], len(answer.ids), Beside(loaded.vectors, own or {}))
    logits_V = forward.run(loaded, ids, plan, logits=True)[0, -1].float()
    return float(logits_V[answer.explained.target] - logits_V[answer.explained.foil])


REMOVED = {
    "heads": lambda loaded, each: (HeadScale(layer=each.layer, head=each.index, by=0),),
    "attention": lambda loaded, each: tuple(
        HeadScale(layer=each.layer, head=head, by=0) for head in range(loaded.anatomy.shape.heads)
    ),
    "feed_forward": lambda loaded, each: (FfnOutSet(layer=each.layer, to=0),),
    "units": lambda loaded, each: (FfnScale(layer=each.layer, unit=each.index, by=0),),
}


def offered(kind: str) -> list[str]:
    family = families.FAMILIES[kind]
    of_heads = ["heads", "attention"] * (not family.heads)
    return of_heads + ["feed_forward"] * (not family.fed) + ["units"] * (not family.units)


CASES = [(kind, parts) for kind in families.DECODERS for parts in offered(kind)]


@pytest.mark.parametrize(("kind", "parts"), CASES)
def test_an_effect_equals_a_solo_run_with_that_one_edit(kind, parts):
    loaded = families.opened(kind)
    units = tuple(UnitName(layer=layer, unit=unit) for layer in (0, 1) for unit in (3, 17)) if parts == "units" else ()
    answer = measured(loaded, ask(loaded, parts=parts, units=units))
    whole = solo(loaded, answer, ())
    assert whole == pytest.approx(answer.explained.logits, abs=1e-4)
    for each in answer.parts:
        without = solo(loaded, answer, REMOVED[parts](loaded, each))
        assert each.effect == pytest.approx(whole - without, rel=1e-4, abs=1e-4)
    assert any(abs(each.effect) > 1e-4 for each in answer.parts), "removing something does something"
    layers = len(families.FAMILIES[kind].layers)
    count = {"heads": loaded.anatomy.shape.heads * layers, "units": 4}.get(parts, layers)
    assert len(answer.parts) == count
    assert answer.noise < 1e-3


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "gptj", "mixtral"])
def test_the_direct_contribution_beside_an_effect_is_that_of_the_contributions(kind):
    loaded = families.opened(kind)
    view = View(model=loaded.name, text=TEXT)
    side = contributions(loaded, ContributionsAsk(view=view), Limits()).edited
    heads_LH = from_array(side.heads)
    of_heads = {(each.layer, each.index): each.direct for each in measured(loaded, ask(loaded)).parts}
    assert all(heads_LH[place] == pytest.approx(direct, abs=1e-5) for place, direct in of_heads.items())
    of_layers = [each.direct for each in measured(loaded, ask(loaded, parts="attention")).parts]
    assert of_layers == pytest.approx(heads_LH.sum(-1).tolist(), abs=1e-5)
    of_layers = [each.direct for each in measured(loaded, ask(loaded, parts="feed_forward")).parts]
    assert of_layers == pytest.approx(from_array(side.feed_forward).tolist(), abs=1e-5)
    if "units" not in offered(kind):
        return
    units = side.units[:5]
    of_units = [each.direct for each in measured(loaded, ask(loaded, parts="units", units=units)).parts]
    assert of_units == pytest.approx(from_array(side.values)[:5].tolist(), abs=1e-5)


def test_two_signs_disagree_only_where_neither_is_noise(llama):
    found = begin(
        llama, lambda: None, ask=ask(llama, heads=tuple(HeadName(layer=0, head=h) for h in range(4))), limits=Limits()
    )
    found.direct, found.effects, found.noise = [1.0, 1.0, 1e-9, None], [0.5, -0.5, -0.5, 2.0], 1e-6
    answer = found.answer()
    assert [each.disagrees for each in answer.parts] == [False, True, False, None]
    assert answer.agreement == 0.5
    found.effects = []
    assert found.answer().agreement is None
    assert [each.effect for each in found.answer().parts] == [None] * 4


@pytest.fixture(scope="module")
def llama() -> Loaded:
    return tiny.loaded("llama")


def means_by_hand(loaded: Loaded) -> dict[str, Tensor]:
    """Every token of every text but its first, at the modules themselves."""
    seen: dict[str, list[Tensor]] = {}

    def keep(name: str, value: Tensor) -> None:
        seen.setdefault(name, []).append(value[0, 1:].clone())

    handles = []
    for layer, block in enumerate(loaded.model.model.layers):
        for name, module, taken in (
            ("heads", block.self_attn.o_proj, True), ("ffn", block.mlp.down_proj, True),
            ("ffn_out", block.mlp.down_proj, False), ("residual", block, False),
        ):  # fmt: skip
            handles.append(
                module.register_forward_hook(
                    lambda _, args, out, at=f"{name}.{layer}", taken=taken: keep(at, args[0] if taken else out)
                )
            )
    with torch.inference_mode():
        for text in TEXTS:
            loaded.model(torch.tensor([loaded.tokenizer(text).input_ids]), use_cache=False)
    for handle in handles:
        handle.remove()
    return {name: torch.cat(parts).mean(0) for name, parts in seen.items()}


def test_means_are_those_of_every_token_but_each_text_s_first(llama):
    sums = Sums()
    while sums.texts < len(TEXTS):
        sums.add(llama, TEXTS, Limits())
    means, expected = sums.means(), means_by_hand(llama)
    assert means.tokens == sum(len(llama.tokenizer(text).input_ids) - 1 for text in TEXTS)
    assert set(means.by_tap) == set(expected)
    for tap, mean in means.by_tap.items():
        torch.testing.assert_close(mean.flatten(), expected[tap], rtol=1e-5, atol=1e-6)


def test_removal_by_the_mean_is_a_set_to_the_mean_and_another_experiment(llama):
    sums = Sums()
    sums.add(llama, TEXTS, Limits())
    means = sums.means()
    heads = (HeadName(layer=1, head=2), HeadName(layer=0, head=3))
    by_mean = measured(llama, ask(llama, heads=heads, removal="mean"), means)
    by_zero = measured(llama, ask(llama, heads=heads))
    for each, zero in zip(by_mean.parts, by_zero.parts, strict=True):
        vector = means.by_tap[f"heads.{each.layer}"][each.index]
        edit = HeadSet(layer=each.layer, head=each.index, to="e" * 64)
        expected = solo(llama, by_mean, ()) - solo(llama, by_mean, (edit,), {"e" * 64: vector})
        assert each.effect == pytest.approx(expected, abs=1e-5)
        assert abs(each.effect - zero.effect) > 1e-4
    units = (UnitName(layer=1, unit=5),)
    (unit,) = measured(llama, ask(llama, parts="units", units=units, removal="mean"), means).parts
    there = FfnSet(layer=1, unit=5, to=float(means.by_tap["ffn.1"][5]))
    assert unit.effect == pytest.approx(solo(llama, by_mean, ()) - solo(llama, by_mean, (there,)), abs=1e-5)
    (layer, *_) = measured(llama, ask(llama, parts="feed_forward", removal="mean"), means).parts
    out = FfnOutSet(layer=0, to="f" * 64)
    without = solo(llama, by_mean, (out,), {"f" * 64: means.by_tap["ffn_out.0"]})
    assert layer.effect == pytest.approx(solo(llama, by_mean, ()) - without, abs=1e-5)


def test_parts_are_removed_from_the_edited_model_and_target_and_foil_are_whose_they_are(llama):
    edit = HeadScale(layer=2, head=1, by=-3)
    explain = Explain(token=3, target=7, foil=9)
    asked = ask(llama, heads=(HeadName(layer=0, head=0),), explain=explain, of_view={"edits": (edit,), "compare": True})
    answer = measured(llama, asked)
    rows = [(edit,), (edit, HeadScale(layer=0, head=0, by=0))]
    tokens = len(answer.ids)
    plan = fold(llama.anatomy, [Row(row, tokens) for row in rows], tokens)
    logits_BV = forward.run(llama, [answer.ids] * 2, plan, logits=True)[:, 3]
    with_part, without = (logits_BV[:, 7] - logits_BV[:, 9]).tolist()
    assert answer.parts[0].effect == pytest.approx(with_part - without, abs=1e-5)
    assert (answer.explained.token, answer.explained.target, answer.explained.foil) == (3, 7, 9)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"parts": "units"}, "No unit is named"),
        ({"parts": "units", "units": (UnitName(layer=0, unit=48),)}, "no unit L0U48"),
        ({"heads": (HeadName(layer=3, head=0),)}, "no layer 3"),
        ({"heads": (HeadName(layer=0, head=4),)}, "no head 0.4"),
        ({"parts": "feed_forward", "heads": (HeadName(layer=0, head=0),)}, "would be ignored"),
        ({"units": (UnitName(layer=0, unit=0),)}, "would be ignored"),
        ({"set": "0" * 64}, "would be ignored"),
        ({"explain": Explain(token=99)}, "no token 99"),
        ({"explain": Explain(target=10**6)}, "no token with the id"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_words(llama, more, words):
    with pytest.raises(errors.BadQuestion, match=words) as refused:
        begin(llama, lambda: None, ask=ask(llama, **more), limits=Limits())
    assert refused.value.instead


@pytest.mark.parametrize(("kind", "parts", "words"), [
    ("bert", "heads", "predicts no token"), ("falcon_h1", "feed_forward", "mamba.out_proj"),
    ("mixtral", "units", "mixture of experts"), ("bitnet", "heads", "no output projection"),
])  # fmt: skip
def test_a_family_that_cannot_says_why(kind, parts, words):
    units = (UnitName(layer=0, unit=0),) if parts == "units" else ()
    loaded = families.opened(kind)
    with pytest.raises(errors.CannotShow) as refused:
        begin(loaded, lambda: None, ask=ask(loaded, parts=parts, units=units), limits=Limits())
    assert words in refused.value.why


@pytest.mark.parametrize("kind", families.OPENED)
def test_the_card_says_whether_parts_can_be_removed_and_places_patched(kind):
    family, can = families.FAMILIES[kind], families.opened(kind).card.can
    assert can["effects"].can is (not family.reads_both_ways and bool(offered(kind)))
    assert can["patch"].can is not bool(family.heads and family.fed and family.stream)
    for instrument in ("effects", "patch"):
        assert bool(can[instrument].why) is not can[instrument].can
    if family.reads_both_ways:
        assert "predicts no token" in can["effects"].why
