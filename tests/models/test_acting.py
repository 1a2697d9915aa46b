"""A counter proves that every edit acted on every token that it was meant for, in all three ways of writing."""

import pytest

from backend.models import taps
from backend.models.decoding import Batch, Chosen
from backend.models.loaded import Loaded
from backend.models.ways import WAYS
from backend.models.write import Writer
from backend.schema import (
    Acted,
    FfnOutSet,
    FfnScale,
    HeadScale,
    Limits,
    ResidualAdd,
    Sampling,
    Steer,
    View,
    WriteAnswer,
    WriteAsk,
    WriteEvent,
)
from tests import families
from tests.questions import VECTOR, Made

PROMPT, LONGER = "The cat sat on the mat.", "Off with her head! said the Queen. When Mary and John"
TOKENS = 6


def edits(at="all", on=True):
    return (
        ResidualAdd(layer=0, vector=VECTOR, by=0.5, at=at, on=on), Steer(steer=VECTOR, by=0.5, at=at, on=on),
        HeadScale(layer=1, head=1, by=0, at=at, on=on), FfnScale(layer=1, unit=3, by=2, at=at, on=on),
        FfnOutSet(layer=0, to=0.1, at=at, on=on),
    )  # fmt: skip


def written(loaded: Loaded, way, *views: View) -> list[tuple[WriteAnswer, list[WriteEvent]]]:
    """Answers of several people whose lines are in one batch, the later ones joining a step later."""
    batch, writers, events = Batch(loaded, way), [], [[] for _ in views]
    found: dict = {}
    for view, heard in zip(views, events, strict=True):
        found |= batch.step() if writers else {}
        writers.append(Writer(loaded, WriteAsk(view=view), Limits(), heard.append))
        found |= batch.join(writers[-1].lines)
        take(writers, found, batch)
        found = {}
    while any(writer.lines for writer in writers):
        take(writers, batch.step(), batch)
    return [(writer.answer(), heard) for writer, heard in zip(writers, events, strict=True)]


def take(writers: list[Writer], found: dict, batch: Batch) -> None:
    for writer in writers:
        for line in writer.lines:
            chosen = found[line]
            assert isinstance(chosen, Chosen)
            writer.take(line, chosen)
            if line not in writer.lines:
                batch.leave([line])


@pytest.fixture
def loaded() -> Loaded:
    found = families.loaded("llama")
    found.vectors = Made(found)
    return found


def view(text: str, *edits, tokens=TOKENS, **more) -> View:
    return View(model="tiny", text=text, edits=edits, sampling=Sampling(tokens=tokens, temperature=0.8), **more)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", ["all", "generated", "prompt"])
def test_every_edit_is_counted_on_every_token_it_was_meant_for(loaded, way, at):
    """Beside somebody with a longer prompt and no edit: padding counts for nobody."""
    (answer, events), (other, _) = written(loaded, way, view(PROMPT, *edits(at)), view(LONGER, compare=True))
    prompt, runs = len(answer.ids), TOKENS - 1
    if way == "again":  # each of the tokens written runs the whole text
        run = {"prompt": prompt * TOKENS, "written": sum(range(TOKENS))}
    else:
        run = {"prompt": prompt, "written": runs}
    assert len(answer.acted) == 5
    for place, told in enumerate(answer.acted):
        of = {"prompt": 1, "written": runs} if place == 1 else run
        assert told == Acted(
            edit=place, prompt=of["prompt"] * (at != "generated"), of_prompt=of["prompt"],
            written=of["written"] * (at != "prompt"), of_written=of["written"],
        )  # fmt: skip
    assert [event.acted for event in events if event.kind == "ended"] == [answer.acted]
    assert other.acted == ()


@pytest.mark.parametrize("way", WAYS)
def test_chosen_positions_are_counted_where_they_lie(loaded, way):
    prompt = len(written(loaded, way, view(PROMPT, tokens=1))[0][0].ids)
    edit = ResidualAdd(layer=1, vector=VECTOR, by=1, at=(2, prompt + 1, prompt + TOKENS - 1))
    ((answer, _),) = written(loaded, way, view(PROMPT, HeadScale(layer=0, head=0, by=0, on=False), edit))
    (told,) = answer.acted
    assert told.edit == 1, "an edit that is off is left out"
    if way == "again":
        assert (told.prompt, told.written) == (TOKENS, TOKENS - 2), "the token after the first is run in all runs but 2"
    else:
        assert (told.prompt, told.written) == (1, 1), "the last token that is written is not run"


@pytest.mark.parametrize("way", WAYS)
def test_a_tap_that_is_silent_once_the_prompt_was_read_is_found_out(loaded, way, monkeypatch):
    """The fault that this count is there for: hooks that stop acting in cached steps."""
    honest, calls = taps._edited, []

    def silent(run, tap, x, parts):
        if tap == "residual.0":
            calls.append(x)
        return x if tap == "residual.0" and len(calls) > 1 else honest(run, tap, x, parts)

    monkeypatch.setattr(taps, "_edited", silent)
    ((answer, _),) = written(loaded, way, view(PROMPT, *edits("all")))
    direction, *rest = answer.acted
    assert (direction.prompt, direction.written) == (len(answer.ids), 0)
    assert direction.of_written >= TOKENS - 1
    assert all((told.prompt, told.written) == (told.of_prompt, told.of_written) for told in rest)


def test_of_two_sides_the_edited_one_is_counted(loaded):
    ((answer, _),) = written(loaded, None, view(PROMPT, *edits("generated"), compare=True))
    assert all((told.prompt, told.written) == (0, TOKENS - 1) for told in answer.acted)
