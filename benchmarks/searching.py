"""What a search over all values of SmolLM2-135M costs: 46,080 values against a word, by logit and by z.

Time: best of several warm searches, words to JSON, the slower of both rankings. Memory: what the first search by z and
all that follow add to the peak of a process that has the model loaded, so the tables that are kept are in it.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks import memory

WORDS = ("London", "Paris")
ROUNDS = 15
CHILD_SECONDS = 300


def search() -> dict[str, float]:
    """`search_ms`, and what it is the slower of; `search_cold_ms`, the first by z, which makes its table;
    `search_extra_mib` from a process of its own.
    """
    from benchmarks.opened import smollm2

    found = warm(smollm2(), WORDS)
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.searching"], check=True, capture_output=True, text=True,
        timeout=CHILD_SECONDS, env=os.environ | memory.STEADY,
    )  # fmt: skip
    return found | {"search_extra_mib": json.loads(child.stdout.splitlines()[-1])["mib"]}


def warm(loaded: Any, words: tuple[str, ...]) -> dict[str, float]:
    """`search_ms`, what it is the slower of, and `search_cold_ms`."""
    loaded.kept.clear()
    start = time.perf_counter()
    _ask(loaded, words, "z")
    cold = time.perf_counter() - start
    best = {ranked: _best(loaded, words, ranked) for ranked in ("logit", "z")}
    return {
        "search_ms": round(1000 * max(best.values()), 1),
        "search_logit_ms": round(1000 * best["logit"], 1),
        "search_z_ms": round(1000 * best["z"], 1),
        "search_cold_ms": round(1000 * cold, 1),
    }


def _best(loaded: Any, words: tuple[str, ...], ranked: str) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _ask(loaded, words, ranked)
        best = min(best, time.perf_counter() - start)
    return best


def _ask(loaded: Any, words: tuple[str, ...], ranked: str) -> int:
    """One question as a server answers it, and the bytes of its JSON."""
    from backend.desk.answers import written
    from backend.models import values
    from backend.schema import Limits, SearchAsk

    ask = SearchAsk.model_validate({"model": loaded.name, "words": words, "ranked": ranked})
    return len(written(values.search(loaded, ask, Limits())))


def _grown() -> float:
    """MiB that searches add to the peak."""
    from benchmarks.opened import smollm2

    loaded = smollm2()
    _ask(loaded, WORDS, "logit")  # code and threads that any question needs
    loaded.kept.clear()
    before = memory.peak_from_now()
    for ranked in ("z", "logit", "z"):
        _ask(loaded, WORDS, ranked)
    return round((memory.peak() - before) / memory.MIB, 1)


if __name__ == "__main__":
    print(json.dumps({"mib": _grown()}))
