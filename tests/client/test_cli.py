"""The command line: every command has an example, every refusal is a sentence, and it serves what it says."""

import errno
import gc
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from backend.schema import HeadScale, HeadSet, Job, Problem, View
from lmscope import __version__, serving
from lmscope.cli import app
from lmscope.notebook import Client
from tests import tiny

COMMANDS = (
    (), ("serve",), ("models",), ("models", "list"), ("models", "fetch"), ("models", "remove"), ("models", "show"),
    ("steers",), ("steers", "list"), ("steers", "show"), ("steers", "make"), ("steers", "remove"), ("link",),
    ("bench",),
)  # fmt: skip
STARTS_S = 180


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the person who runs the tests, and an empty cache."""
    for name in [name for name in os.environ if name.startswith("LMSCOPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LMSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


def told(*arguments: str, **options: Any) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, arguments, **options)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command: tuple[str, ...]) -> None:
    result = told(*command, "--help")
    assert result.exit_code == 0
    assert re.search(rf"Examples?: lmscope {' '.join(command)}", result.stdout)


def test_a_server_starts_without_garbage_collection_and_has_it_again_even_where_it_does_not_start() -> None:
    read = []
    for error in (None, serving.CannotServe("no")):
        before = gc.get_freeze_count()
        with suppress(serving.CannotServe), serving.starting():
            assert not gc.isenabled()
            read += [[] for _ in range(1000)]
            if error is not None:
                raise error
        assert gc.isenabled()
        assert gc.get_freeze_count() >= before + 1000, "what was read is not gone through again"


def test_the_command_starts_without_the_heavy_sides() -> None:
    heavy = {"torch", "dash", "transformers", "fastapi", "numpy"}
    code = f"import sys, lmscope.cli; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert told("--version").stdout.strip() == __version__


def test_a_link_is_made_from_options_and_opened_again() -> None:
    made = told(
        "link", "--model", "m", "--text", "Héllo", "--off", "5.3", "--scale", "1.0=-0.5", "--set", "2.1=0.25",
        "--compare", "--head", "5.3", "--base", "http://gpu.team:8050", "--instrument", "heads",
    )  # fmt: skip
    link = made.stdout.strip()
    assert link.startswith("http://gpu.team:8050/heads#v=1")
    view = View.from_link(link)
    assert view.edits == (
        HeadScale(layer=5, head=3, by=0),
        HeadScale(layer=1, head=0, by=-0.5),
        HeadSet(layer=2, head=1, to=0.25),
    )
    assert (view.text, view.compare, str(view.focus.heads[0])) == ("Héllo", True, "5.3")
    assert View.model_validate_json(told("link", "--open", link).stdout) == view


def test_a_link_is_made_from_a_view_as_json(tmp_path: Path) -> None:
    view = View(model="m", pair=("a", "b"))
    file = tmp_path / "view.json"
    file.write_text(view.model_dump_json(), encoding="utf-8")
    from_file, from_input = told("link", "--view", str(file)), told("link", "--view", "-", input=view.model_dump_json())
    assert View.from_link(from_file.stdout.strip()) == view
    assert from_input.stdout == from_file.stdout
    assert View.from_link(told("link", "--pair", "a", "b").stdout.strip()).model == "smollm2-135m-instruct"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("link", "--model", "m"), "exactly one of text, pair and turns"),
        (("link", "--text", "a", "--off", "five"), r"names no head; write layer and head, such as '5\.3'"),
        (("link", "--text", "a", "--scale", "5.3"), r"write the head and a number, such as 5\.3=0\.5"),
        (("link", "--text", "a", "--off=-1.0"), "names no head"),
        (("link", "--open", "#v=1zzz"), "damaged"),
        (("link", "--view", "nowhere.json"), "nowhere.json"),
        (("bench", "nonsense"), "no subject 'nonsense'; there are:"),
        (("bench",), "Choose a subject; there are:"),
        (("models", "remove", "nonsense"), r"(?s)no model called.*[Nn]ame one of"),
        (("models", "fetch", "../nowhere"), "folders"),
        (("serve", "--port", "70000"), "LMSCOPE_PORT: .*65535"),
        (("serve", "--host", "0.0.0.0"), r"(?s)there is no key.*LMSCOPE_KEY"),
        (("serve", "frontend", "--host", "0.0.0.0", "--port", "0"), r"(?s)there is no key.*LMSCOPE_KEY"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_whatever_is_refused_is_refused_in_a_sentence(arguments: tuple[str, ...], words: str) -> None:
    result = told(*arguments)
    assert result.exit_code == 1
    assert re.search(words, result.stderr), result.stderr
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


def test_a_port_in_use_is_said_with_the_address_and_another_port() -> None:
    with serving.listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        result = told("serve", "--port", str(port))
    assert result.exit_code == 1
    assert f"http://127.0.0.1:{port}" in result.stderr.replace("\n", "")
    assert f"--port {port + 1}" in result.stderr


def test_a_key_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMSCOPE_KEY", "hush")
    result = told("serve")
    assert (result.exit_code, "hush" in result.output, "too short" in result.stderr) == (1, False, True)


@pytest.mark.parametrize(
    ("host", "port", "shown"),
    [
        ("127.0.0.1", 8050, "http://127.0.0.1:8050"),
        ("0.0.0.0", 80, "http://127.0.0.1:80"),
        ("::", 80, "http://[::1]:80"),
        ("::1", 80, "http://[::1]:80"),
        ("gpu.team", 80, "http://gpu.team:80"),
    ],
)
def test_the_address_is_one_that_a_browser_opens(host: str, port: int, shown: str) -> None:
    assert serving.address(host, port) == shown


def test_an_address_that_is_not_ours_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMSCOPE_KEY", "k" * 16)
    result = told("serve", "--host", "203.0.113.7")
    assert result.exit_code == 1
    assert re.search(r"203\.0\.113\.7 is no address of this machine .*--host 127\.0\.0\.1", result.stderr)


def test_a_port_that_is_not_ours_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(serving.CannotServe, match=r"Port 80 is not yours to use \(Permission denied\)"):
        serving.listen("127.0.0.1", 80)


def test_models_are_listed_with_what_is_here_and_never_fetched_for_it() -> None:
    result = told("models")
    assert result.exit_code == 0
    assert re.search(r"smollm2-135m-instruct +no +\d+ MB +Apache-2.0", result.stdout)
    assert told("models", "list").stdout == result.stdout
    cards = json.loads(told("models", "list", "--json").stdout)
    assert {"glassllm-en", "all-minilm-l6-v2"} <= {card["name"] for card in cards}
    assert {card["state"] for card in cards} == {"known"}


def test_a_model_that_is_not_here_is_not_removed() -> None:
    assert "was not in the cache" in told("models", "remove", "glassllm-en").stderr


def test_show_opens_a_folder_and_prints_what_it_can(tmp_path: Path) -> None:
    folder = tiny.folder("bert", tmp_path / "bert")
    result = told("models", "show", str(folder))
    assert result.exit_code == 0, result.output
    for words in (r"architecture +BertForMaskedLM", r"3 layers × 4 heads", r"rows sum to one +yes", r"attention +yes"):
        assert re.search(words, result.stdout), words
    assert json.loads(told("models", "show", str(folder), "--json").stdout)["state"] == "loaded"


@pytest.fixture
def _subject(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A subject of its own, beside a part that is none."""
    import benchmarks

    (tmp_path / "made_up.py").write_text(
        "def run(quick, peer):\n"
        "    measured = {'bytes_512': 1234567, 'over': 1.23456, 'peer_s': float('nan')}\n"
        "    return measured | {'quick': quick, 'peer': peer}\n"
    )
    (tmp_path / "part.py").write_text("RUNS = 5\n")
    monkeypatch.setattr(benchmarks, "__path__", [str(tmp_path)])
    yield
    for name in ("made_up", "part"):
        sys.modules.pop(f"benchmarks.{name}", None)
        benchmarks.__dict__.pop(name, None)


@pytest.mark.usefixtures("_subject")
def test_a_benchmark_ends_with_one_line_of_json() -> None:
    result = told("bench", "made_up", "--quick")
    lines = result.stdout.strip().splitlines()
    assert json.loads(lines[-1]) == {
        "bytes_512": 1234567, "over": 1.23456, "peer_s": None, "quick": True, "peer": False,
    }  # fmt: skip
    assert re.search(r"bytes_512 +1,234,567", result.stdout)
    assert re.search(r"over +1\.235", result.stdout)
    assert json.loads(told("bench", "made_up", "--peer").stdout.splitlines()[-1])["peer"]
    assert told("bench", "part").stderr.strip() == "There is no subject 'part'; there are: made_up."


def job(**changes: Any) -> Job:
    """A job that loads."""
    fields = {"id": "j", "kind": "models.load", "state": "running", "what": "downloading m", "created": 0, "updated": 0}
    return Job.model_validate(fields | changes)


@pytest.mark.parametrize("terminal", [True, False])
async def test_loading_is_shown_until_it_ends(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LOOK_S", 0.0)
    problem = Problem(type="x", status=500, what="n is broken", why="it has no weights", instead="choose another")
    looks = iter(
        [
            [job(), job(id="n", what="opening n")],
            [job(done=12e6, total=103e6, unit="bytes"), job(id="n", state="failed", problem=problem)],
            [job(state="done", result={"model": "m"}), job(id="n", state="failed", problem=problem)],
        ]
    )
    with open(os.devnull, "w") as nowhere:
        console = Console(force_terminal=terminal, width=100, record=True, file=nowhere)
        await serving.show_jobs(lambda: next(looks), console)
    text = console.export_text()
    assert text.count("N is broken. It has no weights. Choose another.") == 1
    assert text.count("m is loaded.") == 1
    assert ("12 of 103 MB" in text) is terminal


@contextmanager
def running(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A command in a process of its own, and the address that it prints; ended by Ctrl+C if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from lmscope.cli import app; app()", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | {"LMSCOPE_LOG_LEVEL": "warning"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"is open at (http://\S+)", said)):
            line = process.stderr.readline()
            assert line, f"it ended: {said}"
            said += line
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=STARTS_S)


def free_port() -> int:
    """A port that nobody uses now, and that the system gives to nobody who asks for any port."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(serving.CannotServe), serving.listen("127.0.0.1", port):
            return port


def answers(address: str, model: str) -> int:
    """Ask a served model a question; how many heads it has."""
    with Client(address) as client:
        return client.heads(View(model=model, text="The cat sat.")).answer.heads


def fetched(address: str) -> str:
    """What an address sends."""
    import httpx

    deadline = time.monotonic() + STARTS_S
    while (response := httpx.get(address, follow_redirects=True, timeout=STARTS_S)).status_code == 503:
        assert time.monotonic() < deadline
    return response.text


def test_one_command_serves_api_and_pages_on_one_port_and_ends_cleanly(tmp_path: Path) -> None:
    folder = str(tiny.folder("llama", tmp_path / "llama"))
    port = str(free_port())
    with running("serve", "--port", port, "--model", folder) as (process, address):
        assert address == f"http://127.0.0.1:{port}"
        assert answers(address, folder) == 4
        assert "<title>" in fetched(address)
        with Client(address, tab="6d7f3a52-1f0e-4a57-9a64-0f6a4f0f2f11") as client:
            events = client.events()
            assert next(events).questions == ()
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=STARTS_S)
        assert time.monotonic() - began < 30
    assert process.returncode == 0
    assert rest.rstrip().endswith("Stopped.")
    assert "Traceback" not in rest


def test_backend_and_frontend_run_apart(tmp_path: Path) -> None:
    folder = str(tiny.folder("gpt2", tmp_path / "gpt2"))
    port = str(free_port())
    with running("serve", "backend", "--port", port, "--model", folder) as (_, docs):
        assert docs == f"http://127.0.0.1:{port}/api/v1/docs"
        backend = f"http://127.0.0.1:{port}"
        assert answers(backend, folder) == 4
        with running("serve", "frontend", "--port", "0", "--backend-url", backend) as (_, pages):
            assert "<title>" in fetched(pages)
            assert pages != backend
