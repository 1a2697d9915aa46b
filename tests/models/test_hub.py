"""A hub id opens at one commit, only from safe files, and says plainly why it does not."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from backend import errors
from backend.models.digest import Digests
from backend.models.hub import Hub, Snapshot
from backend.models.progress import Progress, silent
from tests import tiny
from tests.models.hub_server import HubServer, hub_server

NAME = "org/tiny-llama"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tiny.folder("llama", tmp_path_factory.mktemp("llama"))
    (place / "pytorch_model.bin").write_bytes(b"\x80\x04 a pickle")
    (place / "README.md").write_text("about")
    return place


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with hub_server() as running:
        yield running


@pytest.fixture
def hub(server: HubServer, tmp_path: Path) -> Hub:
    return Hub(tmp_path / "hub", Digests(tmp_path / "digests"), token="hf_secret", endpoint=server.address)


def fetch(hub: Hub, revision: str | None = None, progress: Progress = silent) -> Snapshot:
    return hub.fetch(NAME, revision, progress, lambda elements: None)


def test_only_the_files_a_model_is_opened_from_are_fetched(hub: Hub, server: HubServer, folder: Path) -> None:
    repository = server.offer(NAME, folder)
    snapshot = fetch(hub)
    names = {path.name for path in snapshot.folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert not names & {"pytorch_model.bin", "README.md"}
    assert snapshot.commit == repository.commit
    assert snapshot.licence == "apache-2.0"
    assert server.tokens == {"Bearer hf_secret"}


def test_a_pinned_commit_in_the_cache_asks_nobody(hub: Hub, server: HubServer, folder: Path) -> None:
    commit = server.offer(NAME, folder).commit
    first = fetch(hub)
    server.asked.clear()
    assert fetch(hub, commit) == first
    assert server.asked == []


def test_a_hub_out_of_reach_is_no_obstacle_once_the_model_is_here(
    hub: Hub, server: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.offer(NAME, folder)
    first = fetch(hub)
    away = Hub(hub.folder, hub.digests, endpoint="http://127.0.0.1:9")
    assert fetch(away, first.commit) == first
    assert fetch(away).folder == first.folder


def test_a_hub_out_of_reach_is_told_with_what_to_do_instead(hub: Hub) -> None:
    away = Hub(hub.folder, hub.digests, endpoint="http://127.0.0.1:9")
    with pytest.raises(errors.FetchFailed) as failed:
        fetch(away)
    assert "did not answer" in failed.value.why
    assert "package model" in failed.value.instead


def test_a_repository_of_pickles_is_refused_before_anything_is_downloaded(
    hub: Hub, server: HubServer, folder: Path
) -> None:
    del server.offer(NAME, folder).files["model.safetensors"]
    with pytest.raises(errors.PickleOnly):
        fetch(hub)
    assert not any("resolve" in asked for asked in server.asked)


def test_code_of_the_repositorys_own_is_refused_before_its_weights(hub: Hub, server: HubServer, folder: Path) -> None:
    repository = server.offer(NAME, folder)
    config = json.loads(repository.files["config.json"])
    config |= {"model_type": "ours", "architectures": ["Ours"], "auto_map": {"AutoModel": "ours.Ours"}}
    repository.files["config.json"] = json.dumps(config).encode()
    with pytest.raises(errors.RemoteCode):
        fetch(hub)
    assert not any("safetensors" in asked for asked in server.asked)


def test_a_model_over_the_budget_is_refused_before_its_weights(hub: Hub, server: HubServer, folder: Path) -> None:
    server.offer(NAME, folder)

    def refuse(elements: dict[str, int]) -> None:
        raise errors.OverBudget("too large", f"{sum(elements.values())}", "a smaller one")

    with pytest.raises(errors.OverBudget):
        hub.fetch(NAME, None, silent, refuse)
    assert not any("safetensors" in asked for asked in server.asked)


def test_no_such_model_no_such_revision_and_a_gated_one_are_told_apart(
    hub: Hub, server: HubServer, folder: Path
) -> None:
    with pytest.raises(errors.UnknownModel, match="no model"):
        fetch(hub)
    server.offer(NAME, folder)
    with pytest.raises(errors.UnknownModel, match="no revision v9"):
        fetch(hub, "v9")
    server.offer(NAME, folder, refuse="GatedRepo")
    with pytest.raises(errors.Forbidden, match="terms"):
        fetch(hub)


def test_weights_that_arrive_damaged_are_thrown_away(hub: Hub, server: HubServer, folder: Path) -> None:
    repository = server.offer(NAME, folder, stated={"model.safetensors": "0" * 64})
    with pytest.raises(errors.WrongChecksum):
        fetch(hub)
    assert hub.cached(NAME, None) is None
    repository.stated.clear()
    assert (fetch(hub).folder / "model.safetensors").exists()


def test_a_download_shows_its_bytes_and_is_cancelled_at_once(hub: Hub, server: HubServer, tmp_path: Path) -> None:
    big = tiny.folder("llama", tmp_path / "big", intermediate_size=4096)
    size = len(server.offer(NAME, big).files["model.safetensors"])
    server.sends_at_most = size // 2
    seen: list[float] = []

    def stop(what: str, done: float, total: float | None, unit: str) -> None:
        if "model.safetensors" in what and what.startswith("downloading"):
            assert total == size
            seen.append(done)
            if len(seen) > 3:
                raise errors.Cancelled("stopped", "by the test", "")

    with pytest.raises(errors.Cancelled):
        fetch(hub, progress=stop)
    assert seen[-1] < size
    assert not server.open.is_set(), "the rest was never sent"
    assert hub.cached(NAME, None) is None


def test_what_a_killed_download_has_left_is_swept_by_the_next_and_not_what_another_is_writing(
    hub: Hub, server: HubServer, folder: Path
) -> None:
    server.offer(NAME, folder)
    place = f"models--{NAME.replace('/', '--')}"
    killed, written = (hub.folder / place / "blobs" / f"{mark * 64}.0badcafe.incomplete" for mark in "ab")
    killed.parent.mkdir(parents=True)
    for part in (killed, written):
        part.write_bytes(b"half")
    with FileLock(hub.folder / ".locks" / place / f"{'b' * 64}.lock"):  # as the hub's library holds it
        fetch(hub)
    assert [path for path in killed.parent.iterdir() if path.name.endswith(".incomplete")] == [written]


KILLED = """
import sys
from pathlib import Path
from backend.models.digest import Digests
from backend.models.hub import Hub
place, address, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def say(what, done, total, unit):
    for part in place.rglob("*.incomplete"):
        print(part.name, flush=True)

Hub(place / "hub", Digests(place / "digests"), endpoint=address).fetch(name, None, say, lambda elements: None)
"""


def test_a_kill_in_the_middle_of_a_download_leaves_no_model_and_the_next_leaves_nothing_else(
    hub: Hub, server: HubServer, folder: Path
) -> None:
    server.offer(NAME, folder)
    server.sends_at_most = 65536
    command = [sys.executable, "-c", KILLED, str(hub.folder.parent), server.address, NAME]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b".incomplete" in process.stdout.readline()
        process.kill()
    left = list(hub.folder.rglob("*.incomplete"))
    assert left
    assert hub.cached(NAME, None) is None
    assert hub.listing() == []
    server.sends_at_most = None
    fetch(hub)
    assert list(hub.folder.rglob("*.incomplete")) == []
    assert hub.listing() == [NAME]


def test_a_disk_too_small_is_refused_with_both_numbers(
    hub: Hub, server: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.offer(NAME, folder)
    monkeypatch.setattr("backend.models.cache.free_bytes", lambda place: 10)
    with pytest.raises(errors.DiskFull) as full:
        fetch(hub)
    assert full.value.available == 10
    assert not any("safetensors" in asked for asked in server.asked)


def test_a_removed_repository_is_gone_from_the_listing(hub: Hub, server: HubServer, folder: Path) -> None:
    server.offer(NAME, folder)
    fetch(hub)
    assert hub.listing() == [NAME]
    assert hub.remove(NAME) > 0
    assert hub.listing() == []


def test_a_cache_that_cannot_be_written_is_told_from_a_hub_out_of_reach(
    hub: Hub, server: HubServer, folder: Path, tmp_path: Path
) -> None:
    server.offer(NAME, folder)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(errors.CacheUnwritable, match="Not a directory"):
        fetch(Hub(tmp_path / "file" / "hub", hub.digests, endpoint=server.address))


def test_a_whole_snapshot_opens_from_a_cache_that_cannot_be_written(
    hub: Hub, server: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.offer(NAME, folder)
    first = fetch(hub)

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert fetch(hub) == first
