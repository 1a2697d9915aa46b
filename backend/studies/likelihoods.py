"""The likelihood of many texts under slider settings, each batch a question of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from backend import errors
from backend.desk.question import Cancel
from backend.models.likelihood import (
    Likelihoods,
    Reading,
    Setting,
    batches,
    likelihood_bytes,
    likelihoods,
)
from backend.models.loaded import Loaded
from backend.models.variants import ROWS
from backend.models.vectors import Beside
from backend.studies.asking import OnModel, no_word


async def _quietly(found: list[Likelihoods]) -> None:
    pass


async def likelihoods_of(
    model: OnModel, texts: Sequence[Reading], settings: Sequence[Setting], beside: Beside, *, base: int | None = None,
    told: Callable[[list[Likelihoods]], Awaitable[None]] = _quietly, waiting: Callable[[], None] = no_word,
) -> Likelihoods:  # fmt: skip
    """As `likelihood.likelihoods`, of any number of texts; `told` what was measured so far, batch by batch.

    `beside`: where the settings' vectors come from. A batch for which there is no memory is asked again in halves.
    """
    found: list[Likelihoods] = []
    done, size = 0, ROWS
    while done < len(texts):
        await told(found)
        part = texts[done : done + size]

        def measure(loaded: Loaded, cancel: Cancel, part: Sequence[Reading]) -> Likelihoods:
            first = batches(loaded, part, settings)[0]
            chosen = [part[place] for place in first]
            return likelihoods(loaded, chosen, settings, beside, base=base, cancel=cancel)

        def cost(loaded: Loaded, part: Sequence[Reading]) -> int:
            return likelihood_bytes(loaded, [part[place] for place in batches(loaded, part, settings)[0]])

        try:
            found.append(await model.patiently(partial(measure, part=part), partial(cost, part=part), waiting))
        except errors.OutOfMemory:
            if size == 1:
                raise
            size //= 2
            continue
        done += len(found[-1].tokens_N)
    return Likelihoods.joined(found)
