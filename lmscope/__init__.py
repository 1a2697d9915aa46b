"""The front door of LMScope: `lmscope` on the command line, `Client` and `View` in Python."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "View", "__version__"]

_HOMES = {"AsyncClient": "lmscope.client", "Client": "lmscope.notebook", "View": "backend.schema"}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used, so that `import lmscope` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lmscope' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
