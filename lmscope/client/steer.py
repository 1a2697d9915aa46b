"""What sliders do to a prediction, to a text and to what is written."""

from collections.abc import Sequence
from typing import Literal

from backend.schema import (
    EvidenceAnswer,
    EvidenceAsk,
    InsideAnswer,
    InsideAsk,
    SteerAnswer,
    SteerAsk,
    Sweep,
    SweepAsk,
    View,
)
from lmscope.asking import asked, listed, several
from lmscope.client.jobs import JobsClient, Progress
from lmscope.client.reading import typed

STRENGTHS = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)


class SteerClient(JobsClient):
    async def steer(
        self, view: View, *, token: int | None = None, top: int = 10, over: Literal["token", "text"] = "token"
    ) -> SteerAnswer:
        """The next token with the view's sliders (its steers and directions) and without them, and what each adds.

        `over="text"`: the Kullback-Leibler divergence over every token of the text, too.
        """
        return typed(SteerAnswer, await self._ask(asked(SteerAsk, view=view, token=token, top=top, over=over)))

    async def steer_evidence(
        self,
        view: View,
        *,
        against: Literal["base", "reversed"] = "reversed",
        spans: int = 4,
        length: int = 10,
        permutations: int = 999,
    ) -> EvidenceAnswer:
        """Which words of the text are likelier with the sliders, and the best spans beside what chance would give."""
        ask = asked(EvidenceAsk, view=view, against=against, spans=spans, length=length, permutations=permutations)
        return typed(EvidenceAnswer, await self._ask(ask))

    async def steer_inside(
        self, model: str, steer: str, *, revision: str | None = None, dimensions: int = 10, top: int = 20
    ) -> InsideAnswer:
        """The singular directions of a steer (by its id) as words at both ends."""
        ask = asked(InsideAsk, model=model, revision=revision, steer=steer, dimensions=dimensions, top=top)
        return typed(InsideAnswer, await self._ask(ask))

    async def sweep(
        self,
        view: View,
        steer: str,
        strengths: Sequence[float] = STRENGTHS,
        *,
        layer: int | None = None,
        other: str | None = None,
        other_strengths: Sequence[float] = (),
        other_layer: int | None = None,
        examples: str | None = None,
        prompts: Sequence[str] = (),
        tokens: int = 20,
        control: bool = True,
        texts: int = 64,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Sweep:
        """What a steer (by id), or two over the grid, do at every strength; waits for the job, whose `partial` grows.

        `examples`: labelled texts by id; by default those that the steer was held out from. `prompts`: at least eight;
        by default neutral ones. `control`: a random steer of equal norm and rank at the same strengths.
        """
        ask = asked(
            SweepAsk, view=view, steer=steer, strengths=several("strengths", strengths), layer=layer, other=other,
            other_strengths=several("other_strengths", other_strengths), other_layer=other_layer, examples=examples,
            prompts=listed(prompts, "prompts"), tokens=tokens, control=control, texts=texts, seed=seed,
        )  # fmt: skip
        return Sweep.model_validate(await self._study(ask, progress))
