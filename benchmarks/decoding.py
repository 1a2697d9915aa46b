"""How much faster sixteen people are written for at once than one after the other.

Each has a text, an edit and a sampling of their own. A step is everything between two tokens of a person: the pass, the
read-out, the drawing, and the words that are sent. Best of several runs of `STEPS` steps, alone and together in turn.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

PEOPLE = 16
STEPS = 12
ROUNDS, QUICK_ROUNDS = 5, 2
TEXTS = (
    "The capital of France is", "Once upon a time there was a lighthouse keeper who", "In the second half of the game",
    "The quick brown fox jumps over the lazy dog, and", "My favourite kind of bread is",
    "When Mary and John went to the store, John gave a drink to", "Water boils at", "To be or not to be, that is",
)  # fmt: skip


def batch16_speedup(
    loaded: Any, texts: Sequence[str] = TEXTS, *, edit: Callable[[int], Any] | None = None, quick: bool = False
) -> dict[str, float]:
    """Figures by name: tokens a second of sixteen over those of one, and the seconds of a step of each.

    `edit`: the edit of each person, by number; without it a unit that is turned round.
    """
    best = {1: float("inf"), PEOPLE: float("inf")}
    for _ in range(QUICK_ROUNDS if quick else ROUNDS):
        for people in best:
            best[people] = min(best[people], _step_seconds(loaded, texts, people, edit or _unit))
    return {
        "batch16_speedup": round(PEOPLE * best[1] / best[PEOPLE], 2),
        "step_seconds_1": round(best[1], 4),
        "step_seconds_16": round(best[PEOPLE], 4),
    }


def _step_seconds(loaded: Any, texts: Sequence[str], people: int, edit: Callable[[int], Any]) -> float:
    from backend.models.decoding import Batch, Chosen, Line
    from backend.models.write import Writer
    from backend.schema import Limits

    batch = Batch(loaded)
    owners: dict[Line, Writer] = {}

    def take(found: dict[Any, Any]) -> None:
        for line, chosen in found.items():
            assert isinstance(chosen, Chosen)
            owners[line].take(line, chosen)

    for number in range(people):
        writer = Writer(loaded, _ask(loaded.name, texts, number, edit), Limits(), _sent)
        owners |= dict.fromkeys(writer.lines, writer)
        take(batch.join(writer.lines))
    start = time.perf_counter()
    for _ in range(STEPS):
        take(batch.step())
    return (time.perf_counter() - start) / STEPS


def _sent(event: Any) -> None:
    """What a token costs on its way out."""
    event.model_dump_json()


def _ask(model: str, texts: Sequence[str], number: int, edit: Callable[[int], Any]) -> Any:
    """One person's question; every second one samples."""
    from backend.schema import Sampling, View, WriteAsk

    sampling = Sampling(tokens=512, temperature=0.8 * (number % 2), top_p=0.9, seed=number)
    view = View(model=model, text=texts[number % len(texts)], edits=(edit(number),), sampling=sampling)
    return WriteAsk(view=view, top=4)


def _unit(number: int) -> Any:
    from backend.schema import FfnScale

    return FfnScale(layer=number, unit=7 * number, by=-1)
