"""The default model, opened as a server opens it, for the subjects that need real weights."""

from functools import cache
from typing import Any

NAME = "smollm2-135m-instruct"
"""SmolLM2-135M: 30 blocks, a width of 576, a vocabulary of 49,152."""


@cache
def smollm2() -> Any:
    """The loaded model, in float32 on the CPU; fetched first where it is not there."""
    from backend.models.shelf import Shelf
    from backend.settings import Settings

    settings = Settings()
    shelf = Shelf(
        cache_dir=settings.cache_dir, budget_bytes=settings.memory_bytes, device="cpu", dtype="float32",
        allow=settings.allow, models=(NAME,),
    )  # fmt: skip
    return shelf.load(NAME)
