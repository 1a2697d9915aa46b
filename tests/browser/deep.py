"""The fake client's deeper answers of the trace and steer pages, and jobs that get on whenever somebody looks."""

from typing import Any

from backend.schema import (
    ActiveAsk,
    AlignmentAsk,
    CellAsk,
    ChangesAsk,
    ContributionsAsk,
    DirectionAsk,
    EffectsAsk,
    EvidenceAsk,
    ExamplesAsk,
    ExamplesCard,
    InsideAsk,
    Job,
    KeepAsk,
    MakeAsk,
    PatchAsk,
    PatchMapAsk,
    Problem,
    SetCard,
    SimilarityAsk,
    StitchingAsk,
    SummariesAsk,
    SweepAsk,
    SwitchAsk,
    TablesAsk,
    TransferAsk,
)
from lmscope.client import Refused
from tests.figures import depth, made_up_making, made_up_weight_jobs
from tests.figures.answers import MadeUp

NAMES: dict[type, str] = {
    CellAsk: "cell", ContributionsAsk: "contributions", SwitchAsk: "switch", PatchAsk: "patch", EffectsAsk: "effects",
    PatchMapAsk: "patch_map",
}  # fmt: skip
STEERING: dict[type, str] = {
    ExamplesAsk: "examples", EvidenceAsk: "evidence", InsideAsk: "inside", MakeAsk: "make", DirectionAsk: "make",
    SweepAsk: "sweep", TransferAsk: "transfer",
}  # fmt: skip
"""Those of the steer page, in `made_up_making`."""
WEIGHING: dict[type, str] = {
    SummariesAsk: "heads", TablesAsk: "tables", KeepAsk: "keep", ActiveAsk: "active", SimilarityAsk: "similarity",
    ChangesAsk: "changes", AlignmentAsk: "alignment", StitchingAsk: "stitching",
}  # fmt: skip
"""Those of the weights page, in `made_up_weight_jobs`; all are jobs."""
ALL = NAMES | STEERING | WEIGHING
JOBS: tuple[type, ...] = (
    *WEIGHING, EffectsAsk, PatchMapAsk, MakeAsk, DirectionAsk, SweepAsk, TransferAsk,
)  # fmt: skip
STEPS = 3
"""Looks after which a job is done."""


class Deep:
    """What `FakeClient` and its children share; `work` are the jobs: what was asked, and how often it was looked at."""

    refuse: dict[str, Problem]
    asked: list[Any]
    work: dict[str, Any]
    tab: str | None
    slow_jobs = False

    def is_deep(self, ask: Any) -> bool:
        """Whether it is answered here."""
        return type(ask) in ALL

    def deeper(self, ask: Any, made: MadeUp | None) -> Any:
        """The answer, or the job that makes it; `made` is the model of those that ask about one with a text."""
        self.asked.append((self.tab, ask))
        name = ALL[type(ask)]
        if name in self.refuse:
            raise Refused(self.refuse[name])
        if isinstance(ask, JOBS):
            id = f"job-{len(self.work)}"
            self.work[id] = {"ask": ask, "made": made, "looks": 0, "state": "running"}
            return self._job(id)
        if isinstance(ask, EvidenceAsk):
            assert made is not None
            return made_up_making.evidence(ask, made.tokens(ask.view).ids)
        if type(ask) in STEERING:
            return getattr(made_up_making, name)(ask)
        return getattr(depth, name)(made, ask)

    async def examples(self) -> tuple[ExamplesCard, ...]:
        """The examples that the server keeps."""
        return (ExamplesCard(id="6" * 64, name="films", licence="MIT", rows=900, plus=450, minus=450, neutral=0,
                             duplicates=0, longest=300),)  # fmt: skip

    async def job(self, id: str) -> Job:
        """One step further."""
        mine = self.work[id]
        if mine["state"] == "running" and not (self.slow_jobs and mine["looks"] == 1):
            mine["looks"] += 1
            mine["state"] = "done" if mine["looks"] >= STEPS else "running"
        return self._job(id)

    async def known(self, ask: Any) -> Job | None:
        """The newest job that is done and was asked exactly this."""
        if "known" in self.refuse:
            raise Refused(self.refuse["known"])
        found = [id for id, each in self.work.items() if each["ask"] == ask and each["state"] == "done"]
        return self._job(found[-1]) if found else None

    async def cancel_job(self, id: str) -> Job:
        """End it where it stands."""
        if self.work[id]["state"] == "running":
            self.work[id]["state"] = "cancelled"
        return self._job(id)

    async def sets(self) -> tuple[SetCard, ...]:
        """The prompt sets."""
        return (
            SetCard(name="prose", id="a" * 64, texts=40, characters=9_000, licence="CC0-1.0", ours=True),
            SetCard(name="films", id="b" * 64, texts=12, characters=3_000, licence="not stated"),
        )

    def _job(self, id: str) -> Job:
        mine = self.work[id]
        done = mine["looks"] / STEPS
        name = ALL[type(mine["ask"])]
        running = mine["state"] == "running"
        found = self._found(mine, name, done)
        return Job(
            id=id, kind=f"{self._page(mine['ask'])}.{name}",
            owner=self.tab or "", state=mine["state"], what="measuring effects",
            done=30 * done, total=30.0, unit="parts", eta_s=4.0 if running else None,
            partial=found if mine["state"] != "done" else None, result=found if mine["state"] == "done" else None,
            created=0.0, updated=float(mine["looks"]),
        )  # fmt: skip

    def _page(self, ask: Any) -> str:
        return "trace" if type(ask) in NAMES else "steer" if type(ask) in STEERING else "weights"

    def _found(self, mine: dict[str, Any], name: str, done: float) -> dict[str, Any] | None:
        ask = mine["ask"]
        if isinstance(ask, TransferAsk) and done < 1:
            return None
        if type(ask) in WEIGHING:
            return dict(getattr(made_up_weight_jobs, name)(ask, done).model_dump(mode="json"))
        made = getattr(made_up_making, name)(ask, done) if type(ask) in STEERING else None
        found = made or getattr(depth, name)(mine["made"], ask, done)
        return dict(found.model_dump(mode="json"))
