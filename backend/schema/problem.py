"""Problem: the one body of every error (application/problem+json, RFC 9457 in spirit)."""

from backend.schema.frozen import Frozen


class Problem(Frozen):
    """What went wrong, why, and what to do instead. Never holds the caller's input as a whole."""

    type: str
    """A stable word, such as `too-long`."""
    status: int
    what: str
    why: str
    instead: str
    needed: float | None = None
    available: float | None = None
    request: str = ""
    """The request's id, as in the log."""
