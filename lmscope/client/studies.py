"""What the prediction does without a part, or with a part of another run."""

from collections.abc import Sequence
from typing import Literal

from backend.schema import (
    EffectsAnswer,
    EffectsAsk,
    Explain,
    MeanAnswer,
    MeanAsk,
    PatchAnswer,
    PatchAsk,
    PatchMap,
    PatchMapAsk,
    PatchPlace,
    PatchTap,
    Removal,
    View,
)
from lmscope.asking import asked
from lmscope.client.jobs import JobsClient, Progress
from lmscope.client.reading import typed
from lmscope.client.trace import EXPLAIN
from lmscope.naming import Heads, Unit, head_names, unit_name


class StudiesClient(JobsClient):
    async def effects(
        self,
        view: View,
        explain: Explain = EXPLAIN,
        *,
        parts: Literal["heads", "attention", "feed_forward", "units"] = "heads",
        heads: Heads = (),
        units: Sequence[Unit] = (),
        removal: Removal = "zero",
        set: str | None = None,
        progress: Progress | None = None,
    ) -> EffectsAnswer:
        """What the prediction does when parts are removed, one at a time; waits for the job, which `progress` sees.

        `heads`: only these; `units` where `parts` is units; `set`: the prompt set of a mean, by id. To leave
        off waiting (a cancelled task, a stopped cell) stops the job; `start` does not wait.
        """
        ask = asked(
            EffectsAsk, view=view, explain=explain, parts=parts, heads=head_names(heads),
            units=tuple(map(unit_name, units)), removal=removal, set=set,
        )  # fmt: skip
        return EffectsAnswer.model_validate(await self._study(ask, progress))

    async def patch(self, view: View, source: View, places: PatchPlace | Sequence[PatchPlace]) -> PatchAnswer:
        """Edits for `view` that put there what the run of `source` holds at these places."""
        chosen = (places,) if isinstance(places, PatchPlace) else tuple(places)
        return typed(PatchAnswer, await self._ask(asked(PatchAsk, view=view, source=source, places=chosen)))

    async def patch_map(
        self,
        view: View,
        source: View,
        *,
        tap: PatchTap = "residual",
        heads: Heads = (),
        explain: Explain = EXPLAIN,
        progress: Progress | None = None,
    ) -> PatchMap:
        """The prediction with every cell of the grid patched, one at a time; waits for the job."""
        ask = asked(PatchMapAsk, view=view, source=source, tap=tap, heads=head_names(heads), explain=explain)
        return PatchMap.model_validate(await self._study(ask, progress))

    async def mean(
        self,
        view: View,
        tap: Literal["heads", "ffn", "ffn_out", "residual"],
        layer: int,
        *,
        head: int | None = None,
        unit: int | None = None,
        set: str | None = None,
    ) -> MeanAnswer:
        """The edit that sets a part to its mean over a prompt set (by id; by default the one of the product)."""
        ask = asked(MeanAsk, view=view, tap=tap, layer=layer, head=head, unit=unit, set=set)
        return typed(MeanAnswer, await self._send("POST", "trace/mean", ask))
