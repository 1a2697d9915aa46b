"""Conversions: from the files a package ships to a folder that transformers opens. One file each.

Each takes (files, target, progress): `files` by their name inside the package, `target` an empty folder.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from backend.models.progress import Progress

Conversion = Callable[[Mapping[str, Path], Path, Progress], None]


def conversion(name: str) -> Conversion:
    """The conversion of that name; torch is imported only now, so that listing models stays quick."""
    found: Conversion = import_module(f"{__name__}.{name}").convert
    return found
