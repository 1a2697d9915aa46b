"""Seeds of what a study draws."""

from typing import Annotated

from pydantic import Field

Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Of a seed torch's generator on the CPU takes the lowest 32 bits alone: a larger one would draw, without a word, the
numbers of a small one. Some studies add the number of a layer."""
