"""The client and the real backend in one process: answers, refusals, a stream that ends, a question that is left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from backend.app import create_app
from backend.schema import HeadAsk, HeadScale, OverviewAsk, Sampling, View
from backend.settings import Settings
from lmscope.answers import AttentionInNumpy, HeadInNumpy, TokensInNumpy
from lmscope.client import AsyncClient, Refused, head_names
from tests import tiny

TEXT = "The cat sat on the mat, and the dog barked at the cat."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.folder("llama", tmp_path_factory.mktemp("models") / "llama"))


@pytest.fixture
async def client(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """A client of a whole backend, whose model is loaded."""
    monkeypatch.delenv("LMSCOPE_KEY", raising=False)
    app = create_app(Settings(models=(folder,), cache_dir=tmp_path, device="cpu", memory_bytes=1 << 30))
    async with app.router.lifespan_context(app), AsyncClient(app=app, tab=str(uuid4())) as client:
        await client.wait(await client.load(folder))
        yield client


async def test_every_instrument_answers_through_the_client(client: AsyncClient, folder: str) -> None:
    view = View(model=folder, text=TEXT, edits=(HeadScale(layer=0, head=1, by=0.0),), compare=True)
    attention = AttentionInNumpy(await client.attention(view))
    head = HeadInNumpy(await client.head(view, "1.2", token=3))
    tokens = TokensInNumpy(await client.tokens(view))
    heads = await client.heads(view)
    assert attention.ids == head.ids == tokens.ids == heads.ids
    assert np.abs(attention.maps[1, 2] - head.map).max() <= attention.precision
    assert np.allclose(head.map.sum(-1), 1, atol=1e-5)
    assert attention.unedited is not None
    assert not np.array_equal(attention.maps[1], attention.unedited.maps[1])
    assert np.array_equal(attention.maps[0], attention.unedited.maps[0])
    assert tokens.surprisal is not None
    assert np.isfinite(tokens.surprisal[1:]).all()
    raw = await client.raw(OverviewAsk(view=view))
    assert raw == attention.answer.model_dump(mode="json")
    one = await client.raw(HeadAsk(view=view, heads=head_names("1.2"), token=3))
    assert one == head.answer.model_dump(mode="json")


async def test_shelf_health_and_jobs_are_typed(client: AsyncClient, folder: str) -> None:
    assert (await client.health()).status == "alive"
    shelf = await client.models()
    card = next(card for card in shelf.models if card.name == folder)
    assert (card.state, shelf.default) == ("loaded", folder)
    assert (await client.job((await client.jobs())[0].id)).state == "done"
    await client.unload(folder)
    assert {card.state for card in (await client.models()).models if card.name == folder} <= {"cached", "known"}


@pytest.mark.parametrize(
    ("view", "type"),
    [
        ({"text": ""}, "invalid"),
        ({"text": "The cat. " * 200}, "too-long"),
        ({"text": TEXT, "edits": (HeadScale(layer=9, head=0, by=0.0),)}, "cannot-show"),
        ({"text": TEXT, "model": "nobody/knows/this"}, "unknown-model"),
    ],
)
async def test_a_refusal_of_the_server_arrives_with_its_words(
    client: AsyncClient, folder: str, view: dict[str, object], type: str
) -> None:
    with pytest.raises(Refused) as caught:
        await client.attention(View.model_validate({"model": folder} | view))
    problem = caught.value.problem
    assert problem.type == type
    assert all((problem.what, problem.why, problem.instead, problem.request))


async def test_a_tab_s_events_stream_and_end_when_the_reader_leaves(client: AsyncClient, folder: str) -> None:
    async with aclosing(client.events()) as events:
        first = await asyncio.wait_for(anext(events), 60)
        assert first.questions == ()
        asking = asyncio.create_task(client.attention(View(model=folder, text=TEXT)))
        await told(events, questions=1)
        await told(events, questions=0)
    assert (await asking).tokens > 10


async def told(events: AsyncIterator, questions: int) -> None:
    """Until the tab hears of so many questions."""
    while len((await asyncio.wait_for(anext(events), 60)).questions) != questions:
        pass


async def test_leaving_a_question_takes_it_off_the_desk(client: AsyncClient, folder: str) -> None:
    asking = asyncio.create_task(client.attention(View(model=folder, text=TEXT + " Again.")))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with aclosing(client.events()) as events:
        async for event in events:
            if not event.questions:
                break
        # Asked while the tab listens: a stream that has just closed takes its tab's questions with it.
        assert (await client.attention(View(model=folder, text=TEXT))).tokens > 10


async def test_writing_ends_at_a_stop_text_whole_and_streamed(client: AsyncClient, folder: str) -> None:
    view = View(model=folder, text=TEXT)
    whole = (await client.write(view)).edited.text
    stop = whole[3:6]
    stopped = view.model_copy(update={"sampling": Sampling(stop=(stop,))})
    assert (await client.write(stopped)).edited.text == whole[: whole.find(stop)]
    written = [event.token.text async for event in client.write_stream(stopped) if event.token]
    assert "".join(written) == whole[: whole.find(stop)]


async def test_one_text_may_be_given_alone_and_is_not_taken_for_its_letters(client: AsyncClient) -> None:
    assert (await client.keep_set("one", TEXT)).texts == 1
