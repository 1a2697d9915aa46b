"""The text of the trace's benchmark has the tokens that its figures name."""

import pytest

from benchmarks import trace
from benchmarks.opened import smollm2

pytestmark = pytest.mark.pretrained


def test_the_text_has_as_many_tokens_as_the_figures_say() -> None:
    assert trace._ids(smollm2(), trace.TEXT).shape == (1, trace.TOKENS)
