"""Studies through the client: started, waited for, stopped, and read as numpy arrays."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from backend.app import create_app
from backend.schema import Explain, FfnSet, Job, PatchPlace, View
from backend.settings import Settings
from backend.studies import effects
from lmscope.client import AsyncClient, Refused
from lmscope.storing import steer
from lmscope.studied import EffectsInNumpy, PatchInNumpy, PatchMapInNumpy
from lmscope.swept import SweepInNumpy
from tests import tiny

TEXT, SOURCE = "The cat sat on the mat.", "The dog sat on the mat."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.folder("llama", tmp_path_factory.mktemp("models") / "llama"))


@pytest.fixture
async def client(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    monkeypatch.delenv("LMSCOPE_KEY", raising=False)
    app = create_app(Settings(models=(folder,), cache_dir=tmp_path, device="cpu", memory_bytes=1 << 30))
    async with app.router.lifespan_context(app), AsyncClient(app=app, tab=str(uuid4())) as client:
        await client.wait(await client.load(folder))
        yield client


async def test_effects_come_as_numbers_a_table_and_a_figure(client: AsyncClient, folder: str) -> None:
    view, seen = View(model=folder, text=TEXT), list[Job]()
    found = EffectsInNumpy(await client.effects(view, progress=seen.append))
    assert found.effect.shape == found.direct.shape == (12,)
    assert np.isfinite(found.effect).all()
    assert found.names[5] == "head 1.1"
    assert [row["part"] for row in found.table()] == list(found.names)
    assert found.csv().startswith("part,direct,effect,disagrees\nhead 0.0,")
    assert len(found.figure().data) == 2
    assert seen[-1].state == "done"
    some = await client.effects(view, parts="units", units=["L1U5", "L2D7", (0, 3)])
    assert EffectsInNumpy(some, "units").names == ("L1U5", "L2U7", "L0U3")
    layers = EffectsInNumpy(await client.effects(view, parts="feed_forward"), "feed_forward")
    assert (layers.names[2], layers.index.tolist()) == ("feed-forward 2", [-1] * 3)


async def test_a_patch_is_edits_for_a_view_and_a_map_agrees_with_it(client: AsyncClient, folder: str) -> None:
    view, source = View(model=folder, text=TEXT), View(model=folder, text=SOURCE)
    put = PatchInNumpy(await client.patch(view, source, PatchPlace(tap="residual", layer=1, token=2)))
    assert put.csv().startswith("kind,layer,head,to,at\nresidual.set,1,")
    found = PatchMapInNumpy(await client.patch_map(view, source))
    patched = view.model_copy(update={"edits": put.edits})
    pair = Explain(target=found.explained.target, foil=found.explained.foil)
    said = await client.effects(patched, pair, parts="units", units=["L0U0"])
    assert found.logits[1, 2] == pytest.approx(said.explained.logits, abs=1e-4)
    assert [row["place"] for row in found.table()][:8] == ["after block 0"] * 8
    assert len(found.figure().data) == 1


async def test_a_mean_is_an_edit(client: AsyncClient, folder: str) -> None:
    kept = await client.keep_set("small", ["The dog barked at the cat."])
    mean = await client.mean(View(model=folder, text=TEXT), "ffn", 1, unit=3, set=kept.id)
    assert isinstance(mean.edit, FfnSet)
    assert (mean.set, mean.tokens) == (kept.id, 7)
    assert (await client.set(kept.id)).texts == ("The dog barked at the cat.",)
    assert [card.name for card in await client.sets()] == ["plain-english-prose", "small"]


async def test_leaving_a_study_stops_its_job(client: AsyncClient, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = threading.Event()

    def never(loaded: object, cancel: object, **_: object) -> int:
        reached.set()
        while True:
            cancel()  # type: ignore[operator]
            time.sleep(0.001)

    monkeypatch.setattr(effects, "measure", never)
    seen: asyncio.Queue[Job] = asyncio.Queue()
    waiting = asyncio.create_task(client.effects(View(model=folder, text=TEXT), progress=seen.put_nowait))
    assert await asyncio.to_thread(reached.wait, 60), "it was never asked"
    job = await asyncio.wait_for(seen.get(), 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(Refused) as refused:
        await client.wait(await client.job(job.id))
    assert refused.value.problem.type == "cancelled"


async def test_a_sweep_comes_as_numbers_a_table_and_a_figure(client: AsyncClient, folder: str) -> None:
    card = await client.keep(steer("made", np.eye(32, 2, dtype="f4"), np.ones((2, 32), "f4")))
    view = View(model=folder, text=TEXT)
    found = SweepInNumpy(await client.sweep(view, card.id, (0, 1), prompts=[f"A cat {n}" for n in range(8)], tokens=2))
    assert found.by.tolist() == [0, 1]
    assert np.isnan(found.other).all()
    assert np.isnan(found.plus).all(), "no labelled texts are on this server"
    assert (found.perplexity[1, 1] < found.perplexity[1, 0]) & (found.perplexity[1, 0] < found.perplexity[1, 2])
    assert found.kl.shape == found.distinct.shape == found.control["kl"].shape == (2, 3)
    assert [len(texts) for texts in found.samples] == [8, 8]
    assert [row["kind"] for row in found.table()] == ["steer", "steer", "random", "random"]
    assert found.csv().startswith("kind,by,other,plus,plus_low,plus_high,minus")
    assert "name examples" in found.notices[1]
    assert found.conditions.model == folder
    assert found.figure(theme="dark").data


async def test_a_direction_is_made_and_a_steer_is_moved_through_the_client(client: AsyncClient, folder: str) -> None:
    plus, minus = ([f"{words} {n}." for n in range(20)] for words in ("The cat sat on mat", "Off with head"))
    examples = await client.keep_examples("moods", plus=plus, minus=minus)
    made = await client.make_direction(folder, "moods", examples.id, 1, plus="cats", minus="queens", method="pca")
    assert made.card is not None
    assert (made.card.kind, made.card.layer, made.card.plus) == ("direction", 1, "cats")
    steered = await client.make_steer(folder, "mood", examples.id, rank=2, steps=2, every=1)
    assert steered.card is not None
    moved = await client.transfer(steered.card.id, folder, "there", ridge=1e-6)
    assert moved.survives is not None
    assert moved.survives.mean == pytest.approx(1, abs=1e-2)
    assert moved.card.name == "there"
