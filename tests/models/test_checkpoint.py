"""What will not be opened is refused before anything is loaded: what, why, instead."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from backend import errors
from backend.models.checkpoint import Checkpoint
from tests import tiny


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.folder("llama", tmp_path / "model")


def refusal(folder: Path, kind: type[errors.LmscopeError]) -> errors.LmscopeError:
    with pytest.raises(kind) as refused:
        Checkpoint.of(folder, "the model")
    assert type(refused.value) is kind
    assert refused.value.why
    assert refused.value.instead
    return refused.value


def change(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def without(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def test_sizes_are_read_from_the_headers_and_equal_the_loaded_model(folder: Path) -> None:
    checkpoint = Checkpoint.of(folder, "the model")
    model = tiny.model_of("llama", len(tiny.tokenizer_of("llama")))
    assert checkpoint.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert checkpoint.bytes_in(2) == 2 * checkpoint.parameters
    assert checkpoint.architecture == "LlamaForCausalLM"


def test_whole_numbers_keep_their_size_in_any_dtype(tmp_path: Path) -> None:
    folder = tiny.folder("bert", tmp_path / "bert")
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors") | {"positions": torch.arange(512)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    checkpoint = Checkpoint.of(folder, "bert")
    assert checkpoint.bytes_in(4) - checkpoint.bytes_in(2) == 2 * (checkpoint.parameters - 512)


def test_pickles_alone_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pytorch_model.bin" in refusal(folder, errors.PickleOnly).why


def test_pickles_beside_safetensors_are_ignored(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    Checkpoint.of(folder, "the model")


def test_code_of_the_repositorys_own_is_refused(folder: Path) -> None:
    change(
        folder / "config.json", model_type="ours", architectures=["OurModel"],
        auto_map={"AutoModelForCausalLM": "modeling_ours.OurModel"},
    )  # fmt: skip
    assert "OurModel" in refusal(folder, errors.RemoteCode).why


def test_a_known_type_with_a_class_of_its_own_is_refused_too(folder: Path) -> None:
    change(folder / "config.json", architectures=["OurLlama"], auto_map={"AutoModelForCausalLM": "ours.OurLlama"})
    refusal(folder, errors.RemoteCode)


def test_a_class_that_transformers_has_itself_opens_although_the_repository_brings_a_copy(folder: Path) -> None:
    change(folder / "config.json", auto_map={"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"})
    Checkpoint.of(folder, "the model")


def test_an_architecture_that_transformers_does_not_have_is_named(folder: Path) -> None:
    change(folder / "config.json", model_type="from-the-future", architectures=["FutureForCausalLM"])
    assert "from-the-future" in refusal(folder, errors.ModelRefused).why


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (["config.json"], r"config.json"),
        (["model.safetensors"], "model.safetensors"),
        (["tokenizer.json", "tokenizer_config.json"], "tokenizer"),
        (["tokenizer.json"], "tokenizer"),
    ],
)
def test_a_missing_file_is_named(folder: Path, missing: list[str], said: str) -> None:
    without(folder, *missing)
    assert said in refusal(folder, errors.MissingFile).why


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    tokenizer = tiny.tokenizer_of("llama")
    tiny.model_of("llama", len(tokenizer)).save_pretrained(tmp_path, max_shard_size="40KB")
    tokenizer.save_pretrained(tmp_path)
    whole = Checkpoint.of(tmp_path, "the model")
    assert len(whole.weights) > 1
    without(tmp_path, whole.weights[1])
    assert whole.weights[1] in refusal(tmp_path, errors.MissingFile).why


def test_an_index_that_points_outside_its_folder_is_refused(folder: Path) -> None:
    without(folder, "model.safetensors")
    index = {"weight_map": {"model.norm.weight": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refusal(folder, errors.ModelRefused)


def cut(content: bytes) -> bytes:
    return content[:-10]


def lfs(content: bytes) -> bytes:
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"


@pytest.mark.parametrize(
    ("damage", "said"),
    [(cut, "cut short"), (lfs, "Git LFS"), (lambda content: b"", "damaged"), (bytes.lower, "damaged")],
)
def test_damaged_weights_are_refused_by_their_header(folder: Path, damage: Callable[[bytes], bytes], said: str) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    assert said in refusal(folder, errors.ModelRefused).why


@pytest.mark.parametrize("content", ["{", "[]", "null", '"text"', "[" * 100_000])
def test_a_damaged_configuration_is_refused(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    refusal(folder, errors.ModelRefused)


def test_an_adapter_is_told_from_a_model(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")
    assert "adapter" in refusal(folder, errors.MissingFile).why


def test_a_folder_without_a_model_a_file_and_nothing_at_all_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert "not a model" in refusal(tmp_path / "photos", errors.ModelRefused).what
    assert "a file" in refusal(tmp_path / "model.safetensors", errors.ModelRefused).why
    refusal(tmp_path / "absent", errors.UnknownModel)


def test_a_tokenizer_of_bytes_needs_no_vocabulary(folder: Path) -> None:
    without(folder, "tokenizer.json")
    change(folder / "tokenizer_config.json", tokenizer_class="ByT5Tokenizer")
    Checkpoint.of(folder, "the model")


@pytest.mark.parametrize("claim", [{"num_hidden_layers": 10**9}, {"vocab_size": 10**12}, {"hidden_size": 10**12}])
def test_sizes_that_the_weights_cannot_have_are_refused_before_anything_is_built(
    folder: Path, claim: dict[str, int]
) -> None:
    change(folder / "config.json", **claim)
    assert str(next(iter(claim.values()))) in refusal(folder, errors.ModelRefused).why
