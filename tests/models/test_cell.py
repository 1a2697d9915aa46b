"""A cell opened: what the feed-forward part adds to, what it gives, and the values that make the difference."""

import numpy as np
import pytest
import torch
from torch import Tensor

from backend import errors
from backend.models import cell as instrument
from backend.models import forward
from backend.models.loaded import Loaded
from backend.models.plan import Plan, Row, fold
from backend.schema import (
    CellAnswer,
    CellAsk,
    CellSide,
    Edit,
    Explain,
    FfnOutSet,
    FfnSet,
    HeadScale,
    Limits,
    ResidualAdd,
    Steer,
    View,
)
from tests import bent, families, tiny
from tests.bent import TEXT, TOKEN
from tests.package_models import package_loaded
from tests.questions import VECTOR

PARALLEL = {"phi", "cohere", "gpt_neox", "gptj", "codegen", "falcon", "falcon, grouped", "falcon, alibi"}
PLAIN = {"phi", "starcoder2", "nemotron", "gpt_neox", "gpt2", "gpt2, upcast", "gptj", "gpt_bigcode", "opt", "codegen",
         "biogpt", "bloom", "falcon", "falcon, grouped", "falcon, alibi", "gpt_neox_japanese", "xglm", "gpt_neo",
         "mpt"}  # fmt: skip
"""Families whose coefficients are an activation and not a product."""


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


def opened(loaded: Loaded, layer: int = 0, edits=(), compare=False, text: str = TEXT, **ask) -> CellAnswer:
    view = View(model=loaded.name, text=text, edits=edits, compare=compare)
    return instrument.cell(loaded, CellAsk(view=view, layer=layer, **{"token": TOKEN} | ask), Limits())


def every_value(loaded: Loaded, layer: int = 0, **ask) -> CellSide:
    return opened(loaded, layer, values=min(100, loaded.anatomy.units), **ask).edited


def run(loaded: Loaded, ids, *edits: Edit) -> dict[str, Tensor]:
    """Taps of a run of its own, at the opened token."""
    plan: Plan | None = fold(loaded.anatomy, [Row(edits, len(ids))], len(ids), loaded.vectors)
    taps = [f"{tap}.{layer}" for tap in ("residual", "ffn", "ffn_out") for layer in range(loaded.anatomy.shape.layers)]
    found: dict[str, Tensor] = {}

    def keeper(tap: str):
        return lambda held: found.__setitem__(tap, held.reshape(1, len(ids), -1)[0].clone())

    found["final"] = forward.run(loaded, [ids], plan, read={tap: keeper(tap) for tap in taps})[0]
    return found


def read(loaded: Loaded, state_D: Tensor) -> Tensor:
    with torch.inference_mode():
        return forward.read_out(loaded, loaded.anatomy.final_norm(state_D[None, None])[0])[0].double().softmax(-1)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("kind", bent.WITH_LENS)
def test_before_is_the_stream_with_the_feed_forward_part_cut_out_and_after_is_the_lens(kind, layer):
    """Cut out by an edit in a run of its own: the block then gives what its feed-forward part adds to."""
    loaded = bent.opened(kind)
    answer = opened(loaded, layer, top=20)
    cut, plain = run(loaded, answer.ids, FfnOutSet(layer=layer, to=0.0)), run(loaded, answer.ids)
    last = layer == loaded.anatomy.shape.layers - 1
    after_V = (
        forward.read_out(loaded, plain["final"][TOKEN][None])[0].double().softmax(-1)
        if last
        else read(loaded, plain[f"residual.{layer}"][TOKEN])
    )
    for words, p_V in (
        (answer.edited.before, read(loaded, cut[f"residual.{layer}"][TOKEN])),
        (answer.edited.after, after_V),
    ):
        np.testing.assert_allclose(numbers(words.probability), p_V[list(words.ids)], rtol=2e-3, atol=1e-5)
        assert numbers(words.probability)[0] == pytest.approx(float(p_V.max()), rel=2e-3)
        assert words.entropy == pytest.approx(float(torch.special.entr(p_V).sum()), rel=1e-3)
    assert answer.block == ("parallel" if kind in PARALLEL else "sequential")
    assert answer.gated is (kind not in PLAIN)
    assert ("no moment between them" in answer.about) is (kind in PARALLEL)


@pytest.mark.parametrize("kind", bent.WITH_LENS)
def test_sub_updates_add_up_to_what_the_write_matrix_gave_in_a_run_of_its_own(kind):
    loaded = bent.opened(kind)
    answer = opened(loaded, 1, values=100)
    side, taps = answer.edited, run(loaded, answer.ids)
    assert side.sum_error < 1e-5
    weight_FD = loaded.anatomy.write[1].weight.detach().double()
    weight_FD = weight_FD if weight_FD.shape[0] == loaded.anatomy.units else weight_FD.T
    if loaded.anatomy.units <= 100:
        total_D = sum(value.coefficient * weight_FD[value.unit] for value in side.values)
        bias_D = getattr(loaded.anatomy.write[1], "bias", None)
        total_D = total_D if bias_D is None else total_D + bias_D.double()
        torch.testing.assert_close(total_D, taps["ffn_out.1"][TOKEN].double(), rtol=1e-4, atol=1e-5)
        assert side.output_norm == pytest.approx(float(total_D.norm()), rel=1e-4)
    for value in side.values[:5]:
        np.testing.assert_allclose(numbers(value.at), taps["ffn.1"][:, value.unit], rtol=1e-5, atol=1e-6)
        assert value.coefficient == pytest.approx(float(taps["ffn.1"][TOKEN, value.unit]), rel=1e-5)
        assert value.norm == pytest.approx(float(weight_FD[value.unit].norm()), rel=1e-5)
        assert value.magnitude == pytest.approx(abs(value.coefficient) * value.norm, rel=1e-5)


@pytest.mark.parametrize("kind", bent.WITH_LENS)
def test_off_takes_exactly_what_the_value_wrote_out_of_the_matrix_and_no_more(kind):
    """ffn.set 0: what the write matrix gives changes by −m v there; the stream too, where nothing stands between."""
    loaded = bent.opened(kind)
    answer = opened(loaded)
    value = answer.edited.values[0]
    weight_FD = loaded.anatomy.write[0].weight.detach()
    weight_FD = weight_FD if weight_FD.shape[0] == loaded.anatomy.units else weight_FD.T
    wrote_D = value.coefficient * weight_FD[value.unit]
    plain, off = run(loaded, answer.ids), run(loaded, answer.ids, FfnSet(layer=0, unit=value.unit, to=0, at=(TOKEN,)))
    change_D = off["ffn_out.0"][TOKEN] - plain["ffn_out.0"][TOKEN]
    torch.testing.assert_close(change_D, -wrote_D, rtol=1e-4, atol=1e-5)
    if "scaled or normed" not in answer.about:
        stream_D = off["residual.0"][TOKEN] - plain["residual.0"][TOKEN]
        torch.testing.assert_close(stream_D, -wrote_D, rtol=1e-4, atol=1e-5)
    others = [place for place in range(len(answer.ids)) if place != TOKEN]
    assert torch.equal(off["residual.0"][others], plain["residual.0"][others])


@pytest.mark.parametrize("kind", ["gemma2", "granite", "olmo2", "glm4"])
def test_a_norm_or_multiplier_behind_the_write_matrix_is_said(kind):
    assert "scaled or normed" in opened(bent.opened(kind)).about
    assert "scaled or normed" not in opened(bent.opened("llama")).about


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "granite", "gpt_neox"])
def test_the_contribution_in_the_last_block_is_the_effect_with_the_norm_held_still(kind):
    """The value is removed in a run of its own; the final norm's divisor is put back to that of the first run."""
    loaded = bent.opened(kind)
    layer = loaded.anatomy.shape.layers - 1
    answer = opened(loaded, layer, explain=Explain(target=7, foil=11), values=3)
    norm = loaded.anatomy.norms[loaded.anatomy.final_norm]
    cap = getattr(loaded.model.config, "final_logit_softcapping", None)
    plain = run(loaded, answer.ids)
    stream_1D, final_1D = plain[f"residual.{layer}"][TOKEN][None], plain["final"][TOKEN][None]
    factor = norm.factor(stream_1D, final_1D)

    def difference(state_1D: Tensor) -> float:
        logits_V = forward.read_out(loaded, norm.frozen(state_1D, factor, norm.bias_D))[0].double()
        logits_V = logits_V if cap is None else cap * torch.atanh(logits_V / cap)
        return float(logits_V[7] - logits_V[11])

    frozen = kind == "gemma2"  # its own norm behind the matrix moves too when a value goes
    for value in answer.edited.values:
        off = run(loaded, answer.ids, FfnSet(layer=layer, unit=value.unit, to=0, at=(TOKEN,)))
        effect = difference(stream_1D) - difference(off[f"residual.{layer}"][TOKEN][None])
        if not frozen:
            assert value.contribution == pytest.approx(effect, rel=1e-3, abs=1e-5)
        assert value.contribution is not None


def test_the_values_are_ranked_as_asked():
    loaded = bent.opened("gpt2")
    by_size, by_part = every_value(loaded), every_value(loaded, ranked="contribution")
    for side, key in ((by_size, "magnitude"), (by_part, "contribution")):
        sizes = [abs(getattr(value, key)) for value in side.values]
        assert sizes == sorted(sizes, reverse=True)
    assert [value.unit for value in by_size.values] != [value.unit for value in by_part.values]
    assert [value.unit for value in opened(loaded, values=3).edited.values] == [v.unit for v in by_size.values[:3]]


def test_the_words_of_a_value_are_its_products_with_the_vocabulary():
    loaded = bent.opened("gpt2")
    ln_f, embedding_VD = loaded.model.transformer.ln_f, loaded.model.lm_head.weight.detach().double()
    for reading in ("raw", "folded"):
        (value, *_) = opened(loaded, reading=reading, ends=4).edited.values
        vector_D = loaded.anatomy.write[0].weight[value.unit].detach().double()
        if reading == "folded":
            vector_D = (vector_D - vector_D.mean()) * ln_f.weight.double()
        logits_V = embedding_VD @ vector_D
        assert list(value.ends.highest) == logits_V.topk(4).indices.tolist()
        assert list(value.ends.lowest) == (-logits_V).topk(4).indices.tolist()
        np.testing.assert_allclose(value.ends.highest_logit, logits_V.topk(4).values, rtol=1e-4)


def test_both_sides_are_those_of_two_runs():
    loaded = bent.opened("llama")
    edits = (HeadScale(layer=0, head=1, by=-2), FfnSet(layer=1, unit=3, to=9.0), Steer(steer=VECTOR, by=0.5))
    both = opened(loaded, 1, edits=edits, compare=True, values=4)
    alone, plain = opened(loaded, 1, edits=edits, values=4), opened(loaded, 1, values=4)
    for found, expected in ((both.edited, alone.edited), (both.unedited, plain.edited)):
        assert found.after.ids == expected.after.ids
        np.testing.assert_allclose(numbers(found.after.probability), numbers(expected.after.probability), rtol=1e-4)
        assert [value.unit for value in found.values] == [value.unit for value in expected.values]
        assert found.values[0].coefficient == pytest.approx(expected.values[0].coefficient, rel=1e-4)
    assert (both.edited.values[0].unit, both.edited.values[0].coefficient) == (3, 9.0)


def test_moved_is_the_change_of_probability_between_before_and_after():
    loaded = bent.opened("llama")
    answer = opened(loaded, 1, top=50)
    side = answer.edited
    changes = [abs(move.after - move.before) for move in side.moved]
    assert changes == sorted(changes, reverse=True)
    before = dict(zip(side.before.ids, numbers(side.before.probability).tolist(), strict=True))
    shared = [move for move in side.moved if move.id in before]
    assert shared
    for move in shared:
        assert move.before == pytest.approx(before[move.id], rel=1e-5)


def test_every_id_of_an_answer_has_its_word():
    answer = opened(bent.opened("llama"), 1, compare=True, edits=(FfnSet(layer=1, unit=3, to=9.0),))
    named = {answer.explained.target, answer.explained.foil}
    for side in (answer.edited, answer.unedited):
        named |= {*side.before.ids, *side.after.ids, *(move.id for move in side.moved)}
        named |= {id for value in side.values for id in (*value.ends.highest, *value.ends.lowest)}
    assert {str(id) for id in named} == set(answer.words)


def test_a_prediction_elsewhere_is_reached_through_attention_only_and_the_answer_says_so():
    answer = opened(bent.opened("llama"), token=2, explain=Explain(token=5), ranked="contribution")
    assert answer.explained.token == 5
    assert [value.contribution for value in answer.edited.values] == [None] * 10
    assert any("only through attention" in notice for notice in answer.notices)
    assert any("by magnitude instead" in notice for notice in answer.notices)
    sizes = [value.magnitude for value in answer.edited.values]
    assert sizes == sorted(sizes, reverse=True)


def test_a_value_that_is_wider_than_the_embedding_is_listed_without_words_and_the_answer_says_so():
    """OPT of 350 million parameters is so: its read-out stands behind a projection."""
    loaded = bent.variant("opt, norms on the stream, a narrow embedding")
    answer = opened(loaded)
    assert {value.ends for value in answer.edited.values} == {instrument.NO_ENDS}
    assert any("without words" in notice for notice in answer.notices)
    assert answer.edited.sum_error < 1e-5
    assert "Words:" not in answer.about


def test_edits_behind_the_block_are_said():
    loaded = bent.opened("llama")
    answer = opened(loaded, edits=(ResidualAdd(layer=0, vector=VECTOR, by=1.0),))
    assert any("acts after block 0" in notice for notice in answer.notices)
    answer = opened(loaded, edits=(FfnOutSet(layer=0, to=0.5),))
    assert any("sets what the feed-forward part of block 0 writes" in notice for notice in answer.notices)
    assert {value.contribution for value in answer.edited.values} == {0.0}
    assert answer.edited.sum_error < 1e-5


def test_the_next_cell_of_a_token_needs_no_forward(monkeypatch):
    loaded = tiny.loaded("llama")
    opened(loaded, 0)
    for name in ("run", "replay"):
        monkeypatch.setattr(forward, name, None)
    opened(loaded, 2, explain=Explain(against="rest"))


def test_a_text_too_long_to_be_kept_gives_the_same_cell():
    small, large = tiny.loaded("gpt2", kept_bytes=60_000), tiny.loaded("gpt2")
    one, other = (opened(loaded, 1, values=5) for loaded in (small, large))
    for found, expected in zip(one.edited.values, other.edited.values, strict=True):
        assert found.unit == expected.unit
        np.testing.assert_allclose(numbers(found.at), numbers(expected.at), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        numbers(one.edited.before.probability), numbers(other.edited.before.probability), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "ask", "words"),
    [
        ("llama", {"layer": 3}, "There is no layer 3"),
        ("llama", {"token": 99}, "There is no token 99"),
        ("llama", {"explain": Explain(token=99)}, "There is no token 99"),
        ("llama", {"explain": Explain(target=9_999)}, "vocabulary has"),
        ("bert", {}, "no lens"),
    ],
)
def test_what_is_not_there_is_refused_in_words(kind, ask, words):
    with pytest.raises(errors.CannotShow) as refusal:
        opened(tiny.loaded(kind), **ask)
    assert words in f"{refusal.value.what} {refusal.value.why}"
    assert refusal.value.instead


@pytest.mark.parametrize("kind", ["mixtral", "openai-gpt", "lfm2"])
def test_a_model_without_known_units_or_without_one_stream_is_refused_in_words(kind):
    with pytest.raises(errors.CannotShow) as refusal:
        opened(families.opened(kind))
    assert refusal.value.why
    assert not families.opened(kind).card.can["cell"].can


@pytest.mark.pretrained
def test_a_cell_of_smollm2_adds_up_and_names_words():
    loaded = package_loaded("smollm2-135m-instruct")
    answer = opened(loaded, 20, token=4, text="The capital of France is")
    assert answer.edited.sum_error < 1e-5
    assert (answer.block, answer.gated) == ("sequential", True)
    assert len(answer.edited.values) == 10
