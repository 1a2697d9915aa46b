"""The promise that decides how a model writes: lines of two lengths in a cache equal their texts run anew."""

from __future__ import annotations

import torch
from torch import Tensor

from backend.models import forward
from backend.models.decoding import Batch, Line
from backend.models.loaded import Loaded, Way
from backend.models.plan import Row
from backend.schema import Promise

NAME = "a cached step equals a re-run"
"""The promise that decides how a model writes."""
WAYS: tuple[Way, ...] = ("together", "alone", "again")
TOLD: dict[Way, str] = {
    "together": "lines of different lengths share one cache",
    "alone": "each line has a cache of its own, for this model's cannot be put beside one another",
    "again": "its cache is of no use here, so each token runs the whole text again: right, and slower",
}
CHECKED_STEPS = 3


def way_of(loaded: Loaded, ids: list[int], most: float) -> tuple[Way, Promise]:
    """How a model may write: the first way in which lines of two lengths equal running their texts anew.

    `most`: how far final states may lie apart, relative to their size.
    """
    if not loaded.anatomy.shape.causal or loaded.anatomy.unembedding is None:
        return "again", Promise(name=NAME, kept=None, detail="this model does not write")
    found = ""
    for way in WAYS:
        try:
            apart = _apart(loaded, ids, way)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:  # the code of any family may raise anything when it is given a cache
            found += f"{way}: {type(error).__name__}; "
            continue
        if apart <= most:
            detail = f"final states differ by {apart:.1e} of their size; {TOLD[way]}"
            return way, Promise(name=NAME, kept=None if way == "again" else True, detail=detail)
        found += f"{way}: {apart:.1e} apart; "
    return "again", Promise(name=NAME, kept=False, detail=found + "it runs its text anew and finds something else")


def _apart(loaded: Loaded, ids: list[int], way: Way) -> float:
    """How far two lines, the shorter one joining late and staying longer, are from their texts run alone."""
    whole = forward.run(loaded, [ids])[0]
    other = forward.run(loaded, [ids[2:]])[0]
    first, second = (Line(list(part), Row((), len(part))) for part in (ids[: -CHECKED_STEPS - 1], ids[2:4]))
    batch = Batch(loaded, way)
    apart = 0.0

    def compare(states: dict[Line, Tensor]) -> None:
        nonlocal apart
        for line, expected in ((first, whole), (second, other)):
            if line in states:
                found = states[line]
                apart = max(apart, float((found - expected[len(line.ids) - 1]).abs().max()))
                line.ids.append((ids if line is first else ids[2:])[len(line.ids)])

    compare(batch.watch([first]))
    compare(batch.watch([second]))
    for step in range(CHECKED_STEPS):
        if step == CHECKED_STEPS - 1:
            batch.leave([first])
        compare(batch.watch())
    return apart / (1 + float(whole.abs().max()))
