"""The lens reads every stream through the model's own final norm and read-out; its last row is the model's answer."""

import numpy as np
import pytest
import torch

from backend import errors
from backend.models import forward, tokens
from backend.models import trace as instrument
from backend.models.loaded import Loaded
from backend.schema import (
    FfnSet,
    Focus,
    HeadScale,
    Limits,
    ResidualSet,
    Steer,
    TokensAsk,
    TraceAnswer,
    TraceAsk,
    View,
)
from tests import families, tiny
from tests.models.test_families import VECTOR, Made
from tests.package_models import package_loaded

TEXT = "The quick brown fox jumps over the lazy dog."


def numbers(array) -> np.ndarray:
    return np.frombuffer(array.data, dtype=f"<{array.dtype}").reshape(array.dims)


def trace(loaded: Loaded, text: str = TEXT, part: str = "all", top: int = 4, tracked=(), **view) -> TraceAnswer:
    ask = TraceAsk(view=View(model=loaded.name, text=text, **view), part=part, top=top, tracked=tracked)
    return instrument.trace(loaded, ask, Limits())


STREAMING = tuple(kind for kind in families.DECODERS if not families.FAMILIES[kind].stream)


@pytest.mark.parametrize("kind", sorted(set(families.DECODERS) - set(STREAMING)))
def test_blocks_that_give_no_one_stream_have_no_lens_and_say_so(kind):
    with pytest.raises(errors.CannotShow, match="do not give one stream"):
        trace(families.opened(kind))


@pytest.mark.parametrize("kind", STREAMING)
def test_every_cell_is_the_plain_models_hidden_state_through_its_own_head(kind):
    """Against transformers' own hidden states, whose last is behind the final norm."""
    loaded = families.opened(kind)
    answer = trace(loaded)
    plain = families.plain(kind)
    with torch.no_grad():
        expected = plain(input_ids=torch.tensor([answer.ids]), output_hidden_states=True, output_attentions=False)
        logits = [loaded_read(loaded, states[0]) for states in expected.hidden_states[:-1]] + [expected.logits[0]]
    p = torch.stack(logits).double().softmax(-1)
    (grid,) = answer.edited
    assert len(grid.rows) == answer.layers + 1 == len(logits)
    ids = torch.tensor(numbers(grid.ids).astype(np.int64))
    np.testing.assert_allclose(numbers(grid.probability), p.gather(-1, ids), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(numbers(grid.entropy), torch.special.entr(p).sum(-1), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(numbers(grid.logit)[-1], expected.logits[0].gather(-1, ids[-1]), rtol=1e-4, atol=1e-4)


def loaded_read(loaded: Loaded, states_TD: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return forward.read_out(loaded, loaded.anatomy.final_norm(states_TD[None])[0])


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_settled_is_the_first_row_that_keeps_the_answer(kind):
    answer = trace(tiny.loaded(kind))
    top_RT = numbers(answer.edited[0].ids)[..., 0]
    for column, first in enumerate(numbers(answer.settled)):
        assert (top_RT[first:, column] == top_RT[-1, column]).all()
        assert first == 0 or top_RT[first - 1, column] != top_RT[-1, column]
    final = numbers(answer.edited[0].final)
    np.testing.assert_allclose(final[-1], numbers(answer.edited[0].probability)[-1, :, 0], rtol=1e-5)


def test_the_first_paint_is_a_part_of_the_whole():
    loaded = tiny.loaded("llama")
    whole = trace(loaded, tracked=(7, 9)).edited[0]
    last, column = trace(loaded, part="focus", tracked=(7, 9), focus=Focus(token=3)).edited
    assert (last.rows, column.columns) == ((3,), (3,))
    for name in ("ids", "rank"):
        np.testing.assert_array_equal(numbers(getattr(last, name))[0], numbers(getattr(whole, name))[-1])
        np.testing.assert_array_equal(numbers(getattr(column, name))[:, 0], numbers(getattr(whole, name))[:, 3])
    for name in ("probability", "entropy", "final", "tracked_probability", "tracked_logit"):
        np.testing.assert_allclose(
            numbers(getattr(column, name))[:, 0], numbers(getattr(whole, name))[:, 3], rtol=1e-5, atol=1e-7
        )


def test_the_rest_of_a_lens_needs_no_second_forward(monkeypatch):
    loaded = tiny.loaded("llama")
    trace(loaded, part="focus")
    monkeypatch.setattr(forward, "run", None)
    trace(loaded)


def test_edits_change_the_rows_after_them_and_the_unedited_side_is_the_model():
    loaded = tiny.loaded("llama")
    plain = trace(loaded).edited[0]
    answer = trace(loaded, edits=(FfnSet(layer=1, unit=3, to=6.0),), compare=True)
    edited, unedited = answer.edited[0], answer.unedited[0]
    np.testing.assert_allclose(numbers(unedited.probability), numbers(plain.probability), rtol=1e-4, atol=1e-6)
    change = np.abs(numbers(edited.entropy) - numbers(unedited.entropy)).max(-1)
    assert change[:2].max() < 1e-4
    assert change[2:].min() > 1e-3


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "cohere"])
def test_the_last_row_under_any_edit_is_what_the_edited_model_says(kind):
    loaded = families.loaded(kind)
    loaded.vectors = Made(loaded)
    edits = (HeadScale(layer=0, head=1, by=0), ResidualSet(layer=1, to=0.3, at=(2,)), Steer(steer=VECTOR, by=0.5))
    answer = trace(loaded, edits=edits, compare=True, top=1)
    view = View(model=loaded.name, text=TEXT, edits=edits, compare=True)
    scores = tokens.answer(loaded, TokensAsk(view=view), Limits())
    for grid, side in ((answer.edited[0], scores.scores), (answer.unedited[0], scores.unedited)):
        np.testing.assert_allclose(numbers(grid.entropy)[-1, :-1], numbers(side.entropy)[1:], rtol=1e-4, atol=1e-5)


def test_tracked_tokens_have_rank_probability_and_logit_everywhere():
    loaded = tiny.loaded("llama")
    whole = trace(loaded, top=20).edited[0]
    ids = numbers(whole.ids)
    tracked = tuple(int(id) for id in ids[2, 4, :3])
    grid = trace(loaded, tracked=tracked).edited[0]
    assert numbers(grid.rank)[2, 4].tolist() == [0, 1, 2]
    np.testing.assert_allclose(numbers(grid.tracked_probability)[2, 4], numbers(whole.probability)[2, 4, :3], rtol=1e-5)
    np.testing.assert_allclose(numbers(grid.tracked_logit)[2, 4], numbers(whole.logit)[2, 4, :3], rtol=1e-5)


@pytest.mark.parametrize("part", ["all", "focus"])
def test_a_comparison_says_what_the_unedited_model_gives_the_edited_ones_words(part):
    """Against the unedited run alone, which follows those words as tracked tokens."""
    loaded = families.opened("llama")
    edits = (HeadScale(layer=0, head=1, by=-3.0), FfnSet(layer=1, unit=2, to=6.0))
    answer = trace(loaded, part=part, edits=edits, compare=True)
    for edited, unedited in zip(answer.edited, answer.unedited, strict=True):
        first = numbers(edited.ids).reshape(edited.ids.dims)[..., 0]
        wanted = sorted(set(first.flatten().tolist()))
        found = np.full(first.shape, np.nan)
        for block in range(0, len(wanted), 16):
            (alone,) = trace(loaded, tracked=tuple(wanted[block : block + 16])).edited
            p = numbers(alone.tracked_probability).reshape(alone.tracked_probability.dims)
            p = p[np.ix_(list(edited.rows), list(edited.columns))]
            for place, id in enumerate(wanted[block : block + 16]):
                found = np.where(first == id, p[..., place], found)
        assert edited.shown is None
        assert np.allclose(numbers(unedited.shown).reshape(first.shape), found, rtol=1e-5, atol=1e-8)
    assert 0 < answer.noise < 1e-4


def test_every_id_of_an_answer_has_its_word():
    answer = trace(tiny.loaded("gpt2"), tracked=(5,))
    shown = {str(id) for id in numbers(answer.edited[0].ids).flatten()} | {"5"}
    assert shown == set(answer.words)
    assert all(answer.words.values())


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("bert", {}, "no lens"),
        ("llama", {"tracked": (9_999,)}, "vocabulary has"),
        ("llama", {"focus": Focus(token=999)}, "There is no token 999"),
    ],
)
def test_what_has_no_lens_is_refused_in_words(kind, options, words):
    with pytest.raises(errors.CannotShow) as refusal:
        trace(tiny.loaded(kind), part="focus", **options)
    assert words in f"{refusal.value.what} {refusal.value.why}"


def test_a_model_whose_final_norm_was_not_found_has_no_lens_and_says_so():
    loaded = tiny.loaded("llama")
    loaded.card = loaded.card.model_copy(
        update={
            "can": loaded.card.can | {"trace": loaded.card.can["trace"].model_copy(update={"can": False, "why": "x"})}
        }
    )
    with pytest.raises(errors.CannotShow, match="no lens"):
        trace(loaded)


@pytest.mark.pretrained
def test_the_capital_of_france_emerges_in_smollm2():
    loaded = package_loaded("smollm2-135m-instruct")
    answer = trace(loaded, text="The capital of France is", top=5)
    (grid,) = answer.edited
    final = [answer.words[str(id)] for id in numbers(grid.ids)[-1, -1]]
    assert " Paris" in final
    rank = {id: word for id, word in answer.words.items() if word == " Paris"}
    (paris,) = rank
    tracked = trace(loaded, text="The capital of France is", tracked=(int(paris),)).edited[0]
    ranks = numbers(tracked.rank)[:, -1, 0]
    assert ranks[0] > 1000, "the embedding of “is” knows nothing of it"
    assert ranks[-1] < 5
