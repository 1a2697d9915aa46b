"""Every kind of edit does what it says, on tokens of padded, packed and cached rows as on a text alone."""

from functools import cache

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from backend import errors
from backend.models import forward
from backend.models.checks import check_edits
from backend.models.loaded import Loaded
from backend.models.plan import Plan, Row, fold
from backend.models.vectors import Direction, SteerMatrix
from backend.schema import (
    Edit,
    FfnOutSet,
    FfnScale,
    FfnSet,
    HeadScale,
    HeadSet,
    ResidualAdd,
    ResidualSet,
    Steer,
)
from tests import tiny

TOKENS = 10
PROMPT = 6
DECODERS = ("llama", "gpt2")
VECTOR = "a" * 64


class Made:
    """A direction as wide as it is asked for, and a steer of rank 2."""

    def __init__(self, width: int, head_width: int) -> None:
        dice = torch.Generator().manual_seed(3)
        self.wide, self.narrow = torch.randn(width, generator=dice), torch.randn(head_width, generator=dice)
        self.matrix = SteerMatrix(torch.randn(width, 2, generator=dice), torch.randn(2, width, generator=dice) / width)

    def direction(self, id: str) -> Direction:
        return Direction(self.wide if id == VECTOR else self.narrow)

    def steer(self, id: str) -> SteerMatrix:
        return self.matrix


@cache
def opened(kind: str) -> Loaded:
    loaded = tiny.loaded(kind)
    loaded.vectors = Made(loaded.anatomy.shape.width, loaded.anatomy.shape.head_width)
    return loaded


def some_ids(loaded: Loaded, seed: int = 5, tokens: int = TOKENS) -> list[int]:
    dice = torch.Generator().manual_seed(seed)
    return torch.randint(5, loaded.anatomy.shape.vocabulary, (tokens,), generator=dice).tolist()


def plan_of(loaded: Loaded, rows: list, tokens: int = TOKENS) -> Plan | None:
    return fold(loaded.anatomy, rows, tokens, loaded.vectors)


def logits(loaded: Loaded, *edits: Edit, prompt: int = PROMPT, **options) -> Tensor:
    plan = plan_of(loaded, [Row(edits, prompt)])
    return forward.run(loaded, [some_ids(loaded)], plan, logits=True, **options)[0]


def read_at(loaded: Loaded, tap: str, *edits: Edit) -> Tensor:
    found: list[Tensor] = []
    logits(loaded, *edits, read={tap: lambda x: found.append(x[0].clone())})
    return found[0]


EVERY: tuple[Edit, ...] = (
    HeadScale(layer=1, head=2, by=-0.5),
    HeadSet(layer=1, head=2, to=0.3),
    HeadSet(layer=1, head=2, to="b" * 64),
    FfnScale(layer=1, unit=7, by=-9),
    FfnSet(layer=1, unit=7, to=4),
    FfnOutSet(layer=1, to=0.25),
    FfnOutSet(layer=1, to=VECTOR),
    ResidualAdd(layer=1, vector=VECTOR, by=1.5),
    ResidualSet(layer=1, to=0.5),
    ResidualSet(layer=1, to=VECTOR),
    Steer(steer=VECTOR, by=0.8),
)
KINDS = [f"{edit.kind}{index}" for index, edit in enumerate(EVERY)]
each_kind = pytest.mark.parametrize("edit", EVERY, ids=KINDS)
each_decoder = pytest.mark.parametrize("kind", DECODERS)


@each_decoder
@each_kind
def test_an_edit_changes_the_tokens_it_names_and_what_follows_them(kind, edit):
    loaded = opened(kind)
    plain, edited = logits(loaded), logits(loaded, edit.model_copy(update={"at": (4,)}))
    assert torch.equal(plain[:4], edited[:4]), "nothing before the token"
    assert float((plain[4] - edited[4]).abs().max()) > 1e-4
    if isinstance(edit, Steer):
        assert torch.equal(plain[5:], edited[5:]), "a steer changes no state, so no later token"


@each_decoder
@each_kind
def test_at_is_all_prompt_generated_or_positions(kind, edit):
    loaded = opened(kind)
    parts = {at: logits(loaded, edit.model_copy(update={"at": at})) for at in ("all", "prompt", "generated")}
    both = [edit.model_copy(update={"at": at}) for at in ("prompt", "generated")]
    torch.testing.assert_close(logits(loaded, *both), parts["all"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        logits(loaded, edit.model_copy(update={"at": tuple(range(PROMPT))})), parts["prompt"], rtol=0, atol=0
    )
    assert not torch.allclose(parts["prompt"], parts["generated"], atol=1e-4)


@each_decoder
def test_taps_hold_what_the_edits_say(kind):
    loaded = opened(kind)
    made, at = loaded.vectors, (3, 8)
    units, stream = read_at(loaded, "ffn.1"), read_at(loaded, "residual.1")
    expected = units.clone()
    expected[list(at), 7] *= -9
    assert torch.equal(read_at(loaded, "ffn.1", FfnScale(layer=1, unit=7, by=-9, at=at)), expected)
    expected[list(at), 7] = 4
    assert torch.equal(read_at(loaded, "ffn.1", FfnSet(layer=1, unit=7, to=4, at=at)), expected)
    moved = stream.clone()
    moved[list(at)] += 1.5 * made.wide
    torch.testing.assert_close(
        read_at(loaded, "residual.1", ResidualAdd(layer=1, vector=VECTOR, by=1.5, at=at)), moved, rtol=1e-6, atol=1e-6
    )
    moved[list(at)] = made.wide
    assert torch.equal(read_at(loaded, "residual.1", ResidualSet(layer=1, to=VECTOR, at=at)), moved)
    written = read_at(loaded, "ffn_out.1").clone()
    written[list(at)] = made.wide
    assert torch.equal(read_at(loaded, "ffn_out.1", FfnOutSet(layer=1, to=VECTOR, at=at)), written)
    heads = read_at(loaded, "heads.1").clone()
    heads[list(at), 2] = made.narrow
    assert torch.equal(read_at(loaded, "heads.1", HeadSet(layer=1, head=2, to="b" * 64, at=at)), heads)


@each_decoder
def test_what_a_unit_writes_is_its_coefficient_times_its_value_vector(kind):
    """Off changes the stream by exactly −m v there (the blocks of both shapes add their feed-forward output)."""
    loaded = opened(kind)
    at, unit = (4,), 7
    weight = loaded.anatomy.write[1].weight
    value_D = weight[unit] if kind == "gpt2" else weight[:, unit]
    coefficient = read_at(loaded, "ffn.1")[4, unit]
    change = read_at(loaded, "residual.1", FfnScale(layer=1, unit=unit, by=0, at=at)) - read_at(loaded, "residual.1")
    torch.testing.assert_close(change[4], -coefficient * value_D, rtol=1e-4, atol=1e-6)
    assert not change[:4].any()


@each_decoder
def test_set_to_what_is_there_changes_nothing(kind):
    loaded = opened(kind)
    coefficient = float(read_at(loaded, "ffn.1")[4, 7])
    there = FfnSet(layer=1, unit=7, to=coefficient, at=(4,))
    torch.testing.assert_close(logits(loaded, there), logits(loaded), rtol=0, atol=1e-6)
    one = HeadScale(layer=1, head=2, by=1)
    assert torch.equal(logits(loaded, one, FfnScale(layer=0, unit=3, by=1)), logits(loaded))


@each_decoder
def test_zero_strength_is_bit_identical(kind):
    loaded = opened(kind)
    nothing = (ResidualAdd(layer=1, vector=VECTOR, by=0), Steer(steer=VECTOR, by=0))
    assert torch.equal(logits(loaded, *nothing), logits(loaded))


@each_decoder
def test_a_steer_equals_editing_every_output_embedding(kind):
    loaded = opened(kind)
    matrix = loaded.vectors.matrix
    with torch.inference_mode():
        states_TD = loaded.model.base_model(input_ids=torch.tensor([some_ids(loaded)])).last_hidden_state[0]
        table_VD = loaded.anatomy.unembedding.weight
        moved_VD = table_VD + 0.8 * table_VD @ (matrix.left_DK @ matrix.right_KD).T  # e becomes e + a W e
    expected = states_TD @ moved_VD.T
    torch.testing.assert_close(logits(loaded, Steer(steer=VECTOR, by=0.8)), expected, rtol=1e-4, atol=1e-5)


@each_decoder
def test_steers_are_linear_and_add(kind):
    loaded = opened(kind)
    plain = logits(loaded)
    once = logits(loaded, Steer(steer=VECTOR, by=0.5)) - plain
    torch.testing.assert_close(logits(loaded, Steer(steer=VECTOR, by=2)) - plain, 4 * once, rtol=1e-4, atol=1e-5)
    halves = [Steer(steer=VECTOR, by=0.25)] * 2
    torch.testing.assert_close(logits(loaded, *halves) - plain, once, rtol=1e-4, atol=1e-6)


def batch(loaded: Loaded) -> tuple[list[list[int]], list[tuple[Edit, ...]]]:
    """Texts of several lengths, each with edits of its own."""
    lengths = (TOKENS, 7, 9, 4)
    texts = [some_ids(loaded, seed, tokens) for seed, tokens in enumerate(lengths)]
    return texts, [(), (EVERY[3], EVERY[7]), (EVERY[0].model_copy(update={"at": (0, 3)}), EVERY[10]), EVERY]


def alone(loaded: Loaded, ids: list[int], edits: tuple[Edit, ...]) -> Tensor:
    return forward.run(loaded, [ids], plan_of(loaded, [Row(edits, 2)], len(ids)), logits=True)[0]


@each_decoder
def test_left_padded_rows_equal_solo_runs(kind):
    loaded = opened(kind)
    texts, edits = batch(loaded)
    gaps = [TOKENS - len(ids) for ids in texts]
    ids_BT = [[1] * gap + ids for gap, ids in zip(gaps, texts, strict=True)]
    mask_BT = torch.tensor([[0] * gap + [1] * len(ids) for gap, ids in zip(gaps, texts, strict=True)])
    rows = [Row(each, 2, tokens=len(ids)) for each, ids in zip(edits, texts, strict=True)]
    together = forward.run(
        loaded, ids_BT, plan_of(loaded, rows), mask_BT=mask_BT, logits=True,
        positions_BT=(mask_BT.cumsum(-1) - 1).clamp(min=0),
    )  # fmt: skip
    for place, (gap, ids) in enumerate(zip(gaps, texts, strict=True)):
        torch.testing.assert_close(together[place, gap:], alone(loaded, ids, edits[place]), rtol=1e-5, atol=1e-5)


@each_decoder
def test_packed_texts_equal_solo_runs(kind):
    loaded = opened(kind)
    texts, edits = batch(loaded)
    total = sum(map(len, texts))
    packed = [Row(each, 2, tokens=len(ids)) for each, ids in zip(edits, texts, strict=True)]
    positions = torch.tensor([[place for ids in texts for place in range(len(ids))]])
    together = forward.run(
        loaded, [[id for ids in texts for id in ids]], plan_of(loaded, [packed], total), positions_BT=positions,
        logits=True,
    )[0]  # fmt: skip
    first = 0
    for ids, each in zip(texts, edits, strict=True):
        torch.testing.assert_close(together[first : first + len(ids)], alone(loaded, ids, each), rtol=1e-5, atol=1e-5)
        first += len(ids)


@each_decoder
def test_cached_steps_equal_one_pass_over_all_tokens(kind):
    loaded = opened(kind)
    ids = some_ids(loaded)
    edits = (*EVERY[:6], EVERY[10], EVERY[3].model_copy(update={"at": (2, 8)}))
    mixed = tuple(
        edit if isinstance(edit.at, tuple) else edit.model_copy(update={"at": at})
        for edit, at in zip(edits, ("all", "generated", (8,), "prompt", "all", "generated", "all", ""), strict=True)
    )
    plan = plan_of(loaded, [Row(mixed, PROMPT)])
    whole = forward.run(loaded, [ids], plan, logits=True)[0]
    cache, steps = DynamicCache(config=loaded.model.config), [(0, PROMPT), *((t, t + 1) for t in range(PROMPT, TOKENS))]
    found = [
        forward.run(loaded, [ids[first:last]], plan.part(first, last), cache=cache, logits=True)[0]
        for first, last in steps
    ]
    torch.testing.assert_close(torch.cat(found), whole, rtol=1e-5, atol=1e-5)


@each_decoder
def test_reading_out_kept_states_under_a_steer_equals_the_run(kind):
    loaded = opened(kind)
    plan = plan_of(loaded, [Row((Steer(steer=VECTOR, by=0.8, at=(1, 7)),), PROMPT)])
    states = forward.run(loaded, [some_ids(loaded)], plan)[0]
    expected = forward.run(loaded, [some_ids(loaded)], plan, logits=True)[0]
    torch.testing.assert_close(forward.read_out(loaded, states, plan), expected, rtol=1e-5, atol=1e-5)
    part = forward.read_out(loaded, states[6:9], plan.part(6, 9))
    torch.testing.assert_close(part, expected[6:9], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_model_says_which_edits_it_takes(kind):
    loaded = opened(kind)
    assert {tap: ability.can for tap, ability in loaded.card.edits.items()} == dict.fromkeys(
        ("heads", "ffn", "ffn_out", "residual", "unembed"), True
    )
    kept = {promise.name: promise.kept for promise in loaded.card.promises if promise.name.endswith("has an effect")}
    assert len(kept) == 8
    assert all(kept.values())


def test_what_a_model_was_not_seen_to_take_is_refused_with_the_reason():
    loaded = opened("llama")
    offered = {"residual": loaded.card.edits["ffn"].model_copy(update={"can": False, "why": "it was not seen to act"})}
    with pytest.raises(errors.CannotShow, match="not seen to act"):
        check_edits(loaded.anatomy, [ResidualSet(layer=0, to=0)], TOKENS, loaded.vectors, offered)
