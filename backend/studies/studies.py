"""The studies of one server: checked at once, run as jobs, taken up again after a kill."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from backend.desk.answers import question_key
from backend.desk.desk import Desk
from backend.desk.jobs import Again, Work
from backend.desk.question import Cancel
from backend.desk.running import Report
from backend.models.cost import capture_bytes
from backend.schema import (
    ActiveAsk,
    AlignmentAsk,
    ChangesAsk,
    DirectionAsk,
    EffectsAsk,
    Job,
    KeepAsk,
    Limits,
    LongAsk,
    MakeAsk,
    MeanAnswer,
    MeanAsk,
    OfTwo,
    PatchMapAsk,
    SimilarityAsk,
    StitchingAsk,
    SummariesAsk,
    SweepAsk,
    TablesAsk,
    TransferAsk,
)
from backend.studies import (
    active,
    alignment,
    changes,
    direction,
    effects,
    head_tables,
    keeping,
    making,
    patch_map,
    similarity,
    stitching,
    sweep,
    transfer,
)
from backend.studies.asking import OnModel
from backend.studies.library import Library
from backend.studies.mean import mean
from backend.studies.two_models import nothing
from backend.studies.working import as_work

Ask = (
    EffectsAsk | PatchMapAsk | MakeAsk | DirectionAsk | SweepAsk | TransferAsk | AlignmentAsk | ChangesAsk
    | StitchingAsk | TablesAsk | SummariesAsk | KeepAsk | ActiveAsk | SimilarityAsk
)  # fmt: skip
Run = Callable[[OnModel, Any, Library, Report], Coroutine[Any, Any, dict[str, Any]]]


def _nothing(loaded: Any, ask: Any, limits: Limits) -> int:
    return 0


def _no_look(ask: Any, library: Library) -> None:
    pass


def _text(loaded: Any, ask: Any, limits: Limits) -> int:
    return capture_bytes(loaded, ask.view, limits)


@dataclass(frozen=True)
class Kind:
    """One kind of study. `check` and `cost` run on the model's thread."""

    name: str
    form: type[Ask]
    what: str
    check: Callable[[Any, Any, Library, Cancel], None]
    """Raises what can be known before any forward pass."""
    run: Run
    cost: Callable[[Any, Any, Limits], int] = _nothing
    """Bytes that checking takes."""
    look: Callable[[Any, Library], None] = _no_look
    """Raises what can be known without the model, on a thread of its own: it may read many texts."""
    before: Callable[[OnModel, Any, Library], Coroutine[Any, Any, None]] | None = None
    """Raises what two models say of each other, before there is a job."""


KINDS = (
    Kind("trace.effects", EffectsAsk, "removing parts one at a time", effects.check, effects.study, _text),
    Kind("trace.patch.map", PatchMapAsk, "patching one cell at a time", patch_map.check, patch_map.study, _text),
    Kind("steers.make", MakeAsk, "making a steer", making.check, making.study, look=making.look),
    Kind("steers.direction", DirectionAsk, "making a direction", direction.check, direction.study, look=direction.look),
    Kind(
        "steers.transfer", TransferAsk, "moving a steer to another model", transfer.check, transfer.study,
        look=transfer.look,
    ),
    Kind("steers.sweep", SweepAsk, "measuring what a slider does", sweep.check, sweep.study, look=sweep.look),
    Kind(changes.KIND, ChangesAsk, "subtracting one model from another", nothing, changes.study, before=changes.before),
    Kind(
        alignment.KIND, AlignmentAsk, "comparing the layers of two models", nothing, alignment.study,
        before=alignment.before,
    ),
    Kind(
        stitching.KIND, StitchingAsk, "stitching two models", nothing, stitching.study, look=stitching.look,
        before=stitching.before,
    ),
    Kind(
        "weights.tables", TablesAsk, "searching the pairs of every head", head_tables.check_tables,
        head_tables.tables, head_tables.cost_tables,
    ),
    Kind(
        "weights.heads", SummariesAsk, "measuring W_VO of every head", head_tables.check_summaries,
        head_tables.summaries, head_tables.cost_summaries,
    ),
    Kind("weights.keep", KeepAsk, "keeping k words", keeping.check, keeping.study, keeping.cost),
    Kind("weights.active", ActiveAsk, "comparing active vectors with states", active.check, active.study, active.cost),
    Kind(
        "weights.similarity", SimilarityAsk, "comparing vectors that belong together", similarity.check,
        similarity.study, similarity.cost,
    ),
)  # fmt: skip


def _share(kind: Kind, ask: Ask, owner: str) -> str:
    return f"{question_key(kind.name, ask)} {owner}"


class Studies:
    """Starts studies. Its methods belong to the event loop."""

    def __init__(self, desk: Desk, library: Library) -> None:
        self._desk, self._library = desk, library

    async def start(self, ask: Ask, *, owner: str = "") -> Job:
        """A job for the study, or the one that already runs for the same tab; a kill does not forget it.

        Raises whatever can be known without running the model, and as `Desk.ask`.
        """
        kind, library = next(kind for kind in KINDS if isinstance(ask, kind.form)), self._library
        if isinstance(ask, EffectsAsk):
            await asyncio.to_thread(library.sets.get, ask.set)
        if isinstance(ask, KeepAsk | ActiveAsk):
            await asyncio.to_thread(library.sets.get, ask.set)
        await asyncio.to_thread(kind.look, ask, library)
        await self._check_together(ask)
        await self._model(kind, ask).ask(
            lambda loaded, cancel: kind.check(loaded, ask, library, cancel),
            lambda loaded: kind.cost(loaded, ask, library.limits),
        )
        if kind.before is not None:
            await kind.before(self._model(kind, ask), ask, library)
        share = _share(kind, ask, owner)
        request = {"ask": ask.model_dump(mode="json"), "share": share}
        work = self._work(kind, ask, share)
        job = self._desk.jobs.start(
            kind.name, work.what, work.run, share=share, owner=owner, request=request, waits=work.waits
        )
        await self._desk.jobs.recorded()
        return job

    async def known(self, ask: LongAsk, *, owner: str = "") -> Job | None:
        """The newest answer to exactly this under the conditions of now, or the job that this tab has running for it.

        Nothing is loaded or begun: a model that is not loaded has no known answers. Raises `UnknownModel`.
        """
        kind, jobs = next(kind for kind in KINDS if isinstance(ask, kind.form)), self._desk.jobs
        under = {"conditions": await self._desk.conditions(ask.model, ask.revision)}
        if isinstance(ask, OfTwo):
            under["other_conditions"] = await self._desk.conditions(ask.other, ask.other_revision)
        if None in under.values():
            return None
        if (running := jobs.shared(_share(kind, ask, owner))) is not None:
            return running
        now = {name: each.model_dump(mode="json") for name, each in under.items() if each is not None}
        async for job in jobs.done(kind.name, {"ask": ask.model_dump(mode="json")}):
            if job.result is not None and now.items() <= job.result.items():
                return job
        return None

    async def mean(self, ask: MeanAsk) -> MeanAnswer:
        """A part's mean as an edit; a vector is kept. Raises as `mean`, and `UnknownSet`."""
        library = self._library
        chosen = await asyncio.to_thread(library.sets.get, ask.set)
        model = library.open(ask.view.model, ask.view.revision, "trace.mean")
        return await mean(model, ask, chosen, library.tables, library.vectors, library.limits)

    def kinds(self) -> dict[str, Again]:
        """How each kind goes on after a kill: from its beginning, for every number follows from what was asked."""
        return {kind.name: partial(self._again, kind) for kind in KINDS}

    async def _again(self, kind: Kind, request: dict[str, Any]) -> Work:
        return self._work(kind, kind.form.model_validate(request["ask"]), request.get("share", ""))

    def _model(self, kind: Kind, ask: Ask) -> OnModel:
        of: Any = getattr(ask, "view", ask)
        return self._library.open(of.model, of.revision, kind.name)

    async def _check_together(self, ask: Ask) -> None:
        """Raise `OverBudget` for two models that cannot be open at once: what one says is laid beside the other's."""
        if isinstance(ask, OfTwo):
            await self._desk.check_together((ask.model, ask.revision), (ask.other, ask.other_revision))

    def _work(self, kind: Kind, ask: Ask, share: str) -> Work:
        async def run(report: Report) -> dict[str, Any]:
            await self._check_together(ask)
            return await kind.run(self._model(kind, ask), ask, self._library, report)

        return Work(kind.what, as_work(run, asyncio.get_running_loop()), share, waits=True)
