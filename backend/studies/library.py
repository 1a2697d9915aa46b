"""What a study may read and keep beside the model that it asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from backend.desk.desk import Desk
from backend.models.examples import Examples
from backend.models.kept_answers import KeptAnswers
from backend.models.means import MeanTables
from backend.models.sets import Sets
from backend.models.steers import Steers
from backend.models.vectors import Vectors
from backend.schema import Limits
from backend.studies.asking import OnModel


@dataclass(frozen=True)
class Library:
    """The server's shelves, its limits, and the way to another model."""

    limits: Limits
    sets: Sets
    tables: MeanTables
    vectors: Vectors
    examples: Examples
    steers: Steers
    kept: KeptAnswers
    """Long answers about weights."""
    open: Callable[[str, str | None, str], OnModel]
    """By name, revision and the instrument that asks."""

    @classmethod
    def below(cls, cache_dir: Path, limits: Limits, desk: Desk) -> Self:
        """The shelves below one cache folder, and the models of a desk."""
        return cls(
            limits, Sets(cache_dir), MeanTables(cache_dir), Vectors(cache_dir), Examples(cache_dir), Steers(cache_dir),
            KeptAnswers(cache_dir), partial(OnModel, desk),
        )  # fmt: skip
