"""The weights of two models side by side."""

from typing import Any

from backend.schema import AlignmentAnswer, AlignmentAsk, ChangesAnswer, ChangesAsk, StitchingAnswer, StitchingAsk
from lmscope.asking import asked
from lmscope.client.jobs import JobsClient, Progress


class TwoModelsClient(JobsClient):
    async def changes(
        self, /, model: str, other: str, *, progress: Progress | None = None, **options: Any
    ) -> ChangesAnswer:
        """How the parameters of `other` differ from those of `model`, by layer and group, and in words; waits for the
        job.

        Options: `by` ("norm", "relative" or "moved"), `limit` vectors of each group, `top` words, `layer`, `reading`,
        `by_string` (map other vocabularies by what tokens stand for), `revision` and `other_revision`.
        """
        ask = asked(ChangesAsk, options, model=model, other=other)
        return ChangesAnswer.model_validate(await self._study(ask, progress))

    async def alignment(
        self, /, model: str, other: str, *, progress: Progress | None = None, **options: Any
    ) -> AlignmentAnswer:
        """Which layers of two models are alike in embedding space, matched one to one; waits for the job.

        Options: `groups` (such as `("key", "value", "vo")`; by default all), `score` ("mean" or "best"), `reading`,
        `by_string` (map other vocabularies by what tokens stand for), `revision` and `other_revision`.
        """
        ask = asked(AlignmentAsk, options, model=model, other=other)
        return AlignmentAnswer.model_validate(await self._study(ask, progress))

    async def stitching(
        self, /, model: str, other: str, *, progress: Progress | None = None, **options: Any
    ) -> StitchingAnswer:
        """Lower blocks of `model`, then upper blocks of `other`, with E_model E_other⁺ between; waits for the job.

        Options: `examples` (labelled texts, by id) or `set` (texts, by id), `texts`, `tokens`, `cuts` (how many blocks
        of `model`), `last` (how many of `other`), `positive` and `negative` (the labels that stand for + and − texts),
        `seed`, `reading`, `by_string`, `revision` and `other_revision`.
        """
        ask = asked(StitchingAsk, options, model=model, other=other)
        return StitchingAnswer.model_validate(await self._study(ask, progress))
