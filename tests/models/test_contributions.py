"""Direct contributions add up to the pair's difference, in every family, and are what a hand-written sum gives."""

import numpy as np
import pytest
import torch
from torch import Tensor

from backend import errors
from backend.models import forward, opening
from backend.models.contributions import contributions
from backend.models.direction import expected
from backend.models.loaded import Loaded
from backend.models.sums import FOLLOWED
from backend.schema import (
    ContributionsAnswer,
    ContributionsAsk,
    Edit,
    Explain,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadScale,
    Limits,
    ResidualAdd,
    ResidualSet,
    Source,
    Steer,
    View,
)
from tests import bent, families, tiny
from tests.bent import TEXT, TOKEN
from tests.package_models import package_loaded
from tests.questions import VECTOR, Made

MIXTURES = ("mixtral", "qwen3_moe", "gpt_oss", "deepseek_v3")
HYBRIDS = ("lfm2", "jamba", "recurrent_gemma", "falcon_h1", "qwen3_next")


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


def asked(
    loaded: Loaded, text: str = TEXT, values: int = 20, edits=(), compare=False, **explain
) -> ContributionsAnswer:
    view = View(model=loaded.name, text=text, edits=edits, compare=compare)
    explain = {"token": TOKEN} | explain
    return contributions(loaded, ContributionsAsk(view=view, explain=Explain(**explain), values=values), Limits())


def edits_of(kind: str) -> tuple[Edit, ...]:
    """One edit of each kind that a family takes; those of the stream act before the explained token's last block."""
    family = families.FAMILIES[kind]
    edits: list[Edit] = [FfnSet(layer=0, unit=3, to=2.0), FfnScale(layer=1, unit=5, by=-3), Steer(steer=VECTOR, by=0.5)]
    edits += [] if family.heads else [HeadScale(layer=0, head=1, by=-1)]
    return tuple(edits if family.stream else [*edits, ResidualAdd(layer=0, vector=VECTOR, by=0.3)])


def total(side) -> float:
    return side.embedding + float(numbers(side.attention).sum() + numbers(side.feed_forward).sum()) + side.rest


def plain_logits(kind: str, ids: tuple[int, ...]) -> Tensor:
    with torch.no_grad():
        return bent.plain(kind)(input_ids=torch.tensor([ids])).logits[0, TOKEN].double()


def before_cap(kind: str, logits_V: Tensor) -> Tensor:
    cap = getattr(families.model(kind).config, "final_logit_softcapping", None)
    return logits_V if cap is None else cap * torch.atanh(logits_V / cap)


@pytest.mark.parametrize("kind", bent.PREDICTING)
def test_all_parts_add_up_to_the_difference_that_the_plain_model_makes(kind):
    loaded = bent.opened(kind)
    answer = asked(loaded, target=7, foil=11)
    z_V = before_cap(kind, plain_logits(kind, answer.ids))
    assert total(answer.edited) == pytest.approx(float(z_V[7] - z_V[11]), abs=2e-5)
    assert answer.edited.logits == pytest.approx(float(z_V[7] - z_V[11]), abs=2e-5)
    assert answer.edited.sum_error < 2e-5
    against = asked(loaded, target=7, against="rest")
    p_V = plain_logits(kind, answer.ids).softmax(-1)
    assert total(against.edited) == pytest.approx(float(z_V[7] - p_V @ z_V), abs=2e-5)


@pytest.mark.parametrize("name", bent.VARIANTS)
def test_they_add_up_however_a_family_joins_its_parts(name):
    """Also where there is no lens: with norms on the stream itself the later ones are held still too."""
    loaded = bent.variant(name)
    answer = asked(loaded, target=7, foil=11, edits=(FfnSet(layer=0, unit=3, to=2.0),), compare=True)
    with torch.no_grad():
        logits_V = loaded.model(input_ids=torch.tensor([answer.ids])).logits[0, TOKEN]
    assert total(answer.unedited) == pytest.approx(float(logits_V[7] - logits_V[11]), abs=2e-5)
    assert total(answer.edited) == pytest.approx(answer.edited.logits, abs=2e-5)


@pytest.mark.parametrize("kind", bent.PREDICTING)
def test_they_add_up_under_every_edit_and_beside_the_unedited_model(kind):
    loaded = bent.opened(kind)
    answer = asked(loaded, edits=edits_of(kind), compare=True)
    for side in (answer.edited, answer.unedited):
        assert side.sum_error < 2e-5
        assert total(side) == pytest.approx(side.logits, abs=2e-5)
    assert abs(answer.edited.logits - answer.unedited.logits) > 1e-3
    pair = {"target": answer.explained.target, "foil": answer.explained.foil}
    assert answer.unedited.logits == pytest.approx(asked(loaded, **pair).edited.logits, abs=1e-5)


@pytest.mark.parametrize("kind", bent.PREDICTING)
def test_heads_and_values_add_up_to_their_layer_but_for_its_bias(kind):
    """The bias's own part is what is left when every unit, every head is taken away."""
    loaded = bent.opened(kind)
    units = loaded.anatomy.units * len(loaded.anatomy.write)
    answer = asked(loaded, values=min(units, 200), target=7, foil=11)
    side = answer.edited
    heads_LH, attention_L = numbers(side.heads), numbers(side.attention)
    if families.FAMILIES[kind].heads:
        assert np.isnan(heads_LH).all()
    else:
        assert np.abs(heads_LH).max() > 1e-4
        for layer, projection in loaded.anatomy.projections.items():
            if getattr(projection, "bias", None) is None:
                assert heads_LH[layer].sum() == pytest.approx(attention_L[layer], abs=2e-5)
    by_layer = np.zeros(len(attention_L))
    for unit, value in zip(side.units, numbers(side.values), strict=True):
        by_layer[unit.layer] += value
    if len(side.units) == units:
        for layer, write in loaded.anatomy.write.items():
            if getattr(write, "bias", None) is None:
                assert by_layer[layer] == pytest.approx(numbers(side.feed_forward)[layer], abs=2e-5)


def test_a_gpt2_by_hand():
    """Stream, gains and biases written out from the weights, with transformers' own hidden states."""
    kind = "gpt2"
    loaded, plain = bent.opened(kind), bent.plain(kind)
    answer = asked(loaded, target=7, foil=11, values=96)
    side, blocks, ln_f = answer.edited, plain.transformer.h, plain.transformer.ln_f
    caught: dict[str, Tensor] = {}
    for layer, block in enumerate(blocks):
        for name, part in (("heads", block.attn.c_proj), ("units", block.mlp.c_proj)):
            part.register_forward_pre_hook(
                lambda m, args, key=(name, layer): caught.__setitem__(key, args[0][0, TOKEN])
            )
    with torch.no_grad():
        states = plain(input_ids=torch.tensor([answer.ids]), output_hidden_states=True).hidden_states
        stream_D = states[0][0, TOKEN].double()
        final_D = stream_D.clone()
        for layer, block in enumerate(blocks):
            for name, part in (("heads", block.attn.c_proj), ("units", block.mlp.c_proj)):
                final_D += caught[name, layer].double() @ part.weight.double() + part.bias.double()
        deviation = (final_D.var(unbiased=False) + ln_f.eps).sqrt()
        away_D = (plain.lm_head.weight[7] - plain.lm_head.weight[11]).double()
        u_D = ln_f.weight.double() * away_D / deviation
        u_D = u_D - u_D.mean()
        assert side.embedding == pytest.approx(float(stream_D @ u_D), abs=1e-5)
        assert side.rest == pytest.approx(float(ln_f.bias.double() @ away_D), abs=1e-5)
        values = dict(zip(map(str, side.units), numbers(side.values).tolist(), strict=True))
        assert len(values) == 96
        for layer, block in enumerate(blocks):
            weight, bias = block.attn.c_proj.weight.double(), block.attn.c_proj.bias.double()
            parts_HD = (caught["heads", layer].double()[:, None] * weight).unflatten(0, (4, 8)).sum(1)
            np.testing.assert_allclose(numbers(side.heads)[layer], parts_HD @ u_D, atol=1e-5)
            whole = float((parts_HD.sum(0) + bias) @ u_D)
            assert numbers(side.attention)[layer] == pytest.approx(whole, abs=1e-5)
            parts_F = caught["units", layer].double() * (block.mlp.c_proj.weight.double() @ u_D)
            for unit in range(48):
                assert values[f"L{layer}U{unit}"] == pytest.approx(float(parts_F[unit]), abs=1e-5)
            whole = float(parts_F.sum() + block.mlp.c_proj.bias.double() @ u_D)
            assert numbers(side.feed_forward)[layer] == pytest.approx(whole, abs=1e-5)


def test_a_llama_by_hand_against_the_rest():
    """RMS norm: no mean is taken away; the direction is E_target − Σ p E."""
    kind = "llama"
    loaded, plain = bent.opened(kind), bent.plain(kind)
    answer = asked(loaded, target=7, against="rest")
    caught: dict[int, Tensor] = {}
    for layer, block in enumerate(plain.model.layers):
        block.mlp.register_forward_hook(lambda m, args, out, key=layer: caught.__setitem__(key, out[0, TOKEN].double()))
    with torch.no_grad():
        found = plain(input_ids=torch.tensor([answer.ids]), output_hidden_states=True)
        p_V = found.logits[0, TOKEN].double().softmax(-1)
        away_D = plain.lm_head.weight[7].double() - p_V @ plain.lm_head.weight.double()
        first_D, second_D = (found.hidden_states[row][0, TOKEN].double() for row in (0, 1))
        last = []
        plain.model.norm.register_forward_pre_hook(lambda m, args: last.append(args[0][0, TOKEN].double()))
        plain(input_ids=torch.tensor([answer.ids]))
        u_D = plain.model.norm.weight.double() * away_D / (last[0].square().mean() + plain.config.rms_norm_eps).sqrt()
        assert answer.edited.embedding == pytest.approx(float(first_D @ u_D), abs=1e-5)
        expected = [float(caught[layer] @ u_D) for layer in (0, 1)]
        np.testing.assert_allclose(numbers(answer.edited.feed_forward), expected, atol=1e-5)
        attention = [second_D - first_D - caught[0], last[0] - second_D - caught[1]]
        np.testing.assert_allclose(numbers(answer.edited.attention), [float(a_D @ u_D) for a_D in attention], atol=1e-5)
        assert answer.edited.rest == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3_text"])
def test_against_the_rest_a_small_step_along_a_part_moves_ln_p_as_its_contribution_says(kind):
    """Finite differences of ln p(target) with the final norm held still; these families have no cap."""
    loaded = bent.opened(kind)
    answer = asked(loaded, target=7, against="rest")
    step, layer = 1e-3, loaded.anatomy.shape.layers - 1
    last: list[Tensor] = []
    final_BTD = forward.run(loaded, [answer.ids], read={f"ffn_out.{layer}": last.append})
    norm = loaded.anatomy.norms[loaded.anatomy.final_norm]
    stream: list[Tensor] = []
    forward.run(loaded, [answer.ids], read={f"residual.{layer}": stream.append})
    stream_1D, final_1D = stream[0][0, TOKEN][None], final_BTD[0, TOKEN][None]
    factor = norm.factor(stream_1D, final_1D)
    added_D = stream_1D[0] - _before(loaded, answer)

    def lnp(times: float) -> float:
        moved_1D = norm.frozen(stream_1D + times * added_D, factor, norm.bias_D)
        return float(forward.read_out(loaded, moved_1D).double().log_softmax(-1)[0, 7])

    slope = (lnp(step) - lnp(-step)) / (2 * step)
    assert numbers(answer.edited.feed_forward)[layer] == pytest.approx(slope, rel=2e-2, abs=2e-3)


def _before(loaded: Loaded, answer: ContributionsAnswer) -> Tensor:
    """The stream of the last block with its feed-forward part cut out by an edit: that is what it adds to."""
    from backend.models.plan import Row, fold

    layer, stream = loaded.anatomy.shape.layers - 1, []
    plan = fold(loaded.anatomy, [Row((FfnOutSet(layer=layer, to=0.0),), len(answer.ids))], len(answer.ids))
    forward.run(loaded, [answer.ids], plan, read={f"residual.{layer}": stream.append})
    return stream[0][0, TOKEN]


def test_what_an_edit_sets_wipes_out_what_came_before_it():
    loaded = bent.opened("llama")
    answer = asked(loaded, edits=(ResidualSet(layer=0, to=VECTOR, at=(TOKEN,)),))
    side = answer.edited
    assert side.embedding == 0
    assert (numbers(side.attention)[0], numbers(side.feed_forward)[0]) == (0, 0)
    assert np.abs(numbers(side.heads)[0]).max() == 0
    assert {unit.layer for unit, value in zip(side.units, numbers(side.values), strict=True) if value} == {1}
    assert abs(side.rest) > 1e-3
    assert any("Edits of the residual stream add" in notice for notice in answer.notices)


def test_a_whole_block_that_is_set_has_no_values():
    loaded = bent.opened("gpt2")
    answer = asked(loaded, edits=(FfnOutSet(layer=1, to=0.2),), values=96)
    assert answer.edited.sum_error < 1e-5
    assert not any(value for unit, value in zip(answer.edited.units, numbers(answer.edited.values), strict=True)
                   if unit.layer == 1)  # fmt: skip


def test_the_largest_come_first_with_their_coefficients():
    loaded = bent.opened("gpt2")
    few, many = asked(loaded, values=5).edited, asked(loaded, values=96).edited
    sizes = np.abs(numbers(many.values))
    assert (np.diff(sizes) <= 0).all()
    assert few.units == many.units[:5]
    units: dict[int, Tensor] = {}
    forward.run(loaded, [asked(loaded).ids], read={f"ffn.{layer}": (
        lambda held, layer=layer: units.__setitem__(layer, held[0, TOKEN].clone())) for layer in (0, 1)})  # fmt: skip
    expected = [float(units[unit.layer][unit.unit]) for unit in few.units]
    np.testing.assert_allclose(numbers(few.coefficient), expected, rtol=1e-6)
    assert asked(loaded, values=0).edited.units == ()


def test_a_softly_capped_model_says_so_and_adds_up_before_the_cap():
    answer = asked(bent.opened("gemma2"), target=7, foil=11)
    assert abs(answer.edited.logits) > abs(answer.explained.logits)
    assert any("caps its logits softly, at 3" in notice for notice in answer.notices)


@pytest.mark.parametrize("against", ["foil", "rest"])
def test_tokens_that_the_model_forbids_are_no_obstacle(monkeypatch, against):
    loaded = tiny.loaded("gpt2")
    read_out = forward.read_out

    def forbidding(*args) -> Tensor:
        logits_NV = read_out(*args).clone()
        logits_NV[:, 50:60] = -torch.inf
        return logits_NV

    monkeypatch.setattr(forward, "read_out", forbidding)
    assert asked(loaded, target=7, against=against).edited.sum_error < 1e-5


def test_constants_of_the_stream_are_counted_in_the_rest_and_said():
    answer = asked(bent.opened("gpt_neox_japanese"))
    assert bent.opened("gpt_neox_japanese").constants
    assert any("constants" in notice for notice in answer.notices)
    assert not bent.opened("gpt_neox").constants


@pytest.mark.parametrize("kind", MIXTURES)
def test_mixtures_have_heads_and_layers_and_say_why_there_are_no_values(kind):
    loaded = bent.opened(kind)
    answer = asked(loaded, edits=(HeadScale(layer=0, head=1, by=-2),), compare=True)
    assert max(answer.edited.sum_error, answer.unedited.sum_error) < 2e-5
    assert np.isfinite(numbers(answer.edited.heads)).all()
    assert answer.edited.units == ()
    assert any("mixture of experts" in notice for notice in answer.notices)


@pytest.mark.parametrize("kind", HYBRIDS)
def test_a_stream_with_other_mixers_is_refused_in_words(kind):
    loaded = families.opened(kind)
    assert "contributions" not in {name for name, ability in loaded.card.can.items() if ability.can}
    with pytest.raises(errors.CannotShow, match="cannot be added up") as refusal:
        asked(loaded)
    assert "not known" in refusal.value.why or "not found" in refusal.value.why


def test_a_model_that_foresees_no_token_is_refused_in_words():
    with pytest.raises(errors.CannotShow, match="no prediction to explain"):
        asked(tiny.loaded("bert"))


def test_a_stream_that_is_no_sum_is_found_out_at_load(monkeypatch):
    """A norm that is not known as one stays as it is, and then the final state is no sum of what was written."""
    monkeypatch.setattr("backend.models.anatomy.norms_of", lambda trunk, width, device: {})
    loaded = families.loaded("llama")
    (promise,) = [each for each in loaded.card.promises if each.name == FOLLOWED]
    assert promise.kept is False
    assert not loaded.card.can["contributions"].can
    assert not loaded.card.can["cell"].can
    assert loaded.card.can["trace"].can
    with pytest.raises(errors.CannotShow, match="cannot be added up"):
        asked(loaded)


def test_a_second_question_of_a_token_needs_no_forward(monkeypatch):
    loaded = tiny.loaded("llama")
    asked(loaded)
    for name in ("run", "replay"):
        monkeypatch.setattr(forward, name, None)
    assert asked(loaded, target=7, foil=9, against="foil").edited.sum_error < 1e-5


def test_a_text_too_long_to_be_kept_gives_the_same_numbers():
    small, large = tiny.loaded("llama", kept_bytes=60_000), tiny.loaded("llama")
    edits = (FfnSet(layer=0, unit=3, to=2.0),)
    one, other = (asked(loaded, edits=edits, compare=True) for loaded in (small, large))
    for side in ("edited", "unedited"):
        for name in ("attention", "feed_forward", "heads", "values"):
            found, expected = (numbers(getattr(getattr(answer, side), name)) for answer in (one, other))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_two_people_never_see_each_others_edits():
    loaded = tiny.loaded("gpt2")
    loaded.vectors = Made(loaded)
    plain = asked(loaded)
    asked(loaded, edits=(FfnSet(layer=0, unit=3, to=50.0), Steer(steer=VECTOR, by=2)), compare=True)
    again = asked(loaded)
    assert again.edited == plain.edited


@pytest.mark.pretrained
def test_the_capital_of_france_adds_up_in_smollm2():
    loaded = package_loaded("smollm2-135m-instruct")
    view = View(model=loaded.name, text="The capital of France is")
    answer = contributions(loaded, ContributionsAsk(view=view), Limits())
    assert answer.edited.sum_error < 1e-3
    assert answer.words[str(answer.explained.target)] != answer.words[str(answer.explained.foil)]


@pytest.mark.parametrize("kind", ["llama", "gemma2", "phi", "gpt_neox_japanese"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_they_add_up_within_its_rounding_and_say_where_it_shows(kind, dtype):
    """phi has a bias behind its read-out, gpt_neox_japanese one in its stream."""
    source = Source(kind="folder", name=kind)
    loaded = opening.prepare(bent.model(kind).to(dtype), families.tokenizer(kind), name=f"half-{kind}", source=source)
    answer, exact = asked(loaded, target=7, foil=11), asked(bent.opened(kind), target=7, foil=11)
    steps = torch.finfo(dtype).eps * 8
    np.testing.assert_allclose(total(answer.edited), exact.edited.logits, atol=steps)
    np.testing.assert_allclose(numbers(answer.edited.feed_forward), numbers(exact.edited.feed_forward), atol=steps)
    assert answer.edited.sum_error == pytest.approx(abs(total(answer.edited) - answer.edited.logits), abs=1e-6)
    shows = answer.edited.sum_error > 1e-2 * (1 + abs(answer.edited.logits))
    assert any(f"rounding in {loaded.conditions.dtype}" in notice for notice in answer.notices) is shows


def test_the_mean_of_a_large_vocabulary_counts_its_unlikely_tokens():
    dice = torch.Generator().manual_seed(0)
    logits = torch.randn(49_152, generator=dice, dtype=torch.float64) * 3
    logits[7] = logits.logsumexp(0) + 2
    p = logits.softmax(0).float()
    embedding = torch.randn(len(p), 8, generator=dice) + 1
    torch.testing.assert_close(expected(embedding, p).double(), p.double() @ embedding.double(), rtol=0, atol=5e-6)
