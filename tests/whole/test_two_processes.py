"""Backend and pages as docker-compose starts them: two processes, its environment, a key, and pages without torch."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from backend.schema import HeadAsk, OverviewAsk
from frontend.pages.attention import ids
from frontend.parts import ids as shell
from tests import compose
from tests.processes import Pair, asked, pair


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("two")) as opened:
        yield opened


def called_back(pages: str, output: str, given: dict[str, Any]) -> dict[str, Any]:
    """Run the page's own callback as Dash's renderer does; `given` holds values by `id.property`."""
    with asked(pages) as browser:
        known = browser.get("/_dash-dependencies").json()
        callback = next(each for each in known if output in each["output"].strip(".").split("..."))
        places = callback["output"].strip(".").split("...")

        def filled(kind: str) -> list[dict[str, Any]]:
            return [each | {"value": given.get(f"{each['id']}.{each['property']}")} for each in callback[kind]]

        body = {
            "output": callback["output"],
            "outputs": [dict(zip(("id", "property"), place.rsplit(".", 1), strict=True)) for place in places],
            "inputs": filled("inputs"),
            "state": filled("state"),
            "changedPropIds": list(given)[:1],
        }
        response = browser.post("/_dash-update-component", json=body, headers={"Origin": pages})
    assert response.status_code == 200, response.text
    id, _, property = output.rpartition(".")
    answer: dict[str, Any] = response.json()["response"][id][property]
    return answer


def test_a_question_through_the_pages_is_the_backends_own_answer(two: Pair) -> None:
    view = two.view.model_dump(mode="json")
    shown = called_back(two.pages, f"{ids.OVERVIEW}.data", {f"{shell.QUESTION}.data": view})
    with asked(two.backend) as direct:
        answer = direct.post("/api/v1/attention", json=OverviewAsk(view=two.view).model_dump(mode="json")).json()
    assert shown == answer
    assert len(answer["ids"]) > 10


def test_one_head_through_the_pages_is_the_backends_own_head(two: Pair) -> None:
    ask = HeadAsk(view=two.view, heads=({"layer": 1, "head": 2},)).model_dump(mode="json")
    shown = called_back(two.pages, f"{ids.HEAD}.data", {f"{ids.ASK}.data": ask})
    with asked(two.backend) as direct:
        answer = direct.post("/api/v1/attention/head", json=ask).json()
    assert shown["figures"]["edited"]["data"][0]["z"] == answer["edited"].pop("map")
    assert shown["answer"] == answer


@pytest.mark.parametrize("side", ["backend", "pages"])
def test_nobody_comes_in_without_the_key(two: Pair, side: str) -> None:
    address = getattr(two, side)
    for path in ("/attention", "/_dash-dependencies", "/api/v1/models", "/api/v1/ready", "/api/v1/docs"):
        for wrong in (None, "another-key-than-that"):
            with asked(address, wrong) as stranger:
                assert stranger.get(path).status_code == 401, path


def test_pages_with_another_key_than_the_backend_say_so(two: Pair) -> None:
    with asked(two.backend, None) as pages:
        refused = pages.post("/api/v1/attention", json={}, headers={"Authorization": "Bearer of-another-backend"})
    assert (refused.status_code, refused.json()["type"]) == (401, "key-needed")


@pytest.mark.parametrize("name", ["backend-cpu", "frontend"])
def test_the_health_check_knows_life_from_death(two: Pair, name: str) -> None:
    command = compose.services()[name]["healthcheck"]["test"][1:]
    address = two.pages if name == "frontend" else two.backend
    codes = []
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else may while it is held
        for port in (address.rpartition(":")[2], str(dead.getsockname()[1])):
            probe, settings = [sys.executable, *command[1:]], os.environ | {"LMSCOPE_PORT": port}
            codes.append(subprocess.run(probe, env=settings, stderr=subprocess.PIPE, check=False).returncode)
    assert codes[0] == 0
    assert codes[1] != 0
