"""docker-compose.yml as compose reads it: its services, and the environment that each would get."""

import re
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent.parent
FILE = HERE / "docker-compose.yml"
VARIABLE = re.compile(r"\$\{(\w+)(?::([?-])([^}]*))?\}")


def composed() -> dict[str, Any]:
    """The whole file, anchors followed, variables as they are written."""
    read: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return read


def services() -> dict[str, dict[str, Any]]:
    """The services by name."""
    named: dict[str, dict[str, Any]] = composed()["services"]
    return named


def environment(service: str, given: dict[str, str]) -> dict[str, str]:
    """What a service's process finds in its environment when the person who starts it has set `given`."""
    return {name: filled(str(value), given) for name, value in services()[service]["environment"].items()}


def filled(text: str, given: dict[str, str]) -> str:
    """A value with its variables. Raises `KeyError` with the file's own words for one that must be set."""

    def value(found: re.Match[str]) -> str:
        name, way, rest = found.groups()
        if given.get(name):
            return given[name]
        if way == "?":
            raise KeyError(f"{name} {rest}")
        return rest or ""

    return VARIABLE.sub(value, text)
