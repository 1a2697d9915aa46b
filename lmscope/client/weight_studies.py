"""All heads of a model, and what holds of its weights on the whole."""

from typing import Any

from backend.schema import (
    ActiveAsk,
    ActiveStudy,
    Circuit,
    Filters,
    HeadSummaries,
    HeadTables,
    KeepAsk,
    KeepStudy,
    SimilarityAsk,
    SimilarityStudy,
    SummariesAsk,
    TablesAsk,
)
from lmscope.asking import asked
from lmscope.client.jobs import JobsClient, Progress


class WeightStudiesClient(JobsClient):
    async def head_tables(
        self, /, model: str, circuit: Circuit = "vo", *, filters: Filters | None = None,
        progress: Progress | None = None, **options: Any,
    ) -> HeadTables:  # fmt: skip
        """The largest entries of W_VO (or `"qk"`: W_QK) of every head, exactly; waits for the job.

        Options: `revision`, `reading`, `inverse`, `sign`, `top`, `distance`, `twin`, as of `pairs`. What was searched
        before is there at once.
        """
        ask = asked(TablesAsk, options, model=model, circuit=circuit, filters=filters or Filters())
        return HeadTables.model_validate(await self._study(ask, progress))

    async def head_summaries(
        self, /, model: str, *, progress: Progress | None = None, **options: Any
    ) -> HeadSummaries:  # fmt: skip
        """W_VO of every head in numbers: singular values, copying, same-token pairs; waits for the job.

        Options: `revision`, `reading` and `top` (of how many pairs the share of same tokens is told).
        """
        return HeadSummaries.model_validate(await self._study(asked(SummariesAsk, options, model=model), progress))

    async def kept_words(self, /, model: str, *, progress: Progress | None = None, **options: Any) -> KeepStudy:
        """How much of inner products the k largest words of vectors keep, under Eᵀ and E⁺; waits for the job.

        Options: `vectors` (of "normal", "values" and "states"), `ks`, `count`, `set` (a prompt set by id), `seed` and
        `revision`.
        """
        return KeepStudy.model_validate(await self._study(asked(KeepAsk, options, model=model), progress))

    async def active_words(self, /, model: str, *, progress: Progress | None = None, **options: Any) -> ActiveStudy:
        """R_k by layer: whether the most active vectors say what the state says, beside shuffled; waits for the job.

        Options: `groups`, `k`, `active`, `tokens`, `set`, `reading`, `seed` and `revision`.
        """
        return ActiveStudy.model_validate(await self._study(asked(ActiveAsk, options, model=model), progress))

    async def similarity(self, /, model: str, *, progress: Progress | None = None, **options: Any) -> SimilarityStudy:
        """How many words vectors that belong together share, against chance, by layer; waits for the job.

        Options: `pairings`, `end`, `k`, `count` (pairs a layer), `reading`, `seed` and `revision`.
        """
        return SimilarityStudy.model_validate(await self._study(asked(SimilarityAsk, options, model=model), progress))
