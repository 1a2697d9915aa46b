"""What the exact top pairs of a head cost beyond the bare product of its two thin factors, and how that grows.

The bare product makes every block of A Bᵀ in float32 at its fastest block size and keeps nothing. Ours is the top 50
of one sign, exact, out of the same factors. Two kinds of factors: thrown ones, where no block can be passed over (the
figure without a suffix), and those of a head of SmolLM2-135M. Times: best of several, taken in turn. Memory: what a
search adds to the peak of a process that holds the factors.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import memory

VOCABULARY, WIDTH, TOP = 50_257, 64, 50
"""Those of GPT-2."""
GROWTH = (50_257, 128_256, 256_000)
TILES = {"cpu": ((512, 1024), (512, 2048), (1024, 2048), (512, 4096), (2048, 2048)),
         "cuda": ((2048, 50_257), (4096, 50_257), (8192, 16_384))}  # fmt: skip
ROUNDS, QUICK_ROUNDS = 5, 2
HEADS, MEDIUM = 384, 1024
"""Of GPT-2 medium: 24 layers of 16 heads, a width of 1,024."""
LAYER, HEAD = 20, 3
CHILD_SECONDS = 600


def run(quick: bool, peer: bool, full: bool = False, device: str = "cpu") -> dict[str, float]:
    """`pairs_over_product`, `pairs_extra_mib`, `pairs_seconds`; with `full` also for larger vocabularies; on a graphics
    card also all heads of GPT-2 medium's shape.
    """
    del peer  # the rival holds the whole matrix: 10.1 GB
    rounds = QUICK_ROUNDS if quick else ROUNDS
    found = _one(_thrown(VOCABULARY, device), rounds, "")
    if device == "cpu":
        found |= {"pairs_extra_mib": _extra(VOCABULARY)} | _one(_real(), rounds, "_smollm2")
    if device == "cuda":
        found |= _all_heads()
    for size in GROWTH if full else ():
        found |= _one(_thrown(size, device), 1, f"_{size}")
        if device == "cpu":
            found[f"pairs_extra_mib_{size}"] = _extra(size)
    return found


def _thrown(size: int, device: str) -> tuple[Any, Any]:
    import torch

    dice = torch.Generator().manual_seed(0)
    return tuple(torch.randn(size, WIDTH, generator=dice).to(device) for _ in range(2))  # type: ignore[return-value]


def _real() -> tuple[Any, Any]:
    """W_VO of a head of SmolLM2-135M, folded."""
    from backend.models.circuits import table
    from benchmarks.opened import smollm2

    made = table(smollm2(), "vo", LAYER, HEAD, "folded")
    return made.rows.vectors(), made.columns.vectors()


def _one(factors: tuple[Any, Any], rounds: int, suffix: str) -> dict[str, float]:
    """Ours over the bare product."""
    from backend.measure.pairs import top_pairs

    tile = _fastest(factors)
    best = {"bare": float("inf"), "ours": float("inf")}
    for _ in range(rounds):
        best["bare"] = min(best["bare"], _timed(lambda: _bare(factors, tile)))
        best["ours"] = min(best["ours"], _timed(lambda: top_pairs(*factors, TOP)))
    return {
        f"pairs_over_product{suffix}": round(best["ours"] / best["bare"], 3),
        f"pairs_seconds{suffix}": round(best["ours"], 4), f"product_seconds{suffix}": round(best["bare"], 4),
    }  # fmt: skip


def _bare(factors: tuple[Any, Any], tile: tuple[int, int], rows: int | None = None) -> None:
    """Every block, made and forgotten, in memory that is used again."""
    import torch

    a_VK, b_VK = factors
    held_X = a_VK.new_empty(tile[0] * tile[1])
    for first in range(0, len(a_VK) if rows is None else rows, tile[0]):
        a_RK = a_VK[first : first + tile[0]]
        for column in range(0, len(b_VK), tile[1]):
            b_CK = b_VK[column : column + tile[1]]
            torch.mm(a_RK, b_CK.T, out=held_X[: len(a_RK) * len(b_CK)].view(len(a_RK), len(b_CK)))


def _fastest(factors: tuple[Any, Any]) -> tuple[int, int]:
    """The block size of the fastest bare product, on the first rows."""
    tiles = TILES[factors[0].device.type]
    rows = max(tile[0] for tile in tiles)
    return min(tiles, key=lambda tile: min(_timed(lambda: _bare(factors, tile, rows)) for _ in range(3)))


def _timed(work: Callable[[], Any]) -> float:
    _wait()
    start = time.perf_counter()
    work()
    _wait()
    return time.perf_counter() - start


def _wait() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _all_heads() -> dict[str, float]:
    """Seconds for the top 50 of W_VO of every head of a model of GPT-2 medium's shape, factors included."""
    import torch

    from backend.measure.pairs import top_pairs

    dice = torch.Generator().manual_seed(0)
    embedding_VD = torch.randn(VOCABULARY, MEDIUM, generator=dice).cuda()
    weights = [(torch.randn(2, MEDIUM, WIDTH, generator=dice) / MEDIUM**0.5).cuda() for _ in range(16)]

    def heads(count: int) -> None:
        for head in range(count):
            read_DK, write_DK = weights[head % len(weights)]
            top_pairs(embedding_VD @ read_DK, embedding_VD @ write_DK, TOP)

    heads(4)
    return {f"pairs_seconds_all_{HEADS}_heads": round(_timed(lambda: heads(HEADS)), 3)}


def _extra(size: int) -> float:
    """MiB that a search adds to the peak, in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.weights", str(size)], check=True, capture_output=True, text=True,
        timeout=CHILD_SECONDS, env=os.environ | memory.STEADY,
    )  # fmt: skip
    return float(json.loads(child.stdout.splitlines()[-1])["mib"])


def _grown(size: int) -> float:
    """MiB that a search adds to the peak of this process."""
    from backend.measure.pairs import top_pairs

    factors = _thrown(size, "cpu")
    top_pairs(factors[0][:999], factors[1][:999], TOP)  # code and threads that any search needs
    before = memory.peak_from_now()
    top_pairs(*factors, TOP)
    return round((memory.peak() - before) / memory.MIB, 1)


if __name__ == "__main__":
    print(json.dumps({"mib": _grown(int(sys.argv[1]))}))
