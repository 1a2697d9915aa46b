"""What the README says works: its settings table is the truth, its Python runs, its commands exist."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from backend.app import create_app
from backend.settings import Settings
from tests.browser.conftest import Served
from tests.package_models import CACHE, package_loaded

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ").strip()
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


def test_the_settings_table_is_made_from_the_settings() -> None:
    from backend.settings import settings_table

    assert settings_table().strip() in README


def test_every_picture_and_page_it_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)|(?:src|srcset)=\"([^\"]+)\"", README)
    local = [a or b for a, b in links if not (a or b).startswith(("http://", "https://"))]
    assert local
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"(?<!steers )\bmake ([a-z]+)\b", README)) <= targets


@pytest.mark.parametrize("command", sorted({c.split(" #")[0].strip() for c in COMMANDS if c.startswith("lmscope")}))
def test_every_command_it_shows_parses(command: str) -> None:
    words = [word for word in shlex.split(command)[1:] if not word.startswith("-")]
    help_of = [
        sys.executable,
        "-m",
        "lmscope.cli",
        *words[: 2 if words[0] in {"models", "serve", "steers"} else 1],
        "--help",
    ]
    shown = subprocess.run(help_of, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    options = {word.split("=")[0] for word in shlex.split(command)[1:] if word.startswith("--")}
    assert [option for option in options if option not in shown.stdout] == []


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on the default model, as `make run` opens it."""
    package_loaded("smollm2-135m-instruct")  # fails with a sentence when it was not fetched
    cache = tmp_path_factory.mktemp("cache")  # snippets store things
    (cache / "models").symlink_to(CACHE / "models")
    settings = Settings(cache_dir=cache, device="cpu")
    with Served(create_app(settings)) as served:
        yield served.url


@pytest.mark.pretrained
@pytest.mark.parametrize("snippet", PYTHON, ids=range(len(PYTHON)))
def test_its_python_runs(snippet: str, address: str) -> None:
    exec(compile(snippet.replace("http://127.0.0.1:8050", address), "README.md", "exec"), {})


@pytest.mark.pretrained
def test_its_first_question_over_http_is_answered(address: str) -> None:
    command = next(line for line in COMMANDS if line.startswith("curl"))
    words = shlex.split(command.replace("http://127.0.0.1:8050", address))
    body = words[words.index("-d") + 1].replace("glassllm-en", "smollm2-135m-instruct")
    answer = httpx.post(next(word for word in words if word.startswith("http")), content=body,
                        headers={"Content-Type": "application/json"}, timeout=60)  # fmt: skip
    assert answer.status_code == 200, answer.text
    assert answer.json()["layers"] == list(range(30))


def test_it_shows_python() -> None:
    assert len(PYTHON) >= 2
