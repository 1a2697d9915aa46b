"""The blocking face of the client: the methods of `AsyncClient`, which wait for their answers."""

from collections.abc import Iterator
from typing import Any

from backend.schema import Job, TabEvent, VectorCard, View, WriteEvent
from lmscope.client import AsyncClient, Progress
from lmscope.storing import direction, steer
from lmscope.waiting import Waiting, loaded, patient, waits


class Desk(Waiting):
    """What stands in the forms of the schema in a notebook too: the shelf, jobs, the tab, and what is written.

    `patient`: a question about a model that is still being loaded waits for it instead of being refused.
    """

    raw = patient(AsyncClient.raw)
    capture = patient(AsyncClient.capture)
    switch = patient(AsyncClient.switch)
    mean = patient(AsyncClient.mean)
    write = patient(AsyncClient.write)

    steers = patient(AsyncClient.steers)
    make_steer = patient(AsyncClient.make_steer)
    make_direction = patient(AsyncClient.make_direction)
    transfer = patient(AsyncClient.transfer)
    vectors = waits(AsyncClient.vectors)
    delete_steer = waits(AsyncClient.delete_steer)
    keep_examples = waits(AsyncClient.keep_examples)
    examples = waits(AsyncClient.examples)

    sets = waits(AsyncClient.sets)
    keep_set = waits(AsyncClient.keep_set)
    set = waits(AsyncClient.set)

    notes = waits(AsyncClient.notes)
    note = waits(AsyncClient.note)
    export_notes = waits(AsyncClient.export_notes)
    import_notes = waits(AsyncClient.import_notes)

    models = waits(AsyncClient.models)
    unload = waits(AsyncClient.unload)
    health = waits(AsyncClient.health)

    start = patient(AsyncClient.start)
    known = waits(AsyncClient.known)
    jobs = waits(AsyncClient.jobs)
    job = waits(AsyncClient.job)
    wait = waits(AsyncClient.wait)
    cancel_job = waits(AsyncClient.cancel_job)
    stop = waits(AsyncClient.stop)

    def load(self, model: str, revision: str | None = None, progress: Progress | None = None) -> Job:
        """Load a model and wait for it; `progress` sees the job at every look."""
        return self._run(loaded(self._client, model, revision, progress))

    def keep_direction(self, name: str, vector: Any, recipe: str = "") -> VectorCard:
        """Store a direction [width]; `residual.add`, `residual.set` and `head.set` name it by the card's `id`."""
        return self._run(self._client.keep(direction(name, vector, recipe)))

    def keep_steer(self, name: str, left: Any, right: Any = None, recipe: str = "") -> VectorCard:
        """Store LM-Steer's W = left right ([width, rank], [rank, width]), or a full W [width, width] alone."""
        return self._run(self._client.keep(steer(name, left, right, recipe)))

    def write_stream(self, view: View, *, top: int = 0, ratio: bool = False) -> Iterator[WriteEvent]:
        """The same as `write`, token by token. Leaving the loop ends the writing within a token."""
        yield from self._each(self._client.write_stream(view, top=top, ratio=ratio))

    def events(self) -> Iterator[TabEvent]:
        """This tab's questions and jobs, now and at every change."""
        yield from self._each(self._client.events())


class Client(Desk):
    """The same answers as from `AsyncClient`, in the forms of the schema."""

    tokens = patient(AsyncClient.tokens)
    attention = patient(AsyncClient.attention)
    head = patient(AsyncClient.head)
    heads = patient(AsyncClient.heads)

    trace = patient(AsyncClient.trace)
    cell = patient(AsyncClient.cell)
    contributions = patient(AsyncClient.contributions)
    effects = patient(AsyncClient.effects)
    patch = patient(AsyncClient.patch)
    patch_map = patient(AsyncClient.patch_map)

    value = patient(AsyncClient.value)
    fires = patient(AsyncClient.fires)
    search = patient(AsyncClient.search)
    lookup = patient(AsyncClient.lookup)

    steer = patient(AsyncClient.steer)
    steer_evidence = patient(AsyncClient.steer_evidence)
    steer_inside = patient(AsyncClient.steer_inside)
    sweep = patient(AsyncClient.sweep)

    pairs = patient(AsyncClient.pairs)
    line = patient(AsyncClient.line)
    subheads = patient(AsyncClient.subheads)
    head_weights = patient(AsyncClient.head_weights)
    overlaps = patient(AsyncClient.overlaps)
    concept = patient(AsyncClient.concept)

    head_tables = patient(AsyncClient.head_tables)
    head_summaries = patient(AsyncClient.head_summaries)
    kept_words = patient(AsyncClient.kept_words)
    active_words = patient(AsyncClient.active_words)
    similarity = patient(AsyncClient.similarity)

    changes = patient(AsyncClient.changes)
    alignment = patient(AsyncClient.alignment)
    stitching = patient(AsyncClient.stitching)
