"""What the Trace page costs beyond the bare model, on SmolLM2-135M: the lens of 64 tokens, a search, sixteen who write.

The grid's floor is the bare forward (the trunk) and one read-out of all its (L + 1) · T states in blocks, of which
nothing is kept; the first paint is held against the bare forward with logits of its T states. Ours runs from text to
the JSON that the browser gets, with nothing kept from the question before. Times: best of several, taken in turn.
"""

import time
from collections.abc import Callable
from typing import Any, Literal

from benchmarks.decoding import batch16_speedup
from benchmarks.opened import smollm2
from benchmarks.searching import search

TOKENS = 64
TEXT = (
    "The lighthouse keeper climbed the narrow stairs every evening before dusk, counting each step aloud so that the "
    "gulls outside would know he was coming. When the lamp was lit he sat beside the window, opened the large green "
    "book in which ships were noted, and wrote the date with great care. No ship had passed for nine"
)
ROUNDS, QUICK_ROUNDS = 7, 3
Way = Callable[[], Any]


def run(quick: bool, peer: bool) -> dict[str, float]:
    """Figures by name: `page_over_floor_64`, `first_paint_over_forward_64`, the seconds that they are made of, and
    those of `search` and `batch16_speedup`.
    """
    del peer  # no rival draws this page
    loaded = smollm2()
    return lens(loaded, TEXT, QUICK_ROUNDS if quick else ROUNDS) | search() | batch16_speedup(loaded, quick=quick)


def lens(loaded: Any, text: str, rounds: int) -> dict[str, float]:
    """The grid over its floor and the first paint over the forward with logits; `text` has `TOKENS` tokens."""
    best = _in_turn(_ways(loaded, text), rounds)
    return {
        f"page_over_floor_{TOKENS}": round(best["page"] / best["floor"], 3),
        f"first_paint_over_forward_{TOKENS}": round(best["first paint"] / best["forward with logits"], 3),
        f"page_seconds_{TOKENS}": round(best["page"], 4),
        f"floor_seconds_{TOKENS}": round(best["floor"], 4),
        f"first_paint_seconds_{TOKENS}": round(best["first paint"], 4),
        f"forward_with_logits_seconds_{TOKENS}": round(best["forward with logits"], 4),
    }


def _ways(loaded: Any, text: str) -> dict[str, Way]:
    return {
        "forward with logits": lambda: _forward(loaded, text, logits=True),
        "first paint": lambda: _ours(loaded, text, "focus"),
        "floor": lambda: _floor(loaded, text),
        "page": lambda: _ours(loaded, text, "all"),
    }


def _in_turn(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            _wait()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def _wait() -> None:
    """Until a graphics card has done what it was given."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _ours(loaded: Any, text: str, part: Literal["focus", "all"]) -> int:
    """One whole question as it comes for the first time; its bytes."""
    from backend.desk.answers import written
    from backend.models import trace
    from backend.schema import Limits, TraceAsk, View

    loaded.kept.clear()
    ask = TraceAsk(view=View(model=loaded.name, text=text), part=part)
    return len(written(trace.trace(loaded, ask, Limits())))


def _ids(loaded: Any, text: str) -> Any:
    import torch

    return torch.tensor([loaded.tokenizer(text, add_special_tokens=False)["input_ids"]]).to(loaded.anatomy.device)


def _forward(loaded: Any, text: str, *, logits: bool = False) -> None:
    import torch

    model = loaded.model if logits else loaded.anatomy.trunk
    with torch.inference_mode():
        model(input_ids=_ids(loaded, text), use_cache=False)


def _floor(loaded: Any, text: str) -> None:
    """The trunk, and as many states as the lens has through the output embedding, block by block."""
    _forward(loaded, text)
    _read_out(loaded)


def _read_out(loaded: Any) -> None:
    import torch

    from backend.measure.tokens import BLOCK_BYTES, rows_in

    shape = loaded.anatomy.shape
    rows = (shape.layers + 1) * TOKENS
    states_ND = torch.zeros(rows, shape.width, dtype=loaded.model.dtype, device=loaded.anatomy.device)
    with torch.inference_mode():
        for block_ND in states_ND.split(rows_in(BLOCK_BYTES, shape.vocabulary)):
            loaded.anatomy.unembedding(block_ND)
