"""Both themes can be read: every pair of text and ground that the shell uses holds WCAG AA (4.5 : 1)."""

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[2] / "frontend/assets/app.css").read_text()
PAIRS = [
    *(("text", ground) for ground in ("bg", "surface", "sunken", "chip", "warm-soft", "accent-soft", "danger-soft")),
    *(("quiet", ground) for ground in ("bg", "surface", "sunken", "chip", "accent-soft", "warm-soft")),
    *(("accent", ground) for ground in ("surface", "bg", "warm-soft")),
    *(("accent-strong", ground) for ground in ("surface", "accent-soft")),
    *(("on-accent", ground) for ground in ("accent", "accent-strong")),
    *(("warm", ground) for ground in ("surface", "warm-soft")),
    *(("danger", ground) for ground in ("surface", "sunken", "danger-soft")),
    *(("good", ground) for ground in ("surface", "accent-soft")),
]
LINES = [("line-strong", "surface"), ("line-strong", "sunken"), ("accent", "sunken"), ("warm", "surface")]
VIRIDIS = re.findall(r'"(#[0-9a-f]{6})"', (Path(__file__).parents[2] / "frontend/assets/strip.js").read_text())


def colours(theme: str) -> dict[str, str]:
    block = re.search(rf'\[data-theme="{theme}"\] \{{(.*?)\}}', CSS, re.S)
    assert block is not None
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6}|\d+%);", block[1]))


def channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def luminance(rgb: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: list[float], b: list[float]) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(theme: str) -> None:
    found = colours(theme)
    poor = {pair: round(contrast(channels(found[pair[0]]), channels(found[pair[1]])), 2) for pair in PAIRS}
    assert {pair: value for pair, value in poor.items() if value < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_controls_stand_out(theme: str) -> None:
    found = colours(theme)
    poor = {pair: round(contrast(channels(found[pair[0]]), channels(found[pair[1]])), 2) for pair in LINES}
    assert {pair: value for pair, value in poor.items() if value < 3.0} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_shade_of_a_token_leaves_it_readable(theme: str) -> None:
    found = colours(theme)
    share = int(found["tint"].rstrip("%")) / 100
    text, chip = channels(found["text"]), channels(found["chip"])
    assert len(VIRIDIS) == 10
    for shade in VIRIDIS:
        ground = [share * a + (1 - share) * b for a, b in zip(channels(shade), chip, strict=True)]
        assert contrast(text, ground) >= 4.5, shade


def test_without_motion_no_style_is_a_transition() -> None:
    """A transition of no length on every element is still one: a change of theme began some thousands of them."""
    block = re.search(r"@media \(prefers-reduced-motion: reduce\) \{(.*?)\n\}", CSS, re.S)
    assert block is not None
    assert "transition-property: none !important" in block[1]
    assert "transition-duration" not in block[1]
