"""What a tab is told while it waits."""

from typing import Literal

from backend.schema.frozen import Frozen
from backend.schema.job import Job


class Waiting(Frozen):
    """One question of a tab that is waiting or running."""

    question: str
    """Its id."""
    instrument: str
    model: str
    state: Literal["waiting", "running"]
    position: int
    """0 while it runs; 1 is next."""


class TabEvent(Frozen):
    """One event of GET /api/v1/tabs/<tab>/events: the tab's whole situation, whenever it changes."""

    questions: tuple[Waiting, ...] = ()
    jobs: tuple[Job, ...] = ()
