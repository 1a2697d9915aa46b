"""`lmscope bench`: each module of `benchmarks` is a subject with `run(quick, peer) -> dict` of named figures."""

import inspect
import json
import pkgutil
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from rich.table import Table


def subjects() -> tuple[str, ...]:
    """What can be measured."""
    package = import_module("benchmarks")
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__) if is_subject(module.name)))


def is_subject(name: str) -> bool:
    """A module that can be run; the others are parts of one."""
    return not name.startswith("_") and hasattr(import_module(f"benchmarks.{name}"), "run")


def not_taken(subject: str, options: Iterable[str]) -> list[str]:
    """Options that a subject does not have."""
    known = inspect.signature(import_module(f"benchmarks.{subject}").run).parameters
    return [name for name in options if name not in known]


def run(subject: str, *, quick: bool, peer: bool, **more: Any) -> dict[str, Any]:
    """Measure one subject."""
    figures: dict[str, Any] = import_module(f"benchmarks.{subject}").run(quick=quick, peer=peer, **more)
    return figures


def table(subject: str, figures: dict[str, Any]) -> Table:
    """The figures, to be read."""
    made = Table(subject, "", box=None, pad_edge=False)
    for name, value in figures.items():
        made.add_row(name, printed(value))
    return made


def printed(value: Any) -> str:
    """A figure with no more digits than anyone would read."""
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def line(figures: dict[str, Any]) -> str:
    """The last line: one JSON object; what could not be measured is null."""
    known = {name: None if value != value else value for name, value in figures.items()}
    return json.dumps(known, ensure_ascii=False, allow_nan=False)
