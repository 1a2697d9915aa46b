"""What steering costs: a steered decode step, a slider's move at the server, sixteen people with sixteen settings.

- `step_ratio`: a decode step of one line under a steer of rank 32 over the same step without, taken in turn, step by
  step; the best of many steps of each. `step_ratio_rank_1000`: the same under LM-Steer's own default rank.
- `slider_ms`: a value that was not asked before, from the question to the answer through the server's route and desk in
  one process, JSON both ways, after the text has been read once; best of several, and the median.
- `batch16_speedup`: sixteen people with sixteen settings of a steer in one batch over one after the other.

With `--peer` the published way beside it, restated in plain PyTorch from the formula of LM-Steer (Han et al. 2024): a
read-out that adds ε Σ a (c P1) P2ᵀ to the state, at its default rank, after looking whether all sliders are 0;
a slider's move there runs the whole text again. And the other way to say the same: every output embedding moved.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from benchmarks.decoding import batch16_speedup
from benchmarks.opened import smollm2
from benchmarks.trace import TEXT

RANK, PUBLISHED_RANK = 32, 1000
STEPS, QUICK_STEPS = 60, 20
MOVES, QUICK_MOVES = 30, 12
EPSILON = 1e-3
"""LM-Steer's."""
Way = Callable[[], Any]


def run(quick: bool, peer: bool) -> dict[str, float]:
    """Figures by name: `step_ratio`, `slider_ms`, `batch16_speedup`, and what they are made of."""
    return of_model(smollm2(), TEXT, quick=quick, peer=peer)


def of_model(loaded: Any, text: str, texts: Any = None, *, quick: bool, peer: bool) -> dict[str, float]:
    """The figures of any open model; `texts`: what the sixteen people write on."""
    with steered(loaded):
        figures = step_ratio(loaded, text, QUICK_STEPS if quick else STEPS)
        figures |= asyncio.run(slider(loaded, text, QUICK_MOVES if quick else MOVES))
        more = {} if texts is None else {"texts": texts}
        figures |= batch16_speedup(loaded, **more, edit=_setting, quick=quick)
        return figures | (published(loaded, text, QUICK_STEPS if quick else STEPS) if peer else {})


@contextmanager
def steered(loaded: Any) -> Iterator[None]:
    """Give a model random steers of both ranks, whose size is that of trained ones, for as long as it is measured."""
    import torch

    from backend.models.vectors import Beside, SteerMatrix

    dice, before = torch.Generator().manual_seed(0), loaded.vectors
    width = loaded.anatomy.unembedding.get_parameter("weight").shape[1]
    steers = {
        _id(rank): SteerMatrix(
            torch.randn(width, rank, generator=dice) / width**0.5, torch.randn(rank, width, generator=dice) / rank**0.5
        )
        for rank in (RANK, PUBLISHED_RANK)
    }
    loaded.vectors = Beside(before, steers=steers)
    try:
        yield
    finally:
        loaded.vectors = before


def _id(rank: int) -> str:
    return f"{rank:064x}"


def _steer(rank: int, by: float) -> Any:
    from backend.schema import Steer

    return Steer(steer=_id(rank), by=by)


def _setting(number: int) -> Any:
    """One person's slider."""
    return _steer(RANK, 0.02 * (number + 1) * (-1) ** number)


def step_ratio(loaded: Any, text: str, steps: int) -> dict[str, float]:
    """A steered decode step over a plain one."""
    from backend.models.decoding import Batch, Chosen, Line
    from backend.models.plan import Row
    from backend.schema import Sampling

    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    edits = {"plain": (), "steered": (_steer(RANK, 0.05),), "rank 1000": (_steer(PUBLISHED_RANK, 0.05),)}
    batches = {name: Batch(loaded) for name in edits}
    lines = {name: Line(list(ids), Row(each, len(ids)), Sampling(tokens=512)) for name, each in edits.items()}
    best = dict.fromkeys(edits, float("inf"))
    names = list(batches)
    for step in range(steps + 1):
        for name in names[step % 3 :] + names[: step % 3]:  # whoever is first at a new length may pay for it
            start = time.perf_counter()
            batch = batches[name]
            (chosen,) = (batch.step() if step else batch.join([lines[name]])).values()
            if step > 2:
                best[name] = min(best[name], time.perf_counter() - start)
            assert isinstance(chosen, Chosen)
            lines[name].ids.append(chosen.id)
    return {
        "step_ratio": round(best["steered"] / best["plain"], 4),
        "step_ratio_rank_1000": round(best["rank 1000"] / best["plain"], 4),
        "plain_step_ms": round(1000 * best["plain"], 3),
        "steered_step_ms": round(1000 * best["steered"], 3),
    }


async def slider(loaded: Any, text: str, moves: int) -> dict[str, float]:
    """New values of a slider through the whole server, one after the other."""
    from tempfile import TemporaryDirectory

    from backend.app import create_app
    from backend.schema import View
    from backend.settings import Settings
    from lmscope.client import AsyncClient

    with TemporaryDirectory() as folder:
        app = create_app(Settings(cache_dir=folder, models=(loaded.name,), database_url="sqlite://"), OneModel(loaded))
        async with app.router.lifespan_context(app), AsyncClient(app=app, tab=str(uuid4())) as client:

            async def asked(by: float, over: Any) -> float:
                view = View(model=loaded.name, text=text, edits=(_steer(RANK, by),))
                start = time.perf_counter()
                answer = await client.steer(view, over=over)
                taken = time.perf_counter() - start
                assert not answer.forward or by < 0, "the states are kept"
                return taken

            await asked(-1.0, "token")  # the text is read
            once = [await asked(0.01 * (1 + move), "token") for move in range(moves)]
            whole = [await asked(0.011 * (1 + move), "text") for move in range(max(moves // 4, 2))]
    return {
        "slider_ms": round(1000 * min(once), 2),
        "slider_median_ms": round(1000 * statistics.median(once), 2),
        "slider_over_text_ms": round(1000 * min(whole), 2),
    }


class OneModel:
    """A shelf with one open model on it."""

    def __init__(self, loaded: Any) -> None:
        self.loaded, self.budget = loaded, 2**62

    def card(self, name: str, revision: str | None = None) -> Any:
        """Its card."""
        return self.loaded.card

    def cards(self) -> Any:
        """The shelf."""
        from backend.schema import Models

        return Models(default=self.loaded.name, budget_bytes=1, used_bytes=0, models=(self.loaded.card,))

    @contextmanager
    def lease(self, name: str, revision: str | None = None) -> Iterator[Any]:
        """It stays open anyway."""
        yield self.loaded

    def load(self, name: str, revision: str | None, progress: Any) -> Any:
        """It is open."""
        return self.loaded

    def unload(self, name: str, revision: str | None = None) -> None:
        """It stays."""


def published(loaded: Any, text: str, steps: int) -> dict[str, float]:
    """The published way: its steered step over its plain one, a slider's move, and every output embedding moved."""
    import torch

    ids_1T = torch.tensor([loaded.tokenizer(text, add_special_tokens=False)["input_ids"]])
    matrix = loaded.vectors.steer(_id(PUBLISHED_RANK))
    ways = _published_ways(loaded, matrix, ids_1T.to(loaded.anatomy.device))
    best = dict.fromkeys(ways, float("inf"))
    for turn in range(max(steps // 2, 5)):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    return {
        "peer_step_ratio": round(best["steered step"] / best["plain step"], 4),
        "peer_slider_ms": round(1000 * best["move"], 2),
        "peer_embeddings_moved_ms": round(1000 * best["embeddings moved"], 2),
    }


def _published_ways(loaded: Any, matrix: Any, ids_1T: Any) -> dict[str, Way]:
    import torch
    from transformers import DynamicCache

    trunk, head_VD = loaded.anatomy.trunk, loaded.anatomy.unembedding.get_parameter("weight").detach()
    p1_1DK, p2_1DK = (part.to(ids_1T.device)[None] for part in (matrix.left_DK, matrix.right_KD.T.contiguous()))
    values_1S = torch.tensor([[50.0]], device=ids_1T.device)
    caches = {name: DynamicCache(config=loaded.model.config) for name in ("plain", "steered")}

    def read(c_1TD: Any, *, steered: bool) -> Any:
        if not steered or float(values_1S.abs().sum()) == 0:
            return c_1TD @ head_VD.T
        kind = p1_1DK.dtype
        moved_1STD = (c_1TD.to(kind)[:, None] @ p1_1DK[None]) @ p2_1DK.transpose(1, 2)[None]
        moved_1TD = (values_1S[..., None, None] * moved_1STD).sum(1)
        return (c_1TD.to(kind) + EPSILON * moved_1TD).to(c_1TD.dtype) @ head_VD.T

    def step(name: str) -> Any:
        ids = ids_1T if caches[name].get_seq_length() == 0 else ids_1T[:, -1:]
        with torch.inference_mode():
            c_1TD = trunk(input_ids=ids, cache=caches[name], use_cache=True).last_hidden_state[:, -1:]
            return int(read(c_1TD, steered=name == "steered").argmax())

    def move() -> Any:
        with torch.inference_mode():
            c_1TD = trunk(input_ids=ids_1T, use_cache=False).last_hidden_state[:, -1:]
            return int(read(c_1TD, steered=True).argmax())

    def embeddings() -> Any:
        with torch.inference_mode():
            merged_KD = (p2_1DK[0].T * 0.05).to(head_VD.dtype)
            moved_VD = head_VD + (head_VD @ merged_KD.T) @ p1_1DK[0].to(head_VD.dtype).T
            return int((head_VD[:1] @ moved_VD.T).argmax())

    return {
        "plain step": lambda: step("plain"), "steered step": lambda: step("steered"), "move": move,
        "embeddings moved": embeddings,
    }  # fmt: skip
