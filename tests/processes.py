"""Backend and pages as two processes, with the environment of docker-compose.yml; the pages without torch."""

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import httpx
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from backend.schema import View
from lmscope import serving
from tests import compose, tiny

KEY = secrets.token_urlsafe(16)
TEXT = "The cat sat on the mat, and the dog barked at the cat."
BLOCKER = """
import os, sys
class Absent:
    names = frozenset(os.environ["TEST_ABSENT"].split(","))
    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
"""A sitecustomize: what is not in the frontend's image is not there."""


def installed_with(extra: str) -> set[str]:
    """The distributions that `pip install lmscope[extra]` brings, with all that they need."""
    found: set[str] = set()
    waiting = [("lmscope", frozenset({extra}))]
    while waiting:
        name, extras = waiting.pop()
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(canonicalize_name(name))
        for requirement in map(Requirement, requires):
            wanted = any(
                requirement.marker is None or requirement.marker.evaluate({"extra": given}) for given in extras | {""}
            )
            if wanted and canonicalize_name(requirement.name) not in found:
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def absent_in_frontend() -> set[str]:
    """Modules that this environment has and the frontend's image has not."""
    there = installed_with("frontend")
    owners = metadata.packages_distributions()
    return {name for name, owned in owners.items() if not {canonicalize_name(each) for each in owned} & there}


@contextmanager
def served(name: str, **changes: str) -> Iterator[str]:
    """A service of docker-compose.yml as a process here, on a free port; its address."""
    settings = compose.environment(name, {"LMSCOPE_KEY": KEY}) | {"LMSCOPE_LOG_LEVEL": "warning"} | changes
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("LMSCOPE_")}
    command = [sys.executable, "-c", "from lmscope.cli import app; app()", *compose.services()[name]["command"]]
    process = None
    try:
        for _ in range(5):  # somebody else may take the port between our look and its bind
            with serving.listen("0.0.0.0", 0) as free:
                port = str(free.getsockname()[1])
            process = subprocess.Popen(
                command, env=surroundings | settings | {"LMSCOPE_PORT": port}, stderr=subprocess.PIPE, text=True
            )
            if opened(process):
                yield f"http://127.0.0.1:{port}"
                return
            process.communicate()
        raise AssertionError("no port was free for long enough")
    finally:
        if process is not None:
            process.terminate()
            process.communicate(timeout=60)


def opened(process: "subprocess.Popen[str]") -> bool:
    """Wait until it says that it is open; false when its port was taken meanwhile."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "is open at" in line:
            return True
    assert re.search(r"Port \d+ .* is taken", said), said
    return False


@dataclass(frozen=True)
class Pair:
    """The two addresses and the one model."""

    backend: str
    pages: str
    view: View


@contextmanager
def pair(place: Path) -> Iterator[Pair]:
    """Both, open, with the model loaded; `place` is an empty folder for all that they write."""
    (place / "sitecustomize.py").write_text(BLOCKER)
    absent = absent_in_frontend()
    assert {"torch", "transformers", "tokenizers", "safetensors", "huggingface_hub"} <= absent
    assert not {"dash", "fastapi", "uvicorn", "httpx", "pydantic", "lmscope", "backend"} & absent
    model = str(tiny.folder("llama", place / "llama"))
    cache = str(place / "models")
    with ExitStack() as both:
        start = both.enter_context
        backend = start(served("backend-cpu", LMSCOPE_MODELS=model, LMSCOPE_CACHE_DIR=cache, OMP_NUM_THREADS="1"))
        without_torch = {"PYTHONPATH": str(place), "TEST_ABSENT": ",".join(sorted(absent))}
        pages = start(served("frontend", LMSCOPE_BACKEND_URL=backend, **without_torch))
        wait_for_model(backend)
        yield Pair(backend, pages, View(model=model, text=TEXT))


def wait_for_model(backend: str) -> None:
    """Until what the settings name is loaded."""
    with asked(backend) as client:
        while (ready := client.get("/api/v1/ready")).status_code == 503:
            pass
    assert ready.status_code == 200, ready.text


def asked(address: str, key: str | None = KEY) -> httpx.Client:
    """A client as a browser is: any user name, the key as password."""
    return httpx.Client(base_url=address, auth=("anybody", key) if key else None, timeout=60)
