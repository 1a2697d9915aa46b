"""The study of the shipped steer compares scores prompt by prompt, keeps numbers and no texts, and is drawn."""

import pytest

from benchmarks.steer_effect import figures, scored
from frontend.figures.steer_effect import steer_effect

ZERO = {"mean": 0.0, "low": 0.0, "high": 0.0, "n": 8}
TEXTS = {0.0: "a a a a a a a a", 2.0: "b b b b b b b a", -2.0: "c c c c c c c c"}


def point(by: float, texts: str) -> dict:
    nll = {"mean": -0.1 * by, "low": -0.1 * by - 0.01, "high": -0.1 * by + 0.01, "n": 8}
    return {
        "by": by, "other": None, "plus": nll, "minus": None, "kl": ZERO, "distinct": [1, 1, 1],
        "perplexity": {"mean": 20.0, "low": 19.0, "high": 21.0, "n": 40}, "samples": texts.split(),
    }  # fmt: skip


SWEEP = {
    "conditions": {}, "about": "how", "prompts": ["p"] * 8, "base": point(0.0, TEXTS[0.0]),
    "points": [point(by, texts) for by, texts in TEXTS.items()],
    "control": [point(by, TEXTS[0.0]) for by in TEXTS],
}  # fmt: skip


@pytest.fixture
def told() -> dict:
    return {"poles": ["good", "bad"], **scored([SWEEP], {"a": 1.0, "b": 4.0, "c": -1.0}.__getitem__)}


def test_scores_are_compared_prompt_by_prompt_with_the_unsteered_continuation(told):
    by = {each["by"]: each for each in told["points"]}
    assert by[2.0]["score"]["mean"] == pytest.approx(7 * 3 / 8)
    assert (by[2.0]["higher"], by[2.0]["lower"], by[-2.0]["lower"]) == (7, 0, 8)
    assert by[-2.0]["score"] == {"mean": -2.0, "low": -2.0, "high": -2.0, "n": 8}
    assert by[2.0]["mean_score"] == pytest.approx(29 / 8)
    assert all(each["score"]["mean"] == 0 for each in told["control"])
    assert "samples" not in by[2.0], "no texts are recorded"
    found = figures(told)
    assert (found["afinn_-2"], found["afinn_random_+2"], found["nll_plus_+2"]) == (-2.0, 0.0, -0.2)
    assert "nll_minus_+2" not in found


def test_a_prompt_s_score_is_the_mean_over_its_draws(told):
    again = {**SWEEP, "base": point(0.0, TEXTS[2.0])}
    for kind in ("points", "control"):
        again[kind] = [point(by, TEXTS[2.0]) for by in TEXTS]
    both = scored([SWEEP, again], {"a": 1.0, "b": 4.0, "c": -1.0}.__getitem__)
    by = {each["by"]: each for each in both["points"]}
    assert both["draws"] == 2
    assert by[2.0]["score"]["mean"] == pytest.approx(7 * 3 / 8 / 2)
    assert by[-2.0]["score"]["mean"] == pytest.approx(-2.0 / 2)
    assert by[-2.0]["perplexity"] == SWEEP["points"][2]["perplexity"]


def test_the_curve_shows_that_texts_become_likelier_where_their_nll_falls(told):
    figure = steer_effect(told, theme="dark")
    lines = {(line.name, line.yaxis): line for line in figure.data}
    assert list(lines["goods", "y"].y) == [0.0, pytest.approx(0.2), pytest.approx(-0.2)]
    assert list(lines["this steer", "y3"].y) == [0.0, pytest.approx(21 / 8), -2.0]
    assert list(lines["random steer", "y3"].y) == [0.0, 0.0, 0.0]
    assert not lines["bads", "y"].x, "what was not measured is not drawn"
