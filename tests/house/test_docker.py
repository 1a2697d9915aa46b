"""The containers: guarded, closed until told otherwise, with settings that exist and what the Makefile installs."""

import re
from fnmatch import fnmatch
from typing import Any

import pytest
from pydantic_settings import BaseSettings

import backend.settings
import frontend.settings
from tests import compose

KEY = "a-key-of-sixteen-or-more"
SERVICES = compose.services()
SIDES = {
    "backend": backend.settings.Settings,
    "backend-cpu": backend.settings.Settings,
    "frontend": frontend.settings.Settings,
}
STAGES = {
    stage: body
    for _, stage, body in re.findall(
        r"^FROM (\S+) AS (\S+)\n(.*?)(?=^FROM |\Z)", (compose.HERE / "docker/Dockerfile").read_text(), re.M | re.S
    )
}
each_service = pytest.mark.parametrize("name", SERVICES)


def settings(name: str, monkeypatch: pytest.MonkeyPatch, **given: str) -> BaseSettings:
    """The settings that the service's process reads."""
    for variable, value in compose.environment(name, {"LMSCOPE_KEY": KEY} | given).items():
        monkeypatch.setenv(variable, value)
    return SIDES[name]()


@each_service
def test_a_container_may_do_next_to_nothing(name: str) -> None:
    service = SERVICES[name]
    user, group = service["user"].split(":")
    assert int(user) >= 10_000
    assert int(group) >= 10_000
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert [mount.partition(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices"} & service.keys()
    assert all(not mount.startswith((".", "/", "~")) for mount in service.get("volumes", ())), "no folder of the host"


@each_service
def test_a_container_says_whether_it_lives(name: str) -> None:
    health = SERVICES[name]["healthcheck"]
    assert health["test"][:3] == ["CMD", "python", "-c"]
    assert "/api/v1/health" in health["test"][3]
    compile(health["test"][3], "healthcheck", "exec")
    assert {"interval", "timeout", "retries", "start_period"} <= health.keys()


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_each_profile_is_one_backend_behind_one_frontend(profile: str) -> None:
    chosen = {name: service for name, service in SERVICES.items() if profile in service["profiles"]}
    held = [service for name, service in chosen.items() if name.startswith("backend")]
    assert len(held) == 1
    assert "frontend" in chosen
    assert len(chosen) == 2
    assert held[0]["networks"]["inside"]["aliases"] == ["backend"], "the name by which the frontend calls it"
    assert held[0]["environment"]["LMSCOPE_DEVICE"] == {"cpu": "cpu", "gpu": "cuda"}[profile]
    reserved = held[0].get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    assert [device["capabilities"] for device in reserved] == ([["gpu"]] if profile == "gpu" else [])
    waits = chosen["frontend"]["depends_on"]
    assert set(waits) == set(SERVICES) - {"frontend"}
    assert all(wait == {"condition": "service_healthy", "required": False} for wait in waits.values())


def test_only_the_pages_are_published_and_on_this_machine_only() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert list(published) == ["frontend"]
    [port] = published["frontend"]
    assert compose.filled(port, {}) == "127.0.0.1:8050:8050"
    assert compose.filled(port, {"LMSCOPE_PUBLISH": "0.0.0.0:80"}) == "0.0.0.0:80:8050"


def test_pages_and_backend_meet_where_nobody_else_is() -> None:
    networks = compose.composed()["networks"]
    assert networks["inside"] == {"internal": True}
    shared = set(SERVICES["frontend"]["networks"]) & set(SERVICES["backend"]["networks"])
    assert shared == {"inside"}


@each_service
def test_nothing_starts_without_a_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError, match=r"LMSCOPE_KEY is the secret .* put it into \.env"):
        compose.environment(name, {})
    with pytest.raises(KeyError, match="LMSCOPE_KEY"):
        compose.environment(name, {"LMSCOPE_KEY": ""})
    made = settings(name, monkeypatch)
    assert made.host == "0.0.0.0"  # type: ignore[attr-defined]
    assert made.key.get_secret_value() == KEY  # type: ignore[attr-defined]


@each_service
def test_every_variable_is_a_setting_that_its_side_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = SERVICES[name]["environment"]
    fields = {f"LMSCOPE_{field.upper()}" for field in SIDES[name].model_fields}
    assert not variables.keys() - fields
    given = {"LMSCOPE_MODELS": "a,b", "LMSCOPE_HUB_TOKEN": "hf", "LMSCOPE_DTYPE": "float32"}
    written: Any = settings(name, monkeypatch, **given)
    if name != "frontend":
        assert (written.models, written.dtype, written.hub_token.get_secret_value()) == (("a", "b"), "float32", "hf")


def test_other_settings_of_the_backend_come_from_the_same_file_and_do_not_reach_the_pages() -> None:
    files = {name: service.get("env_file") for name, service in SERVICES.items()}
    own = [{"path": ".env", "required": False}]
    assert files == {"backend": own, "backend-cpu": own, "frontend": None}


def test_the_frontend_asks_where_the_backend_listens() -> None:
    inside = compose.environment("backend", {"LMSCOPE_KEY": KEY})
    asked = compose.environment("frontend", {"LMSCOPE_KEY": KEY})["LMSCOPE_BACKEND_URL"]
    assert asked == f"http://backend:{inside['LMSCOPE_PORT']}"
    assert SERVICES["frontend"]["ports"][0].endswith(":" + str(SERVICES["frontend"]["environment"]["LMSCOPE_PORT"]))


@pytest.mark.parametrize("name", ["backend", "backend-cpu"])
def test_what_must_last_is_in_the_named_volume(name: str) -> None:
    volume, _, place = SERVICES[name]["volumes"][0].partition(":")
    assert volume in compose.composed()["volumes"]
    assert place == SERVICES[name]["environment"]["LMSCOPE_CACHE_DIR"]
    assert f"LMSCOPE_CACHE_DIR={place}" in STAGES["person"]
    assert f"--owner=lmscope --group=lmscope {place}" in STAGES["person"], "a new volume takes its owner from the image"


@each_service
def test_an_image_is_built_from_what_the_makefile_installs(name: str) -> None:
    service = SERVICES[name]
    side = service["build"]["target"]
    assert service["command"] == ["serve", side]
    assert f'CMD ["serve", "{side}"]' in STAGES[side]
    assert f"USER {service['user']}" in STAGES[side]
    assert f"COPY --from=installed-{side} /opt/lmscope /opt/lmscope" in STAGES[side]
    assert f"make install SIDES={side} EDITABLE= VENV=/opt/lmscope" in STAGES[f"installed-{side}"]
    assert not any("pip install" in body for body in STAGES.values())
    assert re.search(r"^install:", (compose.HERE / "Makefile").read_text(), re.M)


def test_the_builder_gets_what_is_installed_and_no_more() -> None:
    rules = [line for line in (compose.HERE / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    sent = {rule[1:] for rule in rules if rule.startswith("!")}
    project = (compose.HERE / "pyproject.toml").read_text()
    packages = re.search(r"^include = \[(.*)\]", project, re.M)
    assert packages
    wanted = {name.rstrip("*") for name in re.findall(r'"([^"]+)"', packages[1])}
    assert sent == wanted | {"Makefile", "pyproject.toml", "README.md", "LICENSE", "NOTICE"}
    assert all((compose.HERE / name).exists() for name in sent)
    ignored = (compose.HERE / ".gitignore").read_text().splitlines()
    assert any(fnmatch(".env", rule) for rule in ignored), "where the key is"
