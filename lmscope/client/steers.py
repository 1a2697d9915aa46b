"""The shelf of sliders, and how one is made from labelled texts or moved to another model."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from backend.schema import (
    DirectionAsk,
    ExamplesAsk,
    ExamplesCard,
    ExamplesShelf,
    Made,
    MakeAsk,
    SteerShelf,
    TransferAsk,
    Transferred,
    VectorAsk,
    VectorCard,
    VectorShelf,
)
from lmscope.asking import asked, examples_of, impossible, listed
from lmscope.client.jobs import JobsClient, Progress
from lmscope.client.reading import typed


class SteersClient(JobsClient):
    async def vectors(self) -> tuple[VectorCard, ...]:
        """The stored directions and steers."""
        return typed(VectorShelf, await self._send("GET", "vectors")).vectors

    async def keep(self, vector: VectorAsk) -> VectorCard:
        """Store a direction or a steer; edits name it by the `id` of the card that comes back."""
        return typed(VectorCard, await self._send("POST", "vectors", vector))

    async def steers(self, model: str, revision: str | None = None) -> SteerShelf:
        """The shelf of sliders, each with whether it fits this model; those that fit come first."""
        query = {"model": model} | ({"revision": revision} if revision else {})
        return typed(SteerShelf, await self._send("GET", "steers", query=query))

    async def delete_steer(self, id: str) -> None:
        """Take a steer or direction off the shelf and delete its numbers."""
        await self._send("DELETE", f"steers/{quote(id, safe='')}")

    async def keep_examples(
        self,
        name: str,
        *,
        plus: str | Sequence[str] = (),
        minus: str | Sequence[str] = (),
        rows: Sequence[tuple[str, float]] = (),
        file: str | PathLike[str] | None = None,
        licence: str = "not stated",
    ) -> ExamplesCard:
        """Check labelled texts and keep them: two sets, (text, label in [−1, 1]) rows, or a CSV or JSONL file.

        A file's columns or fields are `text` and `label`, and its name ends in .csv or .jsonl.
        """
        content, form = await asyncio.to_thread(file_of, file)
        ask = asked(
            ExamplesAsk, name=name, licence=licence, plus=listed(plus, "plus"), minus=listed(minus, "minus"),
            file=content, format=form, rows=examples_of(rows),
        )  # fmt: skip
        return typed(ExamplesCard, await self._send("POST", "steers/examples", ask))

    async def examples(self) -> tuple[ExamplesCard, ...]:
        """The sets of examples that the server keeps."""
        return typed(ExamplesShelf, await self._send("GET", "steers/examples")).sets

    async def make_steer(
        self,
        /,
        model: str,
        name: str,
        examples: str,
        *,
        plus: str = "+",
        minus: str = "−",
        progress: Progress | None = None,
        **options: Any,
    ) -> Made:
        """Make a steer from kept examples (the `id` of their card); waits for the job, which `progress` sees.

        `plus` and `minus` name the poles; options: `revision`, `rank` (None: a full matrix), `steps`, `batch`, `rate`,
        `decay`, `every`, `patience`, `held_out`, `tokens`, `padding`, `seed` and `owner`, as in `MakeAsk`.
        """
        ask = asked(MakeAsk, model=model, name=name, plus=plus, minus=minus, examples=examples, **options)
        return Made.model_validate(await self._study(ask, progress))

    async def make_direction(
        self,
        /,
        model: str,
        name: str,
        examples: str,
        layer: int,
        *,
        plus: str = "+",
        minus: str = "−",
        progress: Progress | None = None,
        **options: Any,
    ) -> Made:
        """Make a direction of the residual stream after block `layer` from kept examples; waits for the job.

        `plus` and `minus` name the poles; options: `revision`, `method` ("means" or "pca"), `token` ("last" or
        "mean"), `held_out`, `tokens`, `seed` and `owner`, as in `DirectionAsk`.
        """
        ask = asked(
            DirectionAsk, model=model, name=name, plus=plus, minus=minus, examples=examples, layer=layer, **options
        )
        return Made.model_validate(await self._study(ask, progress))

    async def transfer(
        self,
        steer: str,
        model: str,
        name: str,
        *,
        revision: str | None = None,
        ridge: float = 0.0,
        examples: str | None = None,
        progress: Progress | None = None,
    ) -> Transferred:
        """Move a steer (by id) to another model by least squares on shared tokens; waits for the job.

        What survives is measured in both models on the same texts: those of `examples` (an id), by default those that
        the steer was held out from.
        """
        ask = asked(TransferAsk, steer=steer, model=model, revision=revision, name=name, ridge=ridge, examples=examples)
        return Transferred.model_validate(await self._study(ask, progress))


def file_of(path: str | PathLike[str] | None) -> tuple[str | None, Literal["csv", "jsonl"] | None]:
    """A file's bytes in base64, and its format by its name. Raises `Impossible` for another name."""
    if path is None:
        return None, None
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in ("csv", "jsonl"):
        raise impossible(f"{path} is neither .csv nor .jsonl")
    return b64encode(Path(path).read_bytes()).decode(), "csv" if form == "csv" else "jsonl"
