"""Package models for tests, opened from models_cache as the product opens them."""

from functools import cache
from pathlib import Path

from backend.models.loaded import Loaded
from backend.models.shelf import Shelf

CACHE = Path(__file__).resolve().parents[1] / "models_cache"


@cache
def package_loaded(name: str) -> Loaded:
    """An open package model. Fails with a sentence when it was not fetched: it is never skipped."""
    if not any((CACHE / "models").glob(f"{name}@*/card.json")):
        raise AssertionError(f"{name} is not in models_cache: run `make setup`, which fetches it")
    return Shelf(cache_dir=CACHE, device="cpu", dtype="float32", models=(name,)).load(name)
