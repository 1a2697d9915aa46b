"""A continuation as it is told: both sides, where they part, how they end, and what is refused."""

import pytest

from backend import errors
from backend.models import write
from backend.models.decoding import Batch, Chosen
from backend.models.loaded import Loaded
from backend.models.write import Writer, parted
from backend.schema import FfnSet, HeadScale, Limits, Sampling, View, WriteAnswer, WriteAsk, WriteEvent, Written
from backend.schema import WrittenSide as Side
from tests import families, tiny
from tests.models import spellers

TEXT = "The cat sat on the mat."
EDIT = FfnSet(layer=1, unit=7, to=9)


def ask(text: str = TEXT, *, top: int = 0, edits=(), compare=False, **how) -> WriteAsk:
    view = View(model="tiny", text=text, edits=edits, compare=compare, sampling=Sampling(**({"tokens": 12} | how)))
    return WriteAsk(view=view, top=top)


def run(loaded: Loaded, asked: WriteAsk, limits: Limits | None = None) -> tuple[WriteAnswer, list[WriteEvent]]:
    events: list[WriteEvent] = []
    writer, batch = Writer(loaded, asked, limits or Limits(), events.append), Batch(loaded)
    found = batch.join(writer.lines) if writer.lines else {}
    while writer.lines:
        before = writer.lines
        for line, chosen in found.items():
            assert isinstance(chosen, Chosen)
            writer.take(line, chosen)
        batch.leave([line for line in before if line not in writer.lines])
        found = batch.step() if writer.lines else {}
    answer = writer.answer()
    assert answer is not None
    return answer, events


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return tiny.loaded("llama")


def test_events_and_the_whole_answer_say_the_same(loaded: Loaded):
    answer, events = run(loaded, ask(edits=(EDIT,), compare=True, top=3, temperature=0.9, seed=3))
    assert events[0].kind == "begun"
    assert events[0].ids == answer.ids
    for name, side in (("edited", answer.edited), ("unedited", answer.unedited)):
        assert side is not None
        told = tuple(event.token for event in events if event.kind == "token" and event.side == name)
        assert told == side.tokens
        assert "".join(token.text for token in told if token) == side.text
        assert [event.ended for event in events if event.kind == "ended" and event.side == name] == [side.ended]
    words = {id: word for event in events for id, word in event.words.items()}
    assert words == answer.words
    assert len(answer.edited.tokens) == 12
    assert all(len(token.top) == 3 for token in answer.edited.tokens)


def test_without_an_edit_both_sides_would_be_one(loaded: Loaded):
    answer, _ = run(loaded, ask(compare=True))
    assert answer.unedited is None
    assert any("nothing to compare" in notice for notice in answer.notices)


def test_an_edit_that_changes_nothing_parts_nothing(loaded: Loaded):
    answer, _ = run(loaded, ask(edits=(HeadScale(layer=0, head=0, by=1),), compare=True, temperature=1.4, seed=8))
    assert answer.parted is None
    assert answer.edited == answer.unedited


def test_where_two_texts_part():
    def side(*ids: int) -> Side:
        return Side(text="", ended="length", tokens=tuple(Written(id=id, text="", probability=1) for id in ids))

    assert parted(side(1, 2, 3), side(1, 2, 3)) is None
    assert parted(side(1, 2, 3), side(1, 5, 3)) == 1
    assert parted(side(1, 2), side(1, 2, 3)) == 2


def test_it_ends_with_the_model_s_own_end_and_leaves_its_name_out():
    """Every token that the configuration lists ends a text, as in `generate`."""
    loaded = tiny.loaded("llama")
    whole, _ = run(loaded, ask())
    ids = [token.id for token in whole.edited.tokens]
    ended = next(place for place in range(2, 12) if ids[place] not in ids[:place])
    loaded.model.generation_config.eos_token_id = [3, ids[ended]]
    answer, _ = run(loaded, ask())
    assert answer.edited.ended == "end"
    assert [token.id for token in answer.edited.tokens] == ids[: ended + 1]
    before = loaded.tokenizer.decode(answer.ids)
    assert before + answer.edited.text == loaded.tokenizer.decode([*answer.ids, *ids[:ended]])
    loaded.model.generation_config.eos_token_id = None
    assert write.ends_of(loaded) == {loaded.tokenizer.eos_token_id}


def test_it_ends_before_a_stop_text(loaded: Loaded):
    whole, _ = run(loaded, ask())
    stop = whole.edited.text[5:8]
    answer, events = run(loaded, ask(stop=(stop, "never there")))
    assert answer.edited.ended == "stop"
    assert answer.edited.text == whole.edited.text[: whole.edited.text.index(stop)]
    assert "".join(event.token.text for event in events if event.token) == answer.edited.text


def test_it_ends_when_the_context_is_full():
    loaded = tiny.loaded("llama", max_position_embeddings=16)
    used = len(run(loaded, ask(tokens=1))[0].ids)
    answer, _ = run(loaded, ask(tokens=512))
    assert answer.edited.ended == "full"
    assert len(answer.edited.tokens) == 16 - used
    full, events = run(loaded, ask("a" * 15))
    assert len(full.ids) == 16
    assert (full.edited.ended, full.edited.tokens, full.edited.text) == ("full", (), "")
    assert [event.kind for event in events] == ["begun", "ended"]


def test_a_continuation_goes_on_from_the_continuation_of_the_view(loaded: Loaded):
    written, _ = run(loaded, ask(tokens=4))
    view = View(model="tiny", text=TEXT, continuation=written.edited.text, sampling=Sampling(tokens=1))
    answer, _ = run(loaded, WriteAsk(view=view))
    assert answer.ids[: len(written.ids)] == written.ids
    assert len(answer.ids) > len(written.ids)


def test_positions_may_be_those_of_tokens_that_are_still_to_be_written(loaded: Loaded):
    prompt = len(run(loaded, ask(tokens=1))[0].ids)
    late = EDIT.model_copy(update={"at": (prompt + 3,), "to": 60})
    answer, _ = run(loaded, ask(edits=(late,), compare=True))
    assert answer.parted is None or answer.parted >= 4
    with pytest.raises(errors.CannotShow, match=f"no token {prompt + 12}"):
        run(loaded, ask(edits=(EDIT.model_copy(update={"at": (prompt + 12,)}),)))


def test_more_than_is_allowed_is_refused_with_both_numbers(loaded: Loaded):
    with pytest.raises(errors.BadQuestion) as refused:
        run(loaded, ask(tokens=12), Limits(new_tokens=11))
    assert (refused.value.needed, refused.value.available) == (12, 11)
    with pytest.raises(errors.BadQuestion) as refused:
        run(loaded, ask(edits=(EDIT,), compare=True), Limits(rows=1))
    assert (refused.value.needed, refused.value.available) == (2, 1)


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_what_reads_both_ways_does_not_write_and_says_so(kind: str):
    with pytest.raises(errors.CannotShow, match="whole text around it"):
        run(families.opened(kind), ask("cat"))


def test_nothing_follows_a_text_that_its_tokenizer_closes():
    loaded = tiny.loaded("llama")
    loaded.tokenizer = spellers.unigram()
    with pytest.raises(errors.CannotShow, match="closes it with </s>"):
        run(loaded, ask("the cat"))
    with pytest.raises(errors.CannotShow, match="pair"):
        run(tiny.loaded("llama"), WriteAsk(view=View(model="tiny", pair=("a", "b"))))


@pytest.mark.parametrize(("kind", "said"), [("openai-gpt", True), ("llama", False)])
def test_a_model_that_runs_the_text_anew_for_every_token_says_so(kind: str, said: bool):
    answer, _ = run(families.opened(kind), ask(tokens=2))
    assert (write.SLOW in answer.notices) is said
    assert write.cost(families.opened(kind), ask(), Limits()) > 0
