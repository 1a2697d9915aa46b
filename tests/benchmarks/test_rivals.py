"""The rivals are measured on equal terms, or it is said in words why not."""

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

from benchmarks import attention, rivals
from lmscope import cli

TOKENS = 12


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of the same kind, for which nobody waits."""

    def model(longest: int) -> GPT2LMHeadModel:
        torch.manual_seed(0)
        sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
        return GPT2LMHeadModel(GPT2Config(vocab_size=attention.WORDS, n_positions=longest, **sizes)).eval()

    monkeypatch.setattr(attention, "_model", model)


def measured(captures: dict[str, rivals.Capture]) -> dict[str, float]:
    return attention._in_turn(attention._loaded(TOKENS), captures, TOKENS, quick=True)


def own(_: Any) -> tuple[Any, ...]:
    return attention._eager(TOKENS, TOKENS)


def test_what_a_rival_captured_is_compared_with_the_maps_of_the_model() -> None:
    def wrong(ids_BT: Any) -> list[Any]:
        return [map_BHTS + 0.25 for map_BHTS in own(ids_BT)]

    found = measured({"right": own, "wrong": wrong})
    assert found["right_difference"] == 0
    assert found["wrong_difference"] == pytest.approx(0.25)
    assert found["right_bytes"] == 3 * 4 * TOKENS * TOKENS * 4  # layers, heads, rows, columns, float32


def test_a_rival_that_leaves_maps_out_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="forgetful did not capture every map"):
        measured({"forgetful": lambda ids_BT: own(ids_BT)[1:]})


def test_a_rival_without_memory_ends_neither_ours_nor_another_rivals_figures() -> None:
    def failing(error: Exception, _: Any) -> Any:
        raise error

    full = RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
    found = measured({"large": partial(failing, full), "python": partial(failing, MemoryError()), "right": own})
    assert {"ours", "bare", "right"} <= found.keys()
    assert not {"large", "python"} & found.keys()
    with pytest.raises(RuntimeError, match="shapes"):
        measured({"broken": partial(failing, RuntimeError("shapes do not match"))})


def test_rivals_that_cannot_be_installed_are_not_left_out_but_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(rivals, "PACKAGES", ("no-such-rival==1.0",))
    told = CliRunner().invoke(cli.app, ["bench", "attention", "--quick", "--peer"])
    assert told.exit_code == 1
    assert not told.stdout
    said = " ".join(told.stderr.split())
    assert "The rivals are not installed, and could not be." in said
    assert "No matching distribution found for no-such-rival==1.0" in said
    assert f"run `{tmp_path}/rivals/bin/python -m pip install" in said
    assert "without --peer" in said


def test_the_rivals_get_our_own_torch_and_leave_nothing_in_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = Path(torch.__file__).parent.parent
    before = {path.name for path in packages.glob("*.dist-info")}
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(rivals, "PACKAGES", (f"safetensors=={version('safetensors')}",))
    python = rivals.python()
    assert Path(python).is_relative_to(tmp_path)
    assert rivals._said([python, "-c", "import torch; print(torch.__file__)"]).strip() == torch.__file__
    assert {path.name for path in packages.glob("*.dist-info")} == before
    assert rivals.python() == python, "the second time nothing is installed"
