"""All heads at once, and studies of weights as words: each number against the whole matrices, in float64."""

import asyncio
import time
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from backend.app import create_app
from backend.models import head_tables
from backend.schema import (
    ActiveStudy,
    HeadSummaries,
    HeadTables,
    Job,
    KeepStudy,
    SimilarityStudy,
    TablesAsk,
)
from backend.settings import Settings
from backend.store import StoredJob, open_store
from lmscope.answers import numbers
from tests.routes.test_studies import ended
from tests.tiny import Once

MODEL = {"model": "tiny-llama"}
LOADED = Once()


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(models=("tiny-llama",), wait_s=60, cache_dir=tmp_path)


async def done(client: httpx.AsyncClient, path: str, **ask: Any) -> dict[str, Any]:
    answer = await client.post(f"/weights/{path}", json=MODEL | ask)
    assert answer.status_code == 202, answer.text
    job = await ended(client, answer.json()["id"])
    assert job["state"] == "done", job["problem"]
    return job["result"]


def embeddings() -> tuple[torch.Tensor, torch.Tensor]:
    model = LOADED["llama"].model
    return model.get_input_embeddings().weight.double(), model.get_output_embeddings().weight.double()


def vo(layer: int, head: int) -> torch.Tensor:
    """W_V W_O [D, D] of one head, float64, with both gains."""
    model = LOADED["llama"].model.model
    a, g = model.layers[layer].self_attn, head // 2
    v = a.v_proj.weight[8 * g : 8 * g + 8].double().T
    o = a.o_proj.weight[:, 8 * head : 8 * head + 8].double().T
    read, write = model.layers[layer].input_layernorm.weight, model.norm.weight
    return read.double()[:, None] * (v @ o) * write.double()


async def test_what_was_asked_and_answered_before_is_known_and_nothing_else(client):
    async def known(**given: Any) -> dict[str, Any] | None:
        answer = await client.post("/weights/known", json=given)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] | None = answer.json()["job"]
        return found

    ask = MODEL | {"count": 20, "ks": [5], "vectors": ["normal"]}
    assert await known(keep=ask) is None, "nobody has asked it"
    first = (await client.post("/weights/keep", json=ask)).json()["id"]
    assert (await ended(client, first))["state"] == "done"
    found = await known(keep=ask)
    assert found is not None
    assert (found["id"], found["state"], found["result"]["count"]) == (first, "done", 20)
    assert await known(keep=ask | {"count": 21}) is None
    assert await known(active=MODEL) is None
    kinds = {job["kind"] for job in (await client.get("/jobs")).json()}
    assert kinds <= {"models.load", "weights.keep"}, "nothing was begun"
    again = (await client.post("/weights/keep", json=ask)).json()["id"]
    await ended(client, again)
    found = await known(keep=ask)
    assert found is not None
    assert found["id"] == again, "the newest"
    assert (await client.delete("/models/tiny-llama")).status_code < 300
    assert await known(keep=ask) is None, "what is not loaded may be another model under the same name"
    both = await client.post("/weights/known", json={"keep": ask, "active": MODEL})
    assert both.status_code == 422


async def test_tables_of_all_heads_are_those_of_each_head(client):
    told = HeadTables.model_validate(await done(client, "tables", circuit="qk", distance=2, top=7, sign="lowest"))
    layer, head, row, column, score = map(numbers, (told.layer, told.head, told.row, told.column, told.score))
    assert list(zip(layer, head, strict=True)) == [(layer, head) for layer in range(3) for head in range(4)]
    assert told.heads == 12
    for place in (0, 6, 11):
        ask = MODEL | {"layer": int(layer[place]), "head": int(head[place])}
        ask |= {"circuit": "qk", "distance": 2, "top": 7, "sign": "lowest"}
        one = (await client.post("/weights/pairs", json=ask)).json()
        assert [(p["row"], p["column"]) for p in one["pairs"]] == list(zip(row[place], column[place], strict=True))
        assert score[place] == pytest.approx([p["score"] for p in one["pairs"]], rel=1e-6)
        assert (numbers(told.same)[place], numbers(told.variants)[place]) == (one["same"], one["variants"])
        assert (numbers(told.group)[place], told.about) == (one["group"], one["about"])
        assert {str(id) for id in (*row[place], *column[place])} <= set(told.words)


async def test_numbers_of_all_heads_are_those_of_the_whole_matrices(client):
    told = HeadSummaries.model_validate(await done(client, "heads", top=30))
    read_VD, write_VD = embeddings()
    for layer, head in ((0, 0), (1, 3), (2, 2)):
        map_DD = vo(layer, head)
        values = torch.linalg.svdvals(map_DD)
        shares = (values / values.sum())[:8]
        assert numbers(told.largest)[layer, head] == pytest.approx(float(values[0]), rel=1e-5)
        assert numbers(told.first)[layer, head] == pytest.approx(
            float(values[0] ** 2 / map_DD.square().sum()), rel=1e-5
        )
        assert numbers(told.rank)[layer, head] == pytest.approx(float((-shares * shares.log()).sum().exp()), rel=1e-4)
        table_VV = read_VD @ map_DD @ write_VD.T
        eigenvalues = torch.linalg.eigvals(table_VV)
        copying = float(eigenvalues.real.sum() / eigenvalues.abs().sum())
        assert numbers(told.copying)[layer, head] == pytest.approx(copying, abs=1e-4)
        rows, columns = np.unravel_index(table_VV.flatten().argsort(descending=True)[:30].numpy(), table_VV.shape)
        assert numbers(told.same)[layer, head] == pytest.approx((rows == columns).mean(), abs=1e-6)
    assert told.searched == told.heads * len(told.layers) == 12
    assert set(told.abouts) == {"largest", "first", "rank", "copying", "same"}
    assert "top 30" in told.abouts["same"] or "30 highest" in told.abouts["same"]


async def test_who_asks_the_same_again_gets_what_is_kept_and_the_other_learns_from_it(client, monkeypatch):
    first = await done(client, "tables", top=5)
    monkeypatch.setattr(head_tables, "pairs_of", lambda *_, **__: pytest.fail("searched again"))
    assert await done(client, "tables", top=5) == first
    same = numbers(HeadSummaries.model_validate(await done(client, "heads", top=5)).same)
    listed = HeadTables.model_validate(first)
    assert same.flatten() * 5 == pytest.approx(numbers(listed.same))


async def test_tables_show_what_they_have_stop_and_go_on_behind_it_after_a_kill(
    client, settings, shelf, tmp_path, monkeypatch
):
    pairs_of, searched = head_tables.pairs_of, list[tuple[int, int]]()
    loop, far, let = asyncio.get_running_loop(), asyncio.Event(), False

    def held(loaded, ask, layer, head, limits, cancel):
        stays = (layer, head) == (1, 2) and not let
        while stays:  # until it is stopped, even after `let`
            loop.call_soon_threadsafe(far.set)
            cancel()
            time.sleep(0.005)
        searched.append((layer, head))
        return pairs_of(loaded, ask, layer, head, limits, cancel)

    monkeypatch.setattr(head_tables, "pairs_of", held)
    monkeypatch.setattr("backend.studies.weighing.PUBLISH_S", 0)
    monkeypatch.setattr("backend.studies.weighing.SHARE", 1e9)
    job = (await client.post("/weights/tables", json=MODEL | {"top": 4})).json()
    await asyncio.wait_for(far.wait(), 60)
    seen = (await client.get(f"/jobs/{job['id']}")).json()
    assert numbers(HeadTables.model_validate(seen["partial"]).row).shape == (6, 4)
    assert (seen["done"], seen["total"], seen["unit"]) == (6, 12, "heads")
    await client.delete(f"/jobs/{job['id']}")
    stopped = await asyncio.wait_for(ended(client, job["id"]), 60)
    assert (stopped["state"], numbers(HeadTables.model_validate(stopped["partial"]).row).shape) == ("cancelled", (6, 4))
    let = True
    searched.clear()
    dead = open_store(None, tmp_path / "dead")
    ask = TablesAsk(model="tiny-llama", top=4)
    left = Job(id="a" * 32, kind="weights.tables", state="running", what="searching", created=1, updated=2)
    dead.jobs.write(StoredJob(left, {"ask": ask.model_dump(mode="json")}))
    assert dead.servers._lock is not None
    dead.servers._lock.release()
    app = create_app(settings, shelf, open_store(None, tmp_path / "dead"))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8050/api/v1") as other:
            again = await asyncio.wait_for(ended(other, "a" * 32), 60)
    assert again["state"] == "done"
    assert searched == [(layer, head) for layer in (1, 2) for head in range(4)]
    assert numbers(HeadTables.model_validate(again["result"]).row).shape == (12, 4)


def top(rows, k, end="promoted"):
    """Sets of ids of each row, by numpy."""
    moved = {"promoted": rows, "suppressed": -rows, "absolute": abs(rows)}[end]
    return [set(np.argsort(-each, kind="stable")[:k].tolist()) for each in moved]


async def test_what_is_kept_of_products_is_what_explicit_numpy_keeps(client):
    ask = {"count": 20, "ks": [3, 50, 420], "seed": 5, "vectors": ["normal", "values"]}
    told = KeepStudy.model_validate(await done(client, "keep", **ask))
    E = embeddings()[1].detach().numpy().T
    normal = torch.randn(20, 32, generator=torch.Generator().manual_seed(5)).double().numpy()
    inverse = {"transpose": E.T, "pseudo": np.linalg.pinv(E)}
    assert [(curve.vectors, curve.inverse) for curve in told.curves] == [
        (kind, name) for kind in ("normal", "values") for name in inverse
    ]
    for curve in told.curves[:2]:
        for point in curve.points:
            kept = []
            for words in (normal @ E, normal @ inverse[curve.inverse].T):
                least = -np.sort(-abs(words), axis=1)[:, point.k - 1 : point.k]
                kept.append(np.where(abs(words) >= least, words, 0))
            exact, left = normal @ normal.T, kept[0] @ kept[1].T
            cosine = (exact * left).sum() / np.sqrt((exact**2).sum() * (left**2).sum())
            assert point.cosine.mean == pytest.approx(cosine, abs=1e-5)
            off = ~np.eye(20, dtype=bool)
            apart = (exact * left)[off].sum() / np.sqrt((exact**2)[off].sum() * (left**2)[off].sum())
            assert point.apart.mean == pytest.approx(apart, abs=1e-5)
            assert point.cosine.low <= point.cosine.mean <= point.cosine.high
    pseudo = told.curves[1].points[-1]
    assert pseudo.cosine.mean == pytest.approx(1, abs=1e-6)  # with every word the pseudo-inverse is an inverse
    assert pseudo.cosine.low == pytest.approx(1, abs=1e-6)


async def test_states_are_those_of_the_stream_through_the_final_norm(client):
    texts = ["The cat sat on the mat, and the dog barked at the cat.", "Off with her head! said the Queen."]
    small = (await client.post("/sets", json={"name": "small", "texts": texts})).json()["id"]
    told = KeepStudy.model_validate(
        await done(client, "keep", count=10_000 // 200, ks=[9], vectors=["states"], set=small)
    )
    assert told.set == small
    assert [curve.inverse for curve in told.curves] == ["transpose", "pseudo"]
    assert all(0 < curve.points[0].cosine.mean <= 1 for curve in told.curves)
    few = await client.post("/weights/keep", json=MODEL | {"count": 2000, "vectors": ["states"], "set": small})
    job = await ended(client, few.json()["id"])
    assert (job["state"], job["problem"]["what"]) == ("failed", "There are no 2,000 states to draw")


async def test_shares_of_active_vectors_are_those_of_a_run_by_hand(client):
    texts = ["The cat sat on the mat, and the dog barked at the cat.", "Off with her head! said the Queen."]
    small = (await client.post("/sets", json={"name": "small", "texts": texts})).json()["id"]
    told = ActiveStudy.model_validate(
        await done(
            client, "active", set=small, k=20, active=3, reading="raw", groups=["keys", "values", "attention_outputs"]
        )
    )
    model, (read_VD, write_VD) = LOADED["llama"].model, embeddings()
    held: dict[str, torch.Tensor] = {}
    handles = [
        part.register_forward_pre_hook(lambda module, args, name=name: held.__setitem__(name, args[0][0, 1:].double()))
        for layer in range(3)
        for name, part in ((f"ffn {layer}", model.model.layers[layer].mlp.down_proj),
                           (f"heads {layer}", model.model.layers[layer].self_attn.o_proj))
    ]  # fmt: skip
    found: dict[tuple[str, int, str], list[float]] = {}
    try:
        for text in texts:
            ids = LOADED["llama"].tokenizer(text)["input_ids"]
            with torch.no_grad():
                answer = model(torch.tensor([ids]), output_hidden_states=True)
            final = answer.logits[0, 1:].double().numpy()
            for layer in range(3):
                state = answer.hidden_states[layer + 1][0, 1:]
                logits = final if layer == 2 else model.lm_head(model.model.norm(state)).detach().double().numpy()
                block = model.model.layers[layer]
                vectors = {
                    "keys": block.mlp.gate_proj.weight.double() @ read_VD.T,
                    "values": block.mlp.down_proj.weight.double().T @ write_VD.T,
                    "attention_outputs": block.self_attn.o_proj.weight.double().T @ write_VD.T,
                }
                for group, words in vectors.items():
                    said = top(words.detach().numpy(), 20)
                    active = held[f"{'heads' if group == 'attention_outputs' else 'ffn'} {layer}"].numpy()
                    for against, likely in (("layer", logits), ("final", final)):
                        for token, words_of_state in enumerate(top(likely, 20)):
                            union = set().union(*(said[unit] for unit in np.argsort(-active[token])[:3]))
                            found.setdefault((group, layer, against), []).append(len(union & words_of_state) / 20)
    finally:
        for handle in handles:
            handle.remove()
    assert {(point.group, point.layer, point.against) for point in told.points} == set(found)
    for point in told.points:
        share = np.mean(found[point.group, point.layer, point.against])
        assert point.own.mean == pytest.approx(share, abs=1e-6), point
        assert point.more.mean == pytest.approx(point.own.mean - point.shuffled.mean, abs=1e-9)
        assert (point.own.n, point.own.low <= point.own.mean <= point.own.high) == (2, True)
    assert told.tokens == len(found["keys", 0, "layer"])


async def test_similarity_is_the_mean_overlap_of_what_belongs_together(client):
    told = SimilarityStudy.model_validate(await done(client, "similarity", k=25, reading="raw", end="absolute"))
    read_VD, write_VD = (embedding.detach() for embedding in embeddings())
    for layer in range(3):
        a, mlp = LOADED["llama"].model.model.layers[layer].self_attn, LOADED["llama"].model.model.layers[layer].mlp
        grouped = [8 * (head // 2) + at for head in range(4) for at in range(8)]
        pairs = {
            "keys_values": (mlp.gate_proj.weight, mlp.down_proj.weight.T, write_VD),
            "values_outputs": (a.v_proj.weight[grouped], a.o_proj.weight.T, write_VD),
            "queries_keys": (a.q_proj.weight, a.k_proj.weight[grouped], read_VD),
        }
        for pairing, (one, other, written_VD) in pairs.items():
            ones = top((one.double() @ read_VD.T).detach().numpy(), 25, "absolute")
            others = top((other.double() @ written_VD.T).detach().numpy(), 25, "absolute")
            mean = np.mean([len(x & y) / len(x | y) for x, y in zip(ones, others, strict=True)])
            every = np.mean(
                [len(x & y) / len(x | y) for place, x in enumerate(ones) for at, y in enumerate(others) if at != place]
            )
            point = next(each for each in told.points if (each.pairing, each.layer) == (pairing, layer))
            assert point.own.mean == pytest.approx(mean, abs=1e-6)
            assert point.random.mean == pytest.approx(every, abs=0.02)
            assert point.more.mean == pytest.approx(mean - point.random.mean, abs=1e-9)
            assert 0 < point.twin.mean < 0.2
            assert point.own.n == len(one)
    whole = [each for each in told.points if each.layer is None]
    assert [each.pairing for each in whole] == list(pairs)
    assert whole[0].own.mean == pytest.approx(
        np.mean([each.own.mean for each in told.points if each.pairing == "keys_values" and each.layer is not None])
    )


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("tables", {"top": 0}, "top"), ("tables", {"circuit": "vo", "distance": 3}, "no distance"),
        ("tables", {"filters": {"text": "!", "apart": "words"}}, "leave no pair"),
        ("tables", {"circuit": "qk", "distance": 5000}, "128"), ("tables", {"head": 1}, "head"),
        ("heads", {"reading": "x"}, "reading"), ("keep", {"ks": [421]}, "420"), ("keep", {"ks": [0]}, "ks"),
        ("keep", {"vectors": ["values"], "count": 200}, "144"), ("keep", {"set": "a" * 64}, "prompt set"),
        ("active", {"k": 1000}, "420"), ("active", {"active": 49, "groups": ["values"]}, "48"),
        ("active", {"groups": []}, "groups"), ("similarity", {"k": 421}, "420"),
        ("similarity", {"pairings": ["x"]}, "pairings"),
    ],
)  # fmt: skip
async def test_what_is_not_there_is_refused_in_words_before_any_job(client, path, body, said):
    answer = await client.post(f"/weights/{path}", json=MODEL | body)
    assert answer.status_code in (400, 404, 409, 413, 422), answer.text
    problem = answer.json()
    assert said in f"{problem['what']} {problem['why']}"
    assert (await client.get("/jobs")).json()[0]["kind"] == "models.load"
