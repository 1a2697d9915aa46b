"""How varied texts are: distinct n-grams (Li et al. 2016, arXiv 1510.03055, §5.4)."""

from collections.abc import Sequence

UP_TO = 3


def distinct(texts: Sequence[Sequence[int]]) -> tuple[float, float, float]:
    """Different 1-, 2- and 3-grams of tokens over all of them, pooled over the texts; 0 where there is none.

    A text that repeats itself has few different ones. Li et al. divide by the tokens; by the n-grams the most is 1.
    """
    one, two, three = (_share([gram for ids in texts for gram in grams(ids, n)]) for n in range(1, UP_TO + 1))
    return one, two, three


def grams(ids: Sequence[int], n: int) -> list[tuple[int, ...]]:
    """Every run of n tokens."""
    return list(zip(*(ids[first:] for first in range(n)), strict=False))


def _share(found: list[tuple[int, ...]]) -> float:
    return len(set(found)) / len(found) if found else 0.0
