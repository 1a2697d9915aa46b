"""What the browser itself refuses: scripts that are not ours, and whatever would leave the machine."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256

SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
"""On everything that is served."""
PAGE = {**SAFE, "Cache-Control": "no-cache"}
FILE = {"Cache-Control": "public, max-age=31536000, immutable"}
"""On a script whose address changes with its content."""
BARE = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
"""Content-Security-Policy of a page without scripts."""


def policy(scripts: Iterable[str]) -> str:
    """Content-Security-Policy of a page whose inline scripts have these hashes.

    Styles may stand inside the page: AG Grid and Plotly write theirs while they run.
    """
    return (
        f"default-src 'self'; script-src 'self' {' '.join(scripts)}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; "
        "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    )


def hashed(script: str) -> str:
    """An inline script as a policy names it."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
