"""The statistics of attention as a person chooses them; definitions and numbers come with each answer."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from backend.schema.view import StatisticName

WORDS = {
    "entropy": "Entropy",
    "normalised": "Normalised entropy",
    "effective": "Effective tokens",
    "previous": "Previous token",
    "next": "Next token",
    "self": "Own token",
    "first": "First token",
    "separators": "Separators",
    "punctuation": "Punctuation",
    "distance": "Mean distance",
    "induction": "Induction",
    "sink": "Learned sink",
}
LABELS: dict[str, str] = {name: WORDS.get(name, name.capitalize()) for name in get_args(StatisticName)}
"""In the order of every answer."""


def find(statistics: Sequence[Mapping[str, Any]] | None, name: str) -> Mapping[str, Any] | None:
    """The statistic of that name, or None."""
    return next((statistic for statistic in statistics or () if statistic["name"] == name), None)
