"""The means of a model over a prompt set: those that are kept, or read text by text now."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from backend.models.means import Means, MeanTables, Sums, text_bytes
from backend.schema import Conditions, Limits, PromptSet
from backend.studies.asking import OnModel, no_word


async def means_of(
    model: OnModel, conditions: Conditions, chosen: PromptSet, tables: MeanTables, limits: Limits,
    told: Callable[[int], None], waiting: Callable[[], None] = no_word,
) -> Means:  # fmt: skip
    """Means over a set; `told` how many texts were read. Raises as `Sums.add` and `OnModel.ask`."""
    kept = await asyncio.to_thread(tables.find, conditions, chosen.card.id)
    if kept is not None:
        return kept
    sums = Sums()

    def read(loaded: Any, cancel: Any) -> int:
        return sums.add(loaded, chosen.texts, limits, cancel)

    while sums.texts < len(chosen.texts):
        told(sums.texts)
        await model.patiently(read, partial(text_bytes, texts=chosen.texts, limits=limits), waiting)
    means = sums.means()
    await asyncio.to_thread(tables.keep, conditions, chosen.card.id, means)
    return means
