"""Settings come from the environment, are checked, and describe themselves."""

import re

import pytest
from pydantic import ValidationError

from backend.schema import Limits
from backend.settings import Settings, settings_table


def test_the_environment_sets_each_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "HOST": "localhost", "PORT": "9000", "MODELS": "a, org/b@main ,./c", "DEVICE": "cuda:1", "DTYPE": "bfloat16",
        "CACHE_DIR": "elsewhere", "MEMORY_BYTES": "1000", "ALLOW": "package,folder", "HUB_TOKEN": "t", "KEY": "k" * 16,
        "LOG_LEVEL": "debug", "LOG_FORM": "json", "TOKENS": "1", "BODY_BYTES": "2048", "EDITS": "3", "QUEUE": "4",
        "WAIT_S": "5.5", "KEPT_BYTES": "6", "ANSWER_BYTES": "7", "CAPTURE_BYTES": "8", "UPLOAD_BYTES": "4096",
        "DATABASE_URL": "sqlite:///d", "NEW_TOKENS": "9", "ROWS": "10",
    }  # fmt: skip
    assert {name.lower() for name in given} == set(Settings.model_fields)
    for name, value in given.items():
        monkeypatch.setenv(f"LMSCOPE_{name}", value)
    settings = Settings()
    assert (settings.models, settings.allow) == (("a", "org/b@main", "./c"), ("package", "folder"))
    assert settings.limits == Limits(
        tokens=1,
        body_bytes=2048,
        edits=3,
        queue=4,
        wait_s=5.5,
        kept_bytes=6,
        answer_bytes=7,
        capture_bytes=8,
        upload_bytes=4096,
        new_tokens=9,
        rows=10,
    )
    assert (settings.port, settings.memory_bytes, str(settings.cache_dir)) == (9000, 1000, "elsewhere")


@pytest.mark.parametrize(
    "wrong",
    [{"PORT": "0"}, {"DTYPE": "int4"}, {"DEVICE": "tpu"}, {"WAIT_S": "nan"}, {"QUEUE": "0"}, {"ALLOW": "all"},
     {"MODELS": ""}, {"LOG_LEVEL": "loud"}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]) -> None:
    for name, value in wrong.items():
        monkeypatch.setenv(f"LMSCOPE_{name}", value)
    with pytest.raises(ValidationError):
        Settings()


def test_they_cannot_change() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1


def test_a_wrong_setting_never_prints_a_secret() -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(
            port=0, key="a secret of many characters", hub_token="another", database_url="postgresql://me:hush@there/x"
        )
    assert "secret" not in str(refused.value)
    assert "another" not in str(refused.value)
    assert "hush" not in str(refused.value)


def test_the_table_has_a_line_with_a_description_for_each() -> None:
    lines = settings_table().splitlines()[2:]
    assert [re.match(r"\| `LMSCOPE_(\w+)` \|", line)[1].lower() for line in lines] != []  # type: ignore[index]
    assert len(lines) == len(Settings.model_fields)
    assert all(re.fullmatch(r"\| `LMSCOPE_\w+` \| \S.* \| \S.*\S \|", line) for line in lines)
