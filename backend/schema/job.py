"""Job: long work with progress, such as loading a model."""

from typing import Any, Literal

from backend.schema.frozen import Frozen
from backend.schema.problem import Problem

JobState = Literal["queued", "running", "done", "failed", "cancelled", "lost"]


class Job(Frozen):
    """One piece of long work as it stands now."""

    id: str
    kind: str
    """Such as `models.load`."""
    owner: str = ""
    state: JobState
    what: str
    """What it is doing now, in words: `downloading smollm2-135m-instruct`."""
    done: float = 0.0
    total: float | None = None
    unit: str = ""
    """Unit of done and total: `bytes`, `steps`, …"""
    eta_s: float | None = None
    partial: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    problem: Problem | None = None
    created: float
    """Seconds since 1970 (UTC)."""
    updated: float
