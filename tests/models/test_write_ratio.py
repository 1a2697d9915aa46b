"""The log-ratio of two models, token by token, against whole runs of both over what was written."""

import copy

import pytest
import torch

from backend.models import decoding, forward
from backend.models.decoding import Batch, Chosen
from backend.models.loaded import Loaded
from backend.models.plan import Row, fold
from backend.models.vectors import SteerMatrix
from backend.models.write import Writer, rows_of
from backend.schema import Edit, HeadScale, Limits, ResidualAdd, Sampling, Steer, View, WriteAnswer, WriteAsk
from tests import families, tiny
from tests.models.test_steer import ONE, TWO, UP, with_vectors

TEXT = "The cat sat on the mat."
OTHER = HeadScale(layer=1, head=1, by=-2)
STEERS = (Steer(steer=ONE, by=1.5), Steer(steer=TWO, by=-2, at="generated"))
MIXED = (ResidualAdd(layer=0, vector=UP, by=2), *STEERS)


def asked(*edits: Edit, ratio: bool = True, compare: bool = True, text: str = TEXT, **how) -> WriteAsk:
    sampling = Sampling(**({"tokens": 9} | how))
    view = View(model="tiny", text=text, edits=edits, compare=compare, sampling=sampling)
    return WriteAsk(view=view, ratio=ratio)


def written(loaded: Loaded, *asks: WriteAsk) -> list[WriteAnswer]:
    """What several people write at once; one joins at every step."""
    batch, waiting = Batch(loaded), [Writer(loaded, ask, Limits()) for ask in asks]
    writers: list[Writer] = []
    everybody = list(waiting)
    while waiting or any(writer.lines for writer in writers):
        found = batch.step() if batch.lines else {}
        if waiting:
            writers.append(waiting.pop(0))
            found |= batch.join(writers[-1].lines)
        for writer in writers:
            before = writer.lines
            for line in before:
                chosen = found[line]
                assert isinstance(chosen, Chosen)
                writer.take(line, chosen)
            batch.leave([line for line in before if line not in writer.lines])
    return [answer for writer in everybody if (answer := writer.answer())]


def lnp(loaded: Loaded, prompt: tuple[int, ...], ids: list[int], *edits: Edit) -> torch.Tensor:
    """float64: ln P of the written ids, from one run of the whole text without a cache."""
    whole = [*prompt, *ids]
    plan = fold(loaded.anatomy, [Row(edits, len(prompt))], len(whole), loaded.vectors)
    logits = forward.run(loaded, [whole], plan, logits=True)[0, len(prompt) - 1 : -1].double()
    return logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]


def check(loaded: Loaded, answer: WriteAnswer, *edits: Edit) -> None:
    others = tuple(edit for edit in edits if isinstance(edit, HeadScale))
    for side in (answer.edited, answer.unedited):
        if side is not None:
            ids = [token.id for token in side.tokens]
            expected = lnp(loaded, answer.ids, ids, *edits) - lnp(loaded, answer.ids, ids, *others)
            assert [token.ratio for token in side.tokens] == pytest.approx(expected.tolist(), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("sliders", [STEERS, MIXED], ids=["steers", "with a direction"])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "lfm2", "recurrent_gemma"])
def test_the_ratio_is_that_of_two_models_over_the_same_text(kind, sliders):
    """Families that write together, alone and anew; of either side, other edits staying in both models."""
    loaded = with_vectors(copy.copy(families.opened(kind)))
    other = OTHER.model_copy(update={"layer": families.FAMILIES[kind].layers[-1]})
    edits = (*sliders, other)
    (answer,) = written(loaded, asked(*edits, temperature=0.9, seed=4))
    check(loaded, answer, *edits)
    assert max(abs(token.ratio) for token in answer.edited.tokens) > 0.05
    (plain,) = written(loaded, asked(*edits, ratio=False, temperature=0.9, seed=4))
    assert [token.id for token in plain.edited.tokens] == [token.id for token in answer.edited.tokens]
    assert {token.ratio for token in plain.edited.tokens} == {None}
    (alone,) = written(loaded, asked(other, ratio=False, compare=False, temperature=0.9, seed=4))
    assert [token.id for token in answer.unedited.tokens] == [token.id for token in alone.edited.tokens]


def test_people_who_come_and_go_with_and_without_ratios_get_what_they_get_alone():
    loaded = with_vectors(tiny.loaded("llama"))
    edits = [STEERS, (), MIXED, (OTHER,), (STEERS[0], OTHER)]
    asks = [
        asked(*each, ratio=place != 3, compare=place % 2 == 0, tokens=3 + 2 * place, text=TEXT[place:], seed=place)
        for place, each in enumerate(edits)
    ]
    together = written(loaded, *asks)
    for ask, answer, each in zip(asks, together, edits, strict=True):
        (alone,) = written(loaded, ask)
        assert [token.id for token in answer.edited.tokens] == [token.id for token in alone.edited.tokens]
        if ask.ratio and each:
            check(loaded, answer, *each)
        else:
            assert {token.ratio for token in answer.edited.tokens} == {None}


def test_without_the_flag_nothing_is_read_out_once_more_and_no_line_follows(monkeypatch):
    loaded = with_vectors(tiny.loaded("llama"))
    read_out, reads = forward.read_out, list[int]()

    def counting(loaded, states, *args, **options):
        reads.append(len(states))
        return read_out(loaded, states, *args, **options)

    monkeypatch.setattr(forward, "read_out", counting)
    monkeypatch.setattr(decoding._Heard, "judge", None)
    written(loaded, asked(*MIXED, ratio=False))
    assert reads == [2] * 9
    monkeypatch.undo()
    monkeypatch.setattr(forward, "read_out", counting)
    reads.clear()
    written(loaded, asked(*STEERS))
    assert reads == [2, 2] * 9
    assert [rows_of(asked(*edits)) for edits in (STEERS, MIXED, (OTHER,))] == [2, 4, 1]
    assert rows_of(asked(*MIXED, ratio=False)) == 2


def test_without_sliders_it_says_so():
    loaded = with_vectors(tiny.loaded("llama"))
    (answer,) = written(loaded, asked(OTHER))
    assert answer.unedited is None
    assert any("No slider is on" in notice for notice in answer.notices)
    assert {token.ratio for token in answer.edited.tokens} == {None}


def test_characters_that_span_tokens_come_out_whole_under_a_steer():
    """A steer whose one direction speaks for the bytes of an emoji, one after the other, by position."""
    loaded = with_vectors(tiny.loaded("llama"))
    emoji = "🙂東"
    ids = loaded.tokenizer(emoji, add_special_tokens=False)["input_ids"]
    assert len(ids) > 2, "each is several tokens"
    prompt = len(loaded.tokenizer(TEXT)["input_ids"])
    edits = tuple(speaking(loaded, prompt, ids))
    (answer,) = written(loaded, asked(*edits, tokens=len(ids)))
    assert [token.id for token in answer.edited.tokens] == ids
    assert answer.edited.text == emoji
    pieces = [token.text for token in answer.edited.tokens]
    assert "".join(pieces) == emoji
    assert "�" not in "".join(pieces)
    assert [piece for piece in pieces if piece] == list(emoji), "each when its last byte came, whole"
    assert all(token.ratio > 0 for token in answer.edited.tokens)


def speaking(loaded: Loaded, prompt: int, ids: list[int]) -> list[Steer]:
    """One steer a position that makes one token by far the likeliest there: c W = (c · c) e / ‖e‖², times a lot."""
    steers, whole = [], [*loaded.tokenizer(TEXT)["input_ids"], *ids]
    states_TD = forward.run(loaded, [whole])[0]
    for place, id in enumerate(ids):
        e_D, c_D = loaded.anatomy.unembedding.weight[id], states_TD[prompt - 1 + place]
        name = f"{place + 5:064x}"
        loaded.vectors.steers[name] = SteerMatrix((c_D / c_D.norm())[:, None], (e_D / e_D.norm())[None])
        steers.append(Steer(steer=name, by=400, at=(prompt - 1 + place,)))
    return steers
