"""Health: that the server lives, and which one it is."""

from typing import Literal

from backend.schema.frozen import Frozen


class Health(Frozen):
    """GET /api/v1/health and /api/v1/ready."""

    status: Literal["alive", "ready"]
    version: str
    """Of LMScope."""
