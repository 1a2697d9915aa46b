"""Every statistic of attention equals its definition, under every mask and reading, and known answers come out."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.measure import attention
from backend.measure.attention import Reducer, Whole
from backend.measure.definitions import STATISTICS, definition
from backend.measure.head import row_entropy
from backend.measure.seen import Marks
from backend.measure.statistics import NAMES, Means
from backend.schema.view import Reading
from tests.measure import brute

HEADS = 3
MASKS = ("causal", "both ways", "window", "window both ways", "packed", "none")


def visible_pairs(kind: str, tokens: int) -> np.ndarray:
    i, j = np.indices((tokens, tokens))
    window = max(1, tokens // 3)
    return {
        "causal": j <= i,
        "both ways": np.ones((tokens, tokens), bool),
        "none": np.ones((tokens, tokens), bool),
        "window": (j <= i) & (i - j < window),
        "window both ways": abs(i - j) < window,
        "packed": (j <= i) & (i // max(1, tokens // 2) == j // max(1, tokens // 2)),
    }[kind]


def random_maps(seed: int, visible: np.ndarray, sharpness: float = 3.0) -> torch.Tensor:
    dice = np.random.default_rng(seed)
    scores = torch.tensor(dice.normal(size=(HEADS, *visible.shape)) * sharpness, dtype=torch.float32)
    return scores.masked_fill(~torch.tensor(visible), torch.finfo(torch.float32).min).softmax(-1)


def random_marks(seed: int, tokens: int) -> Marks:
    dice = np.random.default_rng(seed + 1)
    rows, separators, punctuation = (torch.tensor(dice.random(tokens) < share) for share in (0.8, 0.1, 0.3))
    return Marks(rows, separators, punctuation)


def plain_marks(tokens: int) -> Marks:
    no = torch.zeros(tokens, dtype=torch.bool)
    return Marks(~no, no, no.clone())


def reduced(maps: torch.Tensor, visible: np.ndarray | None, marks: Marks, reading: Reading, cells: int | None = None):
    mask = None if visible is None else torch.tensor(visible)
    return reduced_by(Reducer(maps.shape[-1], marks, reading, cells), maps, mask)


def reduced_by(reducer: Reducer, maps: torch.Tensor, mask: torch.Tensor | None):
    layer = reducer.reduce(Whole(maps), mask)
    (table,) = reducer.means([layer])
    means = {name: Means(m.value_H[0], m.uniform_H[0], m.rows_H[0]) for name, m in table.items()}
    return SimpleNamespace(cells_HQK=layer.cells_HQK, means=means)


def values(maps: torch.Tensor, visible: np.ndarray | None, marks: Marks | None = None, **reading) -> dict[str, float]:
    marks = marks or plain_marks(maps.shape[-1])
    means = reduced(maps, visible, marks, Reading(rows="all", **reading)).means
    return {name: float(mean.value_H[0]) for name, mean in means.items()}


def uniform_values(maps: torch.Tensor, visible: np.ndarray | None, **reading) -> dict[str, float]:
    means = reduced(maps, visible, plain_marks(maps.shape[-1]), Reading(rows="all", **reading)).means
    return {name: float(mean.uniform_H[0]) for name, mean in means.items()}


@settings(deadline=None, max_examples=120)
@given(
    seed=st.integers(0, 10**6), tokens=st.integers(1, 40), kind=st.sampled_from(MASKS),
    without_first=st.booleans(), block=st.sampled_from([64, 1024, 1 << 20]), sharpness=st.sampled_from([0.0, 3, 60]),
)  # fmt: skip
@example(seed=0, tokens=1, kind="causal", without_first=True, block=64, sharpness=3.0)
@example(seed=0, tokens=2, kind="both ways", without_first=True, block=64, sharpness=60.0)
def test_every_statistic_equals_its_definition(seed, tokens, kind, without_first, block, sharpness):
    visible = visible_pairs(kind, tokens)
    maps, marks = random_maps(seed, visible, sharpness), random_marks(seed, tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attention.BLOCK_BYTES, "cpu", block)
        found = reduced(maps, None if kind == "none" else visible, marks, Reading(without_first=without_first)).means
    for head in range(HEADS):
        expected = brute.statistics(
            maps[head].numpy(), visible, marks.rows_T.numpy(), marks.separators_S.numpy(),
            marks.punctuation_S.numpy(), without_first,
        )  # fmt: skip
        for name in NAMES:
            got = [float(getattr(found[name], part)[head]) for part in ("value_H", "uniform_H", "rows_H")]
            np.testing.assert_allclose(got, expected[name], rtol=2e-5, atol=2e-6, err_msg=name)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6), tokens=st.integers(1, 30), kind=st.sampled_from(MASKS),
    block=st.sampled_from([64, 1024, 1 << 20]),
)  # fmt: skip
def test_clark_counts_as_published(seed, tokens, kind, block):
    visible = visible_pairs(kind, tokens)
    maps, marks = random_maps(seed, visible), random_marks(seed, tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attention.BLOCK_BYTES, "cpu", block)
        found = reduced(maps, visible, marks, Reading(definitions="clark")).means
    for head in range(HEADS):
        expected = brute.clark(maps[head].numpy(), visible, marks.separators_S.numpy(), marks.punctuation_S.numpy())
        for name in NAMES:
            got = [float(getattr(found[name], part)[head]) for part in ("value_H", "uniform_H", "rows_H")]
            np.testing.assert_allclose(got, expected[name], rtol=2e-5, atol=2e-6, err_msg=name)


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 10**6), tokens=st.integers(1, 50), kind=st.sampled_from(MASKS),
    cells=st.integers(4, 64), pool=st.sampled_from(["max", "mean"]), without_first=st.booleans(),
    block=st.sampled_from([64, 1 << 20]),
)  # fmt: skip
def test_every_cell_of_a_thumbnail_is_the_max_or_mean_of_its_pairs(
    seed, tokens, kind, cells, pool, without_first, block
):
    visible = visible_pairs(kind, tokens)
    maps = random_maps(seed, visible)
    reading = Reading(pool=pool, without_first=without_first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attention.BLOCK_BYTES, "cpu", block)
        got = reduced(maps, visible, plain_marks(tokens), reading, cells).cells_HQK
    for head in range(HEADS):
        p, seen = maps[head].numpy().astype(np.float64), visible.copy()
        if without_first:
            p[:, 0], seen[:, 0] = 0, False
            p = p / np.where(p.sum(1, keepdims=True) > 0, p.sum(1, keepdims=True), 1)
        np.testing.assert_allclose(got[head].numpy(), brute.cells(p, seen, cells, pool), rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6), tokens=st.integers(1, 50), kind=st.sampled_from(MASKS), cells=st.integers(4, 64),
    pool=st.sampled_from(["max", "mean"]),
)  # fmt: skip
def test_a_difference_shows_the_largest_change_of_each_cell_with_its_sign(seed, tokens, kind, cells, pool):
    visible = visible_pairs(kind, tokens)
    one, other = random_maps(seed, visible), random_maps(seed + 1, visible)
    reducer = Reducer(tokens, plain_marks(tokens), Reading(pool=pool), cells)
    got = reducer.change(Whole(one), Whole(other), torch.tensor(visible))
    assert reducer.apart(Whole(one), Whole(other), torch.tensor(visible)) == float((one - other).abs().max())
    change = (one - other).numpy()
    for head in range(HEADS):
        how = "change" if pool == "max" else "mean"
        expected = brute.cells(change[head], visible, cells, how)
        if pool == "max":  # +d beside −d in one cell, as in a row of two keys: either sign is right
            least, most = (brute.cells(side, visible, cells, "max") for side in (-change[head], change[head]))
            expected = np.where(np.abs(most - least) < 1e-6, np.copysign(expected, got[head].numpy()), expected)
        np.testing.assert_allclose(got[head].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("without_first", [False, True])
def test_uniform_attention_equals_its_baseline_in_every_statistic(kind, without_first):
    tokens = 24
    visible = visible_pairs(kind, tokens)
    maps = torch.tensor(visible / visible.sum(1, keepdims=True), dtype=torch.float32).expand(HEADS, -1, -1)
    reading = Reading(without_first=without_first)
    for name, mean in reduced(maps, visible, random_marks(5, tokens), reading).means.items():
        np.testing.assert_allclose(mean.value_H.numpy(), mean.uniform_H.numpy(), rtol=1e-5, err_msg=name)


def test_uniform_attention_over_n_keys_has_entropy_ln_n_and_n_effective_tokens():
    tokens = 50
    uniform = torch.full((1, tokens, tokens), 1 / tokens)
    found = values(uniform, None)
    assert found["entropy"] == pytest.approx(np.log(tokens), rel=1e-6)
    assert found["normalised"] == pytest.approx(1, rel=1e-6)
    assert found["effective"] == pytest.approx(tokens, rel=1e-5)
    assert found["self"] == found["first"] == pytest.approx(1 / tokens, rel=1e-6)


def test_uniform_causal_attention_is_measured_against_its_own_rows_and_not_ln_t():
    tokens = 50
    visible = visible_pairs("causal", tokens)
    maps = torch.tensor(visible / visible.sum(1, keepdims=True), dtype=torch.float32)[None]
    expected = np.mean([np.log(n) for n in range(1, tokens + 1)])
    assert values(maps, visible)["entropy"] == pytest.approx(expected, rel=1e-6)
    assert uniform_values(maps, visible)["entropy"] == pytest.approx(expected, rel=1e-6)
    assert values(maps, visible)["normalised"] == pytest.approx(1, rel=1e-6)
    assert uniform_values(maps, visible, without_first=True)["entropy"] == pytest.approx(
        np.mean([np.log(n) for n in range(1, tokens)]), rel=1e-6
    )


def test_uniform_windowed_attention_has_the_entropy_of_its_window():
    tokens, window = 60, 20
    visible = visible_pairs("window", tokens)
    maps = torch.tensor(visible / visible.sum(1, keepdims=True), dtype=torch.float32)[None]
    expected = np.mean([np.log(min(n, window)) for n in range(1, tokens + 1)])
    assert values(maps, visible)["entropy"] == pytest.approx(expected, rel=1e-6)
    reached = [i for i in range(tokens) if i < window]
    means = reduced(maps, visible, plain_marks(tokens), Reading()).means["first"]
    assert int(means.rows_H[0]) == len(reached)


@pytest.mark.parametrize(
    ("offset", "name"), [(-1, "previous"), (0, "self"), (1, "next")], ids=["previous", "self", "next"]
)
def test_a_shifted_diagonal_is_all_weight_on_its_own_statistic(offset, name):
    tokens = 30
    maps = torch.zeros(1, tokens, tokens)
    for i in range(tokens):
        maps[0, i, min(max(i + offset, 0), tokens - 1)] = 1
    found = values(maps, None)
    assert found[name] == 1
    assert found["entropy"] == pytest.approx(0, abs=1e-12)
    assert found["effective"] == pytest.approx(1)
    others = {"previous", "self", "next"} - {name}
    assert all(found[other] <= 1 / (tokens - 1) + 1e-6 for other in others)
    distance = {-1: (tokens - 1) / tokens, 0: 0, 1: (tokens - 1) / tokens}[offset]
    assert found["distance"] == pytest.approx(distance, abs=1e-6)


def test_next_is_not_available_in_a_causal_model_and_never_zero():
    visible = visible_pairs("causal", 12)
    means = reduced(random_maps(0, visible), visible, plain_marks(12), Reading()).means["next"]
    assert bool(means.value_H.isnan().all())
    assert bool(means.uniform_H.isnan().all())
    assert means.rows_H.tolist() == [0] * HEADS


def test_a_text_of_one_token_has_no_statistic_without_it():
    maps = torch.ones(HEADS, 1, 1)
    for mean in reduced(maps, np.ones((1, 1), bool), plain_marks(1), Reading(without_first=True), 4).means.values():
        assert bool(mean.value_H.isnan().all())


def test_a_head_that_gives_everything_to_the_first_token_has_rows_left_out_without_it():
    tokens = 8
    visible = visible_pairs("causal", tokens)
    maps = random_maps(1, visible)
    maps[0] = 0
    maps[0, :, 0] = 1
    means = reduced(maps, visible, plain_marks(tokens), Reading(without_first=True)).means["entropy"]
    assert means.rows_H.tolist() == [0, tokens - 1, tokens - 1]
    assert bool(means.value_H[0].isnan())


def test_rows_that_are_left_out_change_no_number():
    tokens = 20
    visible = visible_pairs("causal", tokens)
    maps, marks = random_maps(2, visible), plain_marks(tokens)
    marks.rows_T[:5] = False
    other = maps.clone()
    other[:, :5] = torch.tensor(visible / visible.sum(1, keepdims=True), dtype=torch.float32)[:5]
    one, two = (reduced(each, visible, marks, Reading()).means for each in (maps, other))
    for name in NAMES:
        torch.testing.assert_close(one[name].value_H, two[name].value_H, equal_nan=True)


@pytest.mark.parametrize(("tokens", "nats"), [(16, 0.001217), (128, 0.001494), (512, 0.001642)])
def test_one_hot_attention_has_clarks_smoothed_entropy(tokens, nats):
    maps = torch.eye(tokens)[None]
    assert values(maps, None, definitions="clark")["entropy"] == pytest.approx(nats, abs=5e-7)


@pytest.mark.parametrize("tokens", [16, 128])
def test_clark_divides_the_next_token_by_t(tokens):
    maps = torch.zeros(1, tokens, tokens)
    for i in range(tokens - 1):
        maps[0, i, i + 1] = 1
    maps[0, -1, 0] = 1
    found = values(maps, None, definitions="clark")
    assert found["next"] == pytest.approx((tokens - 1) / tokens)
    assert uniform_values(maps, None, definitions="clark")["entropy"] == pytest.approx(np.log(tokens), rel=1e-9)


def test_an_attention_sink_takes_no_part_in_distance_and_entropy():
    tokens = 10
    visible = visible_pairs("causal", tokens)
    maps = random_maps(3, visible) * 0.25
    expected = brute.statistics(maps[0].numpy(), visible, [True] * tokens, [False] * tokens, [False] * tokens)
    found = values(maps, visible)
    for name in ("entropy", "distance", "self"):
        assert found[name] == pytest.approx(expected[name][0], rel=1e-5)


def test_scratch_memory_is_used_again_and_leaves_nothing_behind():
    tokens = 24
    visible = visible_pairs("causal", tokens)
    reducer = Reducer(tokens, plain_marks(tokens), Reading(), 8)
    first, second = random_maps(1, visible), random_maps(2, visible)
    alone = reduced_by(Reducer(tokens, plain_marks(tokens), Reading(), 8), second, torch.tensor(visible))
    kept = reduced_by(reducer, first, torch.tensor(visible))
    before = kept.cells_HQK.clone()
    again = reduced_by(reducer, second, torch.tensor(visible))
    assert torch.equal(again.cells_HQK, alone.cells_HQK)
    assert torch.equal(kept.cells_HQK, before)
    assert torch.equal(again.means["entropy"].value_H, alone.means["entropy"].value_H)


def test_layers_taken_together_give_what_each_gives_alone():
    """The way of a graphics card: rows outlast their layer, and several masks alternate."""
    tokens, masks = 20, {kind: torch.tensor(visible_pairs(kind, 20)) for kind in ("causal", "window")}
    reducer = Reducer(tokens, random_marks(4, tokens), Reading(), 8, sinks=False)
    kinds = ["causal", "causal", "window", "causal"]
    layers = [random_maps(seed, masks[kind].numpy()) for seed, kind in enumerate(kinds)]
    lasting = [reducer.reduce(Whole(maps), masks[kind], lasting=True) for maps, kind in zip(layers, kinds, strict=True)]
    tables = reducer.means(lasting)
    assert [len(table["entropy"].value_H) for table in tables] == [2, 1, 1]
    for layer, (maps, kind) in enumerate(zip(layers, kinds, strict=True)):
        alone = reduced_by(Reducer(tokens, random_marks(4, tokens), Reading(), 8), maps, masks[kind]).means
        for name, means in alone.items():
            for field in ("value_H", "uniform_H", "rows_H"):
                found = torch.cat([getattr(table[name], field) for table in tables])[layer]
                torch.testing.assert_close(found, getattr(means, field), equal_nan=True)


def test_every_statistic_is_defined_in_words_and_says_what_a_choice_changed():
    assert [*NAMES, "induction", "sink"] == list(STATISTICS)
    for name in STATISTICS:
        assert definition(name, Reading()).endswith(".")
        if name != "induction":
            assert definition(name, Reading(without_first=True)) != definition(name, Reading())
            assert definition(name, Reading(definitions="clark")) != definition(name, Reading())


def sunk(maps: torch.Tensor, kept: float) -> torch.Tensor:
    """The same attention in a model that gives 1 − kept of every row to a learned sink."""
    return maps * kept


@pytest.mark.parametrize("kept", [1.0, 0.5, 0.01])
def test_a_learned_sink_has_its_own_share_and_changes_no_entropy_of_the_rest(kept):
    visible = visible_pairs("causal", 12)
    maps, mask = random_maps(3, visible), torch.tensor(visible)
    plain = reduced_by(Reducer(12, plain_marks(12), Reading(), None), maps, mask).means
    found = reduced_by(Reducer(12, plain_marks(12), Reading(), None, sinks=True), sunk(maps, kept), mask).means
    for name in ("entropy", "normalised", "effective", "distance"):
        torch.testing.assert_close(found[name].value_H, plain[name].value_H, rtol=1e-4, atol=1e-5)
    for name in ("previous", "self", "first"):
        torch.testing.assert_close(found[name].value_H, plain[name].value_H * kept, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        found["sink"].value_H, torch.full((HEADS,), 1 - kept, dtype=torch.float64), atol=1e-5, rtol=0
    )
    assert "sink" not in plain


def test_a_row_with_no_weight_left_has_no_entropy():
    entropy = row_entropy(torch.tensor([[0.0, 0.0], [0.5, 0.5]]), torch.tensor([1, 2]))
    assert entropy[0].isnan()
    assert entropy[1] == pytest.approx(0.6931, abs=1e-4)
