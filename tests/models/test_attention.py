"""A view answers with the model's own maps: thumbnails, statistics and single heads, edited, unedited and between."""

import gc

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from backend import errors
from backend.models import attention, forward, tokens
from backend.models.loaded import Loaded
from backend.schema import (
    HeadAsk,
    HeadName,
    HeadsAsk,
    HeadScale,
    HeadSet,
    Limits,
    OverviewAsk,
    Reading,
    Region,
    TokensAsk,
    Turn,
    View,
)
from tests import families, tiny
from tests.measure import brute

TEXT = "The quick brown fox jumps over the lazy dog, said the Queen. The cat sat on the mat; the dog barked at it."
CUT = HeadScale(layer=0, head=1, by=0)
LIMITS = Limits()
LOADED = tiny.Once()


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


def view(kind: str, **changes) -> View:
    return View(**({"model": f"tiny-{kind}", "text": TEXT} | changes))


def overview(loaded: Loaded, asked: View, **options):
    return attention.overview(loaded, OverviewAsk(view=asked, **options), LIMITS)


def one_head(loaded: Loaded, asked: View, *heads: tuple[int, int], **options):
    names = tuple(HeadName(layer=layer, head=head) for layer, head in heads)
    return attention.head(loaded, HeadAsk(view=asked, heads=names, **options), LIMITS)


def plain_maps(kind: str, ids: tuple[int, ...], edits=()) -> np.ndarray:
    """[L, H, T, S] of transformers' own eager model, whose heads are cut by zeroed weights."""
    loaded = LOADED[kind]
    model = tiny.model_of(kind, loaded.anatomy.shape.vocabulary)
    model.set_attn_implementation("eager")
    names = {id(part): name for name, part in loaded.model.named_modules()}
    for edit in edits:
        module = model.get_submodule(names[id(loaded.anatomy.projections[edit.layer])])
        rows = module.weight if kind == "gpt2" else module.weight.T
        with torch.no_grad():
            rows[edit.head * 8 : (edit.head + 1) * 8] = 0
    types = {"token_type_ids": torch.zeros(1, len(ids), dtype=torch.long)} if kind == "bert" else {}
    with torch.no_grad():
        answer = model(input_ids=torch.tensor([ids]), output_attentions=True, **types)
    return torch.stack(answer.attentions)[:, 0].numpy()


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_thumbnails_and_statistics_are_those_of_the_eager_model(kind):
    answer = overview(LOADED[kind], view(kind, reading=Reading(rows="all")))
    maps = plain_maps(kind, answer.ids)
    assert answer.cells == (answer.tokens, answer.tokens)
    assert not answer.pooled
    assert np.abs((numbers(answer.edited.maps) / 255.0) ** 2 - maps).max() < 0.004 + 1e-5
    assert np.abs(numbers(answer.edited.maps) - 255 * np.sqrt(maps)).max() <= 0.5 + 1e-2
    visible = np.tril(np.ones((answer.tokens,) * 2, bool)) if kind != "bert" else np.ones((answer.tokens,) * 2, bool)
    for statistic in answer.edited.statistics[:3]:
        for layer in range(3):
            for head in range(4):
                no = [False] * answer.tokens
                value, uniform, rows = brute.statistics(maps[layer, head], visible, [True] * answer.tokens, no, no)[
                    statistic.name
                ]
                assert numbers(statistic.value)[layer, head] == pytest.approx(value, rel=1e-4)
                assert numbers(statistic.uniform)[layer, head] == pytest.approx(uniform, rel=1e-5)
                assert numbers(statistic.rows)[layer, head] == rows


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_edited_unedited_and_difference_come_in_one_answer(kind):
    answer = overview(LOADED[kind], view(kind, edits=(CUT,), compare=True))
    edited, unedited = plain_maps(kind, answer.ids, (CUT,)), plain_maps(kind, answer.ids)
    assert np.abs(numbers(answer.edited.maps) - 255 * np.sqrt(edited)).max() <= 0.5 + 1e-2
    assert np.abs(numbers(answer.unedited.maps) - 255 * np.sqrt(unedited)).max() <= 0.5 + 1e-2
    shown = numbers(answer.difference.maps) * answer.difference.scale
    assert np.abs(shown - (edited - unedited)).max() <= answer.difference.scale / 2 + 1e-5
    assert not numbers(answer.difference.maps)[0].any()
    assert answer.difference.scale * 127 >= answer.noise > 0
    for one, two, change in zip(
        answer.edited.statistics, answer.unedited.statistics, answer.difference.statistics, strict=True
    ):
        if one.name == "induction":
            assert np.isnan(numbers(change.value)).all()
        else:
            np.testing.assert_allclose(numbers(change.value), numbers(one.value) - numbers(two.value), atol=2e-6)


def test_without_an_edit_there_is_nothing_to_compare_and_it_is_said():
    answer = overview(LOADED["llama"], view("llama", edits=(CUT.model_copy(update={"on": False}),), compare=True))
    assert answer.unedited is None
    assert answer.difference is None
    assert any("nothing to compare" in notice for notice in answer.notices)


def test_rows_are_the_texts_own_tokens_and_the_others_are_counted():
    bert = overview(LOADED["bert"], view("bert"))
    assert (bert.rows_used, bert.rows_left_out) == (bert.tokens - 2, 2)  # [CLS] and [SEP]
    llama = overview(LOADED["llama"], view("llama"))
    assert (llama.rows_used, llama.rows_left_out) == (llama.tokens - 1, 1)  # <s>
    gpt2 = overview(LOADED["gpt2"], view("gpt2"))
    assert (gpt2.rows_used, gpt2.rows_left_out) == (gpt2.tokens - 1, 1)  # row 0
    every = overview(LOADED["bert"], view("bert", reading=Reading(rows="all")))
    assert (every.rows_used, every.rows_left_out) == (every.tokens, 0)
    turns = view("llama", text=None, turns=(Turn(role="user", content="The cat sat."),))
    answer = overview(LOADED["llama"], turns)
    assert 0 < answer.rows_used < answer.tokens - 3


def test_a_continuation_counts_as_text_and_generated_edits_act_on_it_alone():
    asked = view("llama", continuation=" The dog barked.", compare=True,
                 edits=(HeadSet(layer=0, head=1, to=2, at="generated"),))  # fmt: skip
    answer = overview(LOADED["llama"], asked, cells=64)
    prompt = overview(LOADED["llama"], view("llama")).tokens
    assert answer.tokens > prompt
    assert answer.rows_used == answer.tokens - 1
    change = numbers(answer.difference.maps)
    assert not change[:, :, :prompt].any()
    assert change[1:, :, prompt:].any()


def test_next_is_not_available_in_a_causal_model_and_induction_not_in_one_that_reads_both_ways():
    for kind, name in (("llama", "next"), ("gpt2", "next"), ("bert", "induction")):
        statistic = {s.name: s for s in overview(LOADED[kind], view(kind)).edited.statistics}[name]
        assert np.isnan(numbers(statistic.value)).all()
        assert not numbers(statistic.rows).any()


def test_induction_is_the_weight_after_the_first_occurrence_and_measured_once(monkeypatch):
    loaded = tiny.loaded("gpt2")
    from backend.models.induction import repeated

    ids_BT, period = repeated(loaded)
    assert torch.equal(ids_BT[:, :period], ids_BT[:, period:])
    maps = {}
    forward.run(loaded, ids_BT, see=lambda call, maps_BHTS: maps.__setitem__(call.layer, maps_BHTS.clone()))
    expected = torch.stack([
        torch.stack([maps[layer][:, :, i, i - period + 1] for i in range(period, 2 * period)]).mean((0, 1))
        for layer in range(3)
    ])  # fmt: skip
    statistic = overview(loaded, view("gpt2")).edited.statistics[-1]
    assert statistic.name == "induction"
    np.testing.assert_allclose(numbers(statistic.value), expected.numpy(), rtol=1e-5)
    uniform = np.mean([1 / (i + 1) for i in range(period, 2 * period)])
    np.testing.assert_allclose(numbers(statistic.uniform), uniform, rtol=1e-6)
    runs = []
    monkeypatch.setattr(forward, "run", lambda *_, **__: runs.append(1))
    from backend.models.induction import induction

    induction(loaded)
    assert runs == []


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_heads_are_the_overviews_statistics_without_maps(kind):
    asked = view(kind, edits=(CUT,), compare=True)
    full, lean = overview(LOADED[kind], asked), attention.heads(LOADED[kind], HeadsAsk(view=asked), LIMITS)
    assert lean.edited == full.edited.statistics
    assert lean.unedited == full.unedited.statistics
    assert lean.difference == full.difference.statistics
    assert (lean.ids, lean.rows_used, lean.conditions) == (full.ids, full.rows_used, full.conditions)


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_a_pooled_thumbnail_is_pooled_from_the_exact_map(pool):
    asked = view("gpt2", reading=Reading(pool=pool, rows="all"))
    answer = overview(LOADED["gpt2"], asked, cells=8)
    assert answer.pooled
    assert answer.cells == (8, 8)
    maps = plain_maps("gpt2", answer.ids)
    visible = np.tril(np.ones((answer.tokens,) * 2, bool))
    for layer in range(3):
        for head in range(4):
            expected = 255 * np.sqrt(brute.cells(maps[layer, head], visible, 8, pool))
            assert np.abs(numbers(answer.edited.maps)[layer, head] - expected).max() <= 0.5 + 1e-2


def test_many_heads_get_smaller_thumbnails():
    few = tiny.loaded("gpt2")
    many = tiny.loaded("gpt2", n_embd=32, n_head=16, n_layer=20)
    assert attention.default_cells(few) == 64
    assert attention.default_cells(many) == 32


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_one_head_is_raw_and_exact(kind):
    answer = one_head(LOADED[kind], view(kind), (1, 2), token=5, links=4)
    expected = plain_maps(kind, answer.ids)[1, 2]
    tokens = len(answer.ids)
    np.testing.assert_allclose(numbers(answer.edited.map), expected, atol=1e-5)
    entropy = -np.where(expected > 0, expected * np.log(np.maximum(expected, 1e-38)), 0).sum(1)
    np.testing.assert_allclose(numbers(answer.edited.entropy), entropy, atol=1e-5)
    n = np.arange(1, tokens + 1) if kind != "bert" else np.full(tokens, tokens)
    assert numbers(answer.visible).tolist() == n.tolist()
    np.testing.assert_allclose(numbers(answer.uniform_entropy), np.log(n), rtol=1e-6)
    np.testing.assert_allclose(numbers(answer.edited.looks_at), expected[5], atol=1e-5)
    np.testing.assert_allclose(numbers(answer.edited.looked_at_by), expected[:, 5], atol=1e-5)
    out = [link.key for link in answer.edited.links_out]
    assert out == np.argsort(-expected[5], kind="stable")[:4].tolist()
    into = [link.query for link in answer.edited.links_in]
    assert into == np.argsort(-expected[:, 5], kind="stable")[:4].tolist()
    strongest, weights = numbers(answer.edited.strongest), numbers(answer.edited.weights)
    for row in range(tokens):
        kept = strongest[row] >= 0
        assert kept.sum() == min(4, n[row])
        np.testing.assert_allclose(weights[row][kept], expected[row][strongest[row][kept]], atol=1e-5)
        assert numbers(answer.edited.undrawn)[row] == pytest.approx(1 - weights[row].sum(), abs=1e-5)


def test_a_region_is_cut_from_the_map_and_pooled_beyond_its_cells():
    region = Region(q0=4, q1=20, k0=2, k1=9)
    whole = one_head(LOADED["llama"], view("llama"), (2, 0))
    cut = one_head(LOADED["llama"], view("llama"), (2, 0), region=region)
    np.testing.assert_array_equal(numbers(cut.edited.map), numbers(whole.edited.map)[4:20, 2:9])
    assert (cut.cells, cut.pooled) == ((16, 7), False)
    pooled = one_head(LOADED["llama"], view("llama"), (2, 0), region=region, cells=5)
    assert (pooled.cells, pooled.pooled) == ((5, 5), True)
    assert numbers(pooled.edited.map).max() == numbers(cut.edited.map).max()
    np.testing.assert_array_equal(numbers(pooled.edited.entropy), numbers(whole.edited.entropy))


def test_several_heads_are_the_mean_of_their_maps_across_layers():
    chosen = [(0, 1), (2, 3), (2, 0)]
    answer = one_head(LOADED["llama"], view("llama"), *chosen)
    maps = plain_maps("llama", answer.ids)
    expected = np.mean([maps[layer, head] for layer, head in chosen], axis=0)
    np.testing.assert_allclose(numbers(answer.edited.map), expected, atol=1e-5)
    assert any("mean" in notice for notice in answer.notices)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_one_head_compares_its_sides(kind):
    answer = one_head(LOADED[kind], view(kind, edits=(CUT,), compare=True), (1, 2), token=5)
    edited = plain_maps(kind, answer.ids, (CUT,))[1, 2]
    unedited = plain_maps(kind, answer.ids)[1, 2]
    np.testing.assert_allclose(numbers(answer.edited.map), edited, atol=1e-5)
    np.testing.assert_allclose(numbers(answer.unedited.map), unedited, atol=1e-5)
    np.testing.assert_allclose(numbers(answer.difference.map), edited - unedited, atol=1e-5)
    np.testing.assert_allclose(
        numbers(answer.difference.entropy), numbers(answer.edited.entropy) - numbers(answer.unedited.entropy), atol=1e-6
    )
    strongest = answer.difference.links_out[0]
    assert abs(strongest.weight) == pytest.approx(np.abs(edited - unedited)[5].max(), abs=1e-5)


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("head", range(4))
def test_a_value_weighted_map_is_what_each_key_adds_to_the_stream(kind, head):
    loaded = LOADED[kind]
    answer = one_head(loaded, view(kind, reading=Reading(weighted=True)), (1, head))
    calls = {}
    types = [(0,) * len(answer.ids)] if kind == "bert" else None
    forward.run(loaded, [answer.ids], types_BT=types, hold=lambda call: calls.__setitem__(call.layer, call))
    maps = plain_maps(kind, answer.ids)[1, head]
    values = calls[1].value_BGSD[0, head // (4 // loaded.anatomy.shape.kv_heads)]
    written = (values @ loaded.anatomy.output_matrix(1)[head * 8 : head * 8 + 8]).numpy()
    np.testing.assert_allclose(
        numbers(answer.edited.map), np.linalg.norm(maps[:, :, None] * written, axis=-1), atol=1e-5
    )
    assert answer.unit == "norm"
    plain = one_head(loaded, view(kind), (1, head))
    np.testing.assert_array_equal(numbers(answer.edited.entropy), numbers(plain.edited.entropy))


def test_a_head_that_is_off_adds_nothing_in_the_value_weighted_map():
    asked = view("llama", edits=(HeadScale(layer=1, head=3, by=0, at=(6,)),), compare=True)
    answer = one_head(LOADED["llama"], asked.model_copy(update={"reading": Reading(weighted=True)}), (1, 3))
    assert not numbers(answer.edited.map)[6].any()
    np.testing.assert_array_equal(numbers(answer.edited.map)[7], numbers(answer.unedited.map)[7])


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_without_the_first_token_map_statistics_and_baselines_follow(kind):
    reading = Reading(without_first=True)
    answer = one_head(LOADED[kind], view(kind, reading=reading), (1, 2))
    expected = plain_maps(kind, answer.ids)[1, 2].copy()
    expected[:, 0] = 0
    expected /= np.where(expected.sum(1, keepdims=True) > 0, expected.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(numbers(answer.edited.map), expected, atol=1e-5)
    n = np.arange(len(answer.ids)) if kind != "bert" else np.full(len(answer.ids), len(answer.ids) - 1)
    assert numbers(answer.visible).tolist() == n.tolist()
    if kind != "bert":
        assert np.isnan(numbers(answer.edited.entropy)[0])
        assert np.isnan(numbers(answer.uniform_entropy)[0])
    statistics = {s.name: s for s in overview(LOADED[kind], view(kind, reading=reading)).edited.statistics}
    assert np.isnan(numbers(statistics["first"].value)).all()
    used = n[1:] if kind != "bert" else n[1:-1]
    np.testing.assert_allclose(numbers(statistics["entropy"].uniform), np.log(used).mean(), rtol=1e-6)


def test_the_next_click_runs_no_forward_and_gives_the_same_numbers(monkeypatch):
    loaded = tiny.loaded("llama")
    asked = view("llama", edits=(CUT,), compare=True)
    first = one_head(loaded, asked, (1, 2))
    assert loaded.kept.bytes > 0

    def refuse(*_, **__):
        raise AssertionError("a forward was run")

    monkeypatch.setattr(forward, "run", refuse)
    assert one_head(loaded, asked, (1, 2)) == first
    one_head(loaded, asked, (2, 3), (0, 0))
    one_head(loaded, asked.model_copy(update={"reading": Reading(weighted=True)}), (0, 0))
    with pytest.raises(AssertionError, match="forward"):
        one_head(loaded, view("llama"), (1, 2))


def test_an_overview_of_a_short_text_spares_the_first_click_its_forward(monkeypatch):
    loaded = tiny.loaded("llama")
    overview(loaded, view("llama"))
    alone = one_head(tiny.loaded("llama"), view("llama"), (1, 2))
    monkeypatch.setattr(forward, "run", None)
    assert one_head(loaded, view("llama"), (1, 2)) == alone


def test_kept_inputs_stay_within_their_budget_and_the_oldest_goes_first():
    size = one_question_bytes()
    loaded = tiny.loaded("llama", kept_bytes=int(size * 2.5))
    texts = ["The cat sat.", "The dog sat.", "The fox sat."]
    keys = []
    for text in texts:
        one_head(loaded, view("llama", text=text), (0, 0))
        assert loaded.kept.bytes <= loaded.kept.budget
        keys.append(attention_key(loaded, text))
    assert [bool(loaded.kept.find(key)) for key in keys] == [False, True, True]
    loaded.kept.clear()
    assert loaded.kept.bytes == 0


def one_question_bytes() -> int:
    loaded = tiny.loaded("llama")
    one_head(loaded, view("llama", text="The cat sat."), (0, 0))
    return loaded.kept.bytes


def attention_key(loaded: Loaded, text: str) -> str:
    from backend.models.asking import ask_model

    return ask_model(loaded, view("llama", text=text), LIMITS).states_key()


def test_a_question_larger_than_the_budget_is_answered_and_not_kept():
    loaded = tiny.loaded("llama", kept_bytes=10)
    assert one_head(loaded, view("llama"), (1, 2)) == one_head(LOADED["llama"], view("llama"), (1, 2))
    assert loaded.kept.bytes == 0


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ({"heads": ((3, 0),)}, "3 layers"),
        ({"heads": ((0, 4),)}, "4 heads"),
        ({"heads": ((0, 99_999),)}, "4 heads"),
        ({"heads": ((0, 0),), "region": Region(q0=0, q1=900, k0=0, k1=4)}, "tokens"),
        ({"heads": ((0, 0),), "token": 900}, "tokens"),
    ],
)
def test_what_is_not_there_is_refused_with_both_numbers_before_any_forward(ask, words, monkeypatch):
    monkeypatch.setattr(forward, "run", None)
    with pytest.raises(errors.CannotShow, match=words) as refused:
        one_head(LOADED["llama"], view("llama"), *ask.pop("heads"), **ask)
    assert refused.value.needed > refused.value.available


def test_layer_minus_one_and_a_strength_that_is_no_number_never_reach_the_model():
    with pytest.raises(ValidationError):
        HeadName(layer=-1, head=0)
    with pytest.raises(ValidationError):
        HeadScale(layer=0, head=0, by=float("nan"))
    with pytest.raises(ValidationError):
        HeadName(layer=0, head=10**9)


def test_too_long_a_text_is_refused_with_both_numbers_before_any_forward(monkeypatch):
    monkeypatch.setattr(forward, "run", None)
    for question in (overview, lambda *ask: one_head(*ask, (0, 0))):
        with pytest.raises(errors.TooLong) as refused:
            question(LOADED["llama"], view("llama", text="The cat sat. " * 100))
        assert refused.value.needed > refused.value.available == tiny.CONTEXT


def test_clark_and_without_first_exclude_each_other_in_words():
    reading = Reading(definitions="clark", without_first=True)
    with pytest.raises(errors.BadQuestion, match="Clark"):
        overview(LOADED["bert"], view("bert", reading=reading))


def test_clark_counts_every_row_and_only_stops_and_commas():
    answer = overview(LOADED["bert"], view("bert", reading=Reading(definitions="clark")))
    assert (answer.rows_used, answer.rows_left_out) == (answer.tokens, 0)
    maps = plain_maps("bert", answer.ids)
    pieces = LOADED["bert"].tokenizer.convert_ids_to_tokens(list(answer.ids))
    full, separators = [piece in (".", ",") for piece in pieces], [piece == "[SEP]" for piece in pieces]
    assert sum(full) == 3
    for layer in range(3):
        for head in range(4):
            expected = brute.clark(maps[layer, head], np.ones(maps.shape[2:], bool), separators, full)
            for statistic in answer.edited.statistics[:-1]:
                np.testing.assert_allclose(
                    numbers(statistic.value)[layer, head], expected[statistic.name][0], rtol=1e-4, atol=1e-6
                )


def test_layers_without_attention_are_left_out_and_named():
    loaded = families.loaded("lfm2")
    answer = overview(loaded, View(model="tiny-lfm2", text=TEXT))
    assert answer.layers == (1,)
    assert numbers(answer.edited.maps).shape[0] == 1
    assert any("0, 2" in notice for notice in answer.notices)


def test_a_learned_sink_is_said():
    answer = overview(families.loaded("gpt_oss"), View(model="tiny-gpt_oss", text=TEXT))
    assert any("sink" in notice for notice in answer.notices)


def test_a_windowed_model_is_measured_under_its_window():
    answer = overview(families.loaded("mistral"), View(model="tiny-mistral", text=TEXT, reading=Reading(rows="all")))
    entropy = answer.edited.statistics[0]
    expected = np.mean([np.log(min(n, families.WINDOW)) for n in range(1, answer.tokens + 1)])
    np.testing.assert_allclose(numbers(entropy.uniform), expected, rtol=1e-6)
    induction = answer.edited.statistics[-1]
    assert np.isnan(numbers(induction.value)).all()


def test_costs_grow_with_the_text_and_cover_the_answer():
    loaded = LOADED["llama"]
    small, large = (View(model="tiny-llama", text="The cat sat. " * times) for times in (1, 15))
    for price, ask in (
        (attention.overview_bytes, lambda v: OverviewAsk(view=v)),
        (attention.heads_bytes, lambda v: HeadsAsk(view=v)),
        (attention.head_bytes, lambda v: HeadAsk(view=v, heads=(HeadName(layer=0, head=0),))),
    ):
        assert 0 < price(loaded, ask(small), LIMITS) < price(loaded, ask(large), LIMITS)


def test_equal_questions_have_equal_answers():
    asked = view("llama", edits=(CUT,), compare=True)
    assert overview(LOADED["llama"], asked) == overview(LOADED["llama"], asked)


def test_states_that_overflow_are_refused_and_not_shown_as_a_measurement():
    loaded = tiny.loaded("llama")
    loaded.model.half()
    asked = view("llama", edits=(HeadSet(layer=0, head=1, to=1e6),))
    with pytest.raises(errors.CannotShow, match="breaks down") as refused:
        overview(loaded, asked)
    assert "float16" in refused.value.why
    assert overview(loaded, view("llama")).edited is not None


def test_every_answer_says_that_an_edit_acts_on_no_token():
    loaded = tiny.loaded("llama")
    asked = view("llama", edits=(HeadScale(layer=1, head=2, by=0, at="generated"),))
    answers = (
        overview(loaded, asked),
        one_head(loaded, asked, (1, 2)),
        attention.heads(loaded, HeadsAsk(view=asked), LIMITS),
        tokens.answer(loaded, TokensAsk(view=asked), LIMITS),
    )
    assert all("The edit of head 1.2 acts on no token" in " ".join(answer.notices) for answer in answers)


def test_two_hundred_questions_leave_no_tensor_behind():
    loaded = tiny.loaded("llama", kept_bytes=0)
    asked = view("llama", edits=(CUT,), compare=True)

    def questions() -> None:
        overview(loaded, asked)
        one_head(loaded, asked, (1, 2), token=3)
        with pytest.raises(errors.CannotShow):
            one_head(loaded, asked, (9, 9))

    def tensors() -> int:
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    questions()
    gc.collect()
    before = tensors()
    gc.disable()  # what only a collection would free counts as left behind
    try:
        for _ in range(200):
            questions()
        assert tensors() <= before
    finally:
        gc.enable()
