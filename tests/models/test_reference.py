"""A name in a View means one model, and the server says no before it looks at its disk."""

import os
from pathlib import Path

import pytest

from backend import errors
from backend.models.reference import Names


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.mark.parametrize(
    ("name", "kind", "revision"),
    [
        ("glassllm-en", "package", None),
        ("openai-community/gpt2", "hub", None),
        ("HuggingFaceTB/SmolLM2-135M@v1.0", "hub", "v1.0"),
    ],
)
def test_a_name_is_a_package_model_or_a_hub_id(names: Names, name: str, kind: str, revision: str | None) -> None:
    found = names.parse(name)
    assert (found.kind, found.revision) == (kind, revision)


def test_the_views_revision_wins_over_the_one_in_the_name(names: Names) -> None:
    assert names.parse("org/name@old", "new").revision == "new"


@pytest.mark.parametrize(
    "name",
    [
        "gpt2",
        "nothing",
        "a/b/c",
        "org/",
        "/",
        "org/..",
        "../",
        "a b/c",
        "x" * 500,
        "nul\0/name",
        "\ud800",
        "org/na\nme",
    ],
)
def test_an_unknown_name_is_answered_with_what_a_name_can_be(names: Names, name: str) -> None:
    with pytest.raises((errors.UnknownModel, errors.Forbidden)) as unknown:
        names.parse(name)
    assert unknown.value.instead
    unknown.value.problem().model_dump_json()


@pytest.mark.parametrize("revision", ["../../etc/passwd", "a/../b", "/abs", "nul\0", " ", "x" * 300])
def test_a_revision_can_never_be_a_path_out_of_the_cache(names: Names, revision: str) -> None:
    with pytest.raises(errors.UnknownModel):
        names.parse("org/name", revision)
    assert names.parse("org/name", "refs/pr/3").revision == "refs/pr/3"


def test_a_misspelt_name_gets_the_nearest_ones(names: Names) -> None:
    with pytest.raises(errors.UnknownModel) as unknown:
        names.parse("glasslm-en")
    assert "did you mean glassllm-en" in unknown.value.instead


def test_a_folder_opens_only_when_the_server_was_started_with_it(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    names = Names(models=[str(mine)])
    assert names.parse(str(mine)).folder == mine
    for asked in (str(other), str(tmp_path / "absent"), "/etc", "~root", f"{mine}/../other"):
        with pytest.raises(errors.Forbidden):
            names.parse(asked)


def test_spellings_of_one_folder_are_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    names = Names(models=["mine"])
    spelt = [names.parse(name) for name in ("mine", "./mine", str(tmp_path / "mine"), f"{tmp_path}/x/../mine")]
    assert {reference.key for reference in spelt} == {("folder", os.path.realpath(tmp_path / "mine"))}
    assert {reference.name for reference in spelt} == {"mine"}


def test_any_folder_opens_where_the_setting_allows_folders(tmp_path: Path) -> None:
    assert Names(allow=["folder"]).parse(str(tmp_path)).kind == "folder"


def test_a_server_without_the_hub_still_opens_the_hub_model_it_was_started_with() -> None:
    names = Names(models=["org/ours@abc"], allow=["package"])
    assert names.parse("org/ours").revision == "abc"
    with pytest.raises(errors.Forbidden) as no:
        names.parse("org/theirs")
    assert "LMSCOPE_ALLOW" in no.value.why


def test_a_setting_that_names_an_unknown_kind_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="internet"):
        Names(allow=["internet"])
