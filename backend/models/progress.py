"""Progress: how long work tells its job what it is doing, and how the job tells it to stop."""

from collections.abc import Callable

Progress = Callable[[str, float, float | None, str], None]
"""(what, done, total, unit): `what` in words, `total` None when unknown. Raises `errors.Cancelled` to stop the work."""


def silent(what: str, done: float, total: float | None, unit: str) -> None:
    """Progress for callers that do not watch."""
