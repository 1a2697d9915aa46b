"""A steer that makes the numbers overflow is refused in words wherever logits are read; nothing answers with NaN."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from backend import errors
from backend.models import cell, steer, steer_evidence, tokens, trace
from backend.models.loaded import Loaded
from backend.models.vectors import Beside, SteerMatrix
from backend.schema import CellAsk, EvidenceAsk, Limits, Steer, SteerAsk, TokensAsk, TraceAsk, View
from tests import families
from tests.bent import TEXT

HUGE = "e" * 64
INSTRUMENTS: dict[str, Callable[[Loaded, View], Any]] = {
    "tokens": lambda loaded, view: tokens.answer(loaded, TokensAsk(view=view, scores=True), Limits()),
    "trace": lambda loaded, view: trace.trace(loaded, TraceAsk(view=view), Limits()),
    "cell": lambda loaded, view: cell.cell(loaded, CellAsk(view=view, layer=1), Limits()),
    "steer": lambda loaded, view: steer.steer(loaded, SteerAsk(view=view), Limits()),
    "evidence": lambda loaded, view: steer_evidence.evidence(loaded, EvidenceAsk(view=view), Limits()),
}


@pytest.mark.parametrize("name", list(INSTRUMENTS))
def test_a_steer_beyond_all_numbers_is_refused_in_words(name: str) -> None:
    loaded = families.opened("llama")
    width = loaded.anatomy.unembedding.get_parameter("weight").shape[1]
    huge = SteerMatrix(torch.full((width, 1), 1e38), torch.full((1, width), 1e38))
    beside = dataclasses.replace(loaded, vectors=Beside(loaded.vectors, steers={HUGE: huge}))
    view = View(model=loaded.name, text=TEXT, edits=(Steer(steer=HUGE, by=1),))
    with pytest.raises(errors.CannotShow, match="breaks down"):
        INSTRUMENTS[name](beside, view)
