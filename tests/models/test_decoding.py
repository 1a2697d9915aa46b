"""The decode loop against transformers' own `generate` and against runs of the whole text, in every family."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from backend import errors
from backend.models import forward, plan
from backend.models.decoding import Batch, Chosen, Line
from backend.models.loaded import Loaded
from backend.models.plan import Row
from backend.models.ways import NAME
from backend.schema import Edit, FfnSet, HeadScale, ResidualAdd, Sampling, Steer
from tests import families, tiny
from tests.questions import VECTOR, Made, plan_of, some_ids

NEW = 50
ALONE = {"deepseek_v32", "lfm2", "jamba", "falcon_h1", "qwen3_next"}
AGAIN = {"openai-gpt", "recurrent_gemma"}
SOME = ("llama", "gpt2", "gemma2", "gpt_neox", "bloom", "mixtral", "lfm2", "openai-gpt")
each_decoder = pytest.mark.parametrize("kind", families.DECODERS)


def line(ids: Sequence[int], edits: Sequence[Edit] = (), **how) -> Line:
    return Line(list(ids), Row(tuple(edits), len(ids)), Sampling(**({"tokens": NEW} | how)), top=2)


def taken(found: dict) -> None:
    for each, chosen in found.items():
        assert isinstance(chosen, Chosen), chosen
        each.ids.append(chosen.id)


def alone(loaded: Loaded, ids: Sequence[int], edits: Sequence[Edit] = (), **how) -> list[int]:
    """What a line writes by itself."""
    batch, one = Batch(loaded), line(ids, edits, **how)
    taken(batch.join([one]))
    while one.left:
        taken(batch.step())
    return one.ids[len(ids) :]


def among_others(loaded: Loaded, lines: Sequence[Line], every: int = 7) -> list[list[int]]:
    """What lines write of which one joins after so many steps of the others, each leaving when it is done."""
    batch, waiting = Batch(loaded), list(lines)
    for step in range(len(lines) * every + max(one.sampling.tokens for one in lines)):
        if waiting and step % every == 0:
            taken(batch.join([waiting.pop(0)]))
        elif batch.lines:
            taken(batch.step())
        batch.leave([one for one in batch.lines if not one.left])
    assert batch.lines == []
    return [one.ids[one.begun :] for one in lines]


def generated(kind: str, ids: Sequence[int], tokens: int) -> list[int]:
    """transformers' own greedy continuation, of a model that LMScope has never seen."""
    model = families.plain(kind)
    with torch.no_grad():
        found = model.generate(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64), do_sample=False,
            max_new_tokens=tokens, eos_token_id=None, pad_token_id=0, use_cache=kind not in AGAIN,
        )  # fmt: skip
    return found[0, len(ids) :].tolist()


@each_decoder
def test_a_greedy_continuation_equals_generate_by_itself_and_beside_others_that_come_and_go(kind):
    """The first tokens alone, then beside a shorter and a longer text, then alone again."""
    loaded = families.opened(kind)
    ids = some_ids(loaded, 3, 12)
    mates = [
        line(some_ids(loaded, 4, 7), tokens=11),
        line(some_ids(loaded, 5, 33), tokens=9, temperature=1.2),
    ]
    found = among_others(loaded, [line(ids), *mates], every=10)
    assert found[0] == generated(kind, ids, NEW)


@pytest.mark.parametrize("kind", SOME)
def test_two_greedy_continuations_at_once_equal_generate(kind):
    loaded = families.opened(kind)
    texts = [some_ids(loaded, 3, 12), some_ids(loaded, 4, 7)]
    expected = [generated(kind, ids, 20) for ids in texts]
    assert among_others(loaded, [line(ids, tokens=20) for ids in texts], every=3) == expected
    assert [alone(loaded, ids, tokens=20) for ids in texts] == expected


@pytest.mark.parametrize("kind", families.OPENED)
def test_a_family_writes_in_the_fastest_way_that_was_seen_to_be_right(kind):
    loaded = families.opened(kind)
    (promise,) = [each for each in loaded.card.promises if each.name == NAME]
    if families.FAMILIES[kind].reads_both_ways:
        assert not loaded.card.can["write"].can
        assert promise.kept is None
        return
    assert loaded.card.can["write"].can
    assert loaded.writes == ("alone" if kind in ALONE else "again" if kind in AGAIN else "together")
    assert promise.kept is (None if kind in AGAIN else True)


PLACES = (("all", "prompt"), ("generated", "all"), ((3, 15, 17), "generated"), ("prompt", (0, 14, 13)))


def edits_at(kind: str, first: object, second: object) -> list[Edit]:
    family = families.FAMILIES[kind]
    layer = family.layers[-1]
    edits: list[Edit] = [HeadScale(layer=layer, head=1, by=-2, at=first), Steer(steer=VECTOR, by=0.8, at=second)]
    if not family.units:
        edits.append(FfnSet(layer=1, unit=7, to=4, at=second))
    if not family.stream:
        edits.append(ResidualAdd(layer=0, vector=VECTOR, by=1.5, at=first))
    return edits


@pytest.mark.parametrize("kind", SOME)
def test_edits_act_in_cached_steps_as_in_a_run_of_the_whole_text(kind, monkeypatch):
    """Four lengths and four sets of edits in one batch; the logits of every step against one pass without cache."""
    loaded = families.loaded(kind)
    loaded.vectors = Made(loaded)
    read_out = forward.read_out
    seen: list[Tensor] = []

    def watched(*args, **more):
        seen.append(read_out(*args, **more))
        return seen[-1]

    monkeypatch.setattr(forward, "read_out", watched)
    lines = [
        line(some_ids(loaded, seed, 6 + 3 * seed), edits_at(kind, *places), tokens=12)
        for seed, places in enumerate(PLACES)
    ]
    told: dict[int, list[Tensor]] = {id(one): [] for one in lines}
    batch, waiting = Batch(loaded), list(lines)
    while waiting or batch.lines:
        seen.clear()
        found = batch.join([waiting.pop(0)]) if waiting else batch.step()
        for one, logits_V in zip(found, torch.cat(seen), strict=True):
            told[id(one)].append(logits_V)
        taken(found)
        batch.leave([one for one in batch.lines if not one.left])
    for one in lines:
        edits = plan_of(loaded, [one.row], len(one.ids))
        whole = forward.run(loaded, [one.ids], edits, logits=True)[0]
        torch.testing.assert_close(torch.stack(told[id(one)]), whole[one.begun - 1 : -1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "lfm2"])
def test_what_a_line_draws_depends_on_nobody_beside_it(kind):
    loaded = families.loaded(kind)
    loaded.vectors = Made(loaded)
    asks = [
        (some_ids(loaded, seed, 5 + 2 * seed), edits_at(kind, "all", "generated") if seed % 2 else (),
         {"temperature": 0.8 * (seed % 3), "seed": seed, "top_p": 1 - 0.1 * (seed % 2), "top_k": seed, "tokens": 9})
        for seed in range(5)
    ]  # fmt: skip
    together = among_others(loaded, [line(ids, edits, **how) for ids, edits, how in asks], every=3)
    assert together == [alone(loaded, ids, edits, **how) for ids, edits, how in asks]


def test_both_sides_share_the_random_numbers():
    loaded = families.opened("llama")
    ids = some_ids(loaded)
    nothing = HeadScale(layer=0, head=0, by=1)
    batch, sides = Batch(loaded), [line(ids, edits, temperature=1.5, seed=4) for edits in ((nothing,), ())]
    taken(batch.join(sides))
    while sides[0].left:
        taken(batch.step())
    assert sides[0].ids == sides[1].ids
    assert alone(loaded, ids, temperature=1.5, seed=5) != sides[0].ids[len(ids) :]


def test_a_continuation_in_two_parts_is_the_whole_one():
    """Random numbers belong to places of a text: going on from there goes on as if nobody had stopped."""
    loaded = families.opened("llama")
    ids, how = some_ids(loaded), {"temperature": 1.1, "seed": 9}
    whole = alone(loaded, ids, tokens=20, **how)
    first = alone(loaded, ids, tokens=8, **how)
    rest = alone(loaded, [*ids, *first], tokens=12, **how)
    assert first + rest == whole


def test_a_token_is_told_with_its_probability_before_temperature_and_cuts():
    loaded = families.opened("llama")
    ids = some_ids(loaded)
    share_V = forward.run(loaded, [ids], logits=True)[0, -1].softmax(-1)
    (chosen,) = Batch(loaded).join([line(ids, temperature=3.0, top_k=50, seed=2)]).values()
    assert chosen.probability == pytest.approx(float(share_V[chosen.id]), rel=1e-4)
    assert list(chosen.top) == share_V.topk(2).indices.tolist()
    assert chosen.top_probability == pytest.approx(share_V.topk(2).values.tolist(), rel=1e-4)


def test_a_line_that_breaks_down_does_not_take_the_others_with_it(monkeypatch):
    monkeypatch.setattr(plan, "STRONGEST", torch.inf)
    loaded = families.loaded("llama")
    loaded.vectors = Made(loaded)
    loaded.vectors.stored["b" * 64] = torch.full((32,), 3e38)
    ids = some_ids(loaded)
    late = ResidualAdd(layer=0, vector="b" * 64, by=1e6, at=(len(ids) + 2,))
    good, bad = line(ids), line(some_ids(loaded, 9), [late])
    batch = Batch(loaded)
    taken(batch.join([good]))
    taken(batch.join([bad]))
    taken(batch.step())
    taken(batch.step())
    found = batch.step()
    assert isinstance(found[bad], errors.CannotShow)
    assert "break" in found[bad].what
    batch.leave([bad])
    good.ids.append(found[good].id)
    while good.left:
        taken(batch.step())
    assert good.ids[len(ids) :] == alone(loaded, ids)


@pytest.mark.parametrize("kind", ["llama", "lfm2", "openai-gpt"])
def test_after_an_exception_nothing_is_left(kind):
    loaded = families.loaded(kind)
    ids = some_ids(loaded)
    before = forward.run(loaded, [ids], logits=True)
    calls = 0

    def cancel():
        nonlocal calls
        calls += 1
        if calls > 5:
            raise errors.Cancelled("Stopped", "so", "Ask again")

    batch, one = Batch(loaded), line(ids, [HeadScale(layer=1, head=0, by=5)])

    def write() -> None:
        taken(batch.join([one], cancel))
        while True:
            taken(batch.step(cancel))

    with pytest.raises(errors.Cancelled):
        write()
    assert torch.equal(forward.run(loaded, [ids], logits=True), before)
    assert len(alone(loaded, ids)) == NEW


def test_columns_that_are_padding_for_everybody_are_given_back():
    loaded = tiny.loaded("llama")
    batch, long, short = Batch(loaded), line(some_ids(loaded, 1, 40)), line(some_ids(loaded, 2, 5))
    for one in (long, short):
        taken(batch.join([one]))
    (group,) = batch._groups
    assert group.held == 40
    batch.leave([long])
    assert group.held == group.cache.get_seq_length() == 5
    taken(batch.step())
    assert short.ids[5:] == alone(loaded, short.ids[:5])[:2]
