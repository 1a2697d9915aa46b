"""The benchmark of steering runs on any open model, names its figures, and leaves the model as it was."""

import pytest
import torch

from benchmarks import decoding, steer, steer_large
from tests import tiny


def test_every_figure_is_measured_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steer, "QUICK_STEPS", 5)
    monkeypatch.setattr(steer, "QUICK_MOVES", 3)
    monkeypatch.setattr(decoding, "STEPS", 2)
    loaded = tiny.loaded("llama")
    before = loaded.vectors
    monkeypatch.setattr(decoding, "_unit", None)
    figures = steer.of_model(loaded, "The cat sat on the mat.", quick=True, peer=True)
    assert {"step_ratio", "slider_ms", "batch16_speedup", "peer_step_ratio", "peer_slider_ms"} <= set(figures)
    assert all(value > 0 for value in figures.values())
    assert loaded.vectors is before


def test_a_machine_without_a_card_is_told_where_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="lmscope bench steer"):
        steer_large.run(quick=True, peer=False)
