"""A steer is made through the client: examples in three ways, a job that is waited for, a card on the shelf."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from backend.app import create_app
from backend.schema import Job, Steer, View
from backend.settings import Settings
from lmscope.client import AsyncClient, Refused
from tests import tiny

FOX = [f"The quick brown fox jumps over {n} lazy dogs." for n in range(24)]
CAT = [f"Off with her head! said the Queen {n}." for n in range(24)]
ROWS = [*((text, 1.0) for text in FOX), *((text, -1.0) for text in CAT)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.folder("llama", tmp_path_factory.mktemp("models") / "llama"))


@pytest.fixture
async def client(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    monkeypatch.delenv("LMSCOPE_KEY", raising=False)
    app = create_app(Settings(models=(folder,), cache_dir=tmp_path / "cache", device="cpu", memory_bytes=1 << 30))
    async with app.router.lifespan_context(app), AsyncClient(app=app, tab=str(uuid4())) as client:
        await client.wait(await client.load(folder))
        yield client


async def test_examples_of_every_way_are_the_same_examples(client: AsyncClient, tmp_path: Path) -> None:
    lines = tmp_path / "moods.jsonl"
    lines.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in ROWS))
    sheet = tmp_path / "moods.csv"
    sheet.write_text("\n".join(["text,label", *(f'"{text}",{label}' for text, label in ROWS)]))
    kept = [
        await client.keep_examples("moods", plus=FOX, minus=CAT), await client.keep_examples("moods", rows=ROWS),
        await client.keep_examples("moods", file=lines), await client.keep_examples("moods", file=sheet),
    ]  # fmt: skip
    assert {card.id for card in kept} == {kept[0].id}
    assert await client.examples() == (kept[0],)
    with pytest.raises(ValueError, match=r"neither \.csv nor \.jsonl"):
        await client.keep_examples("moods", file=tmp_path / "moods.xlsx")
    with pytest.raises(Refused, match="one class only"):
        await client.keep_examples("moods", plus=FOX)


async def test_a_steer_is_made_used_and_deleted(client: AsyncClient, folder: str) -> None:
    examples, seen = await client.keep_examples("moods", plus=FOX, minus=CAT), list[Job]()
    made = await client.make_steer(
        folder, "mood", examples.id, plus="fox", minus="queen", rank=2, steps=10, rate=0.1, progress=seen.append
    )  # fmt: skip
    assert made.card is not None
    assert (made.card.plus, made.card.rank, made.card.data.digest) == ("fox", 2, examples.id)
    assert (seen[-1].kind, seen[-1].state) == ("steers.make", "done")
    view = View(model=folder, text=FOX[0])
    edited = view.model_copy(update={"edits": (Steer(steer=made.card.id, by=8),)})
    assert (await client.tokens(edited)).scores != (await client.tokens(view)).scores
    shelf = await client.steers(folder)
    assert [each.card.name for each in shelf.steers if each.fits and not each.card.ours] == ["mood"]
    await client.delete_steer(made.card.id)
    with pytest.raises(Refused, match="does not hold the steer"):
        await client.tokens(View(model=folder, text=CAT[0], edits=edited.edits))
