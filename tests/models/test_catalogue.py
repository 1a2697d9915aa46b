"""The catalogue is a table that can be trusted: pinned, credited, and free of pickles."""

import re

import pytest

from backend.models.catalogue import CATALOGUE, DEFAULT, PackageModel
from backend.models.convert import conversion

MODELS = pytest.mark.parametrize("model", CATALOGUE.values(), ids=CATALOGUE)


def test_the_default_is_in_the_catalogue() -> None:
    assert DEFAULT in CATALOGUE
    assert next(iter(CATALOGUE)) == DEFAULT


@MODELS
def test_every_file_is_pinned_by_size_and_checksum_and_a_licence_comes_along(model: PackageModel) -> None:
    digests = [file.sha256 for file in model.files] + [model.digest]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    assert all(file.size > 0 for file in model.files)
    assert {"LICENSE", "METADATA"} & {file.name for file in model.files}
    assert len({file.name for file in model.files}) == len(model.files)
    assert re.fullmatch(r"\d+\.\d+\.\d+", model.version)


@MODELS
def test_no_pickle_is_ever_unpacked(model: PackageModel) -> None:
    wanted = {file.member for file in model.files}
    assert not wanted & set(model.left_alone)
    assert not [member for member in wanted if member.endswith((".pt", ".bin", ".pth", ".pkl"))]


@MODELS
def test_every_conversion_exists(model: PackageModel) -> None:
    assert callable(conversion(model.conversion))


def test_a_package_without_a_tokenizer_has_that_of_one_that_brings_its_own() -> None:
    for model in CATALOGUE.values():
        brought = {"tokenizer.json", "tokenizer_config.json"} <= {file.name for file in model.files}
        assert brought or model.conversion in ("smollm2", "glassllm") or not CATALOGUE[model.tokenizer_of].tokenizer_of


@MODELS
def test_the_card_says_licence_credit_conversion_and_what_quantisation_did(model: PackageModel) -> None:
    source = model.source
    assert source.name == f"{model.package} {model.version}"
    assert all((source.licence, source.credit, source.conversion, model.about))
    assert ("4 bits" in model.about) == (source.quantisation != "none")
