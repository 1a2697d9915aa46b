"""The desk: what decides when a question runs, for how long it may wait, and when it is dropped."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from backend import errors
from backend.desk import refusals
from backend.desk.answering import Answering
from backend.desk.answers import Answers, answer_digest
from backend.desk.failures import again
from backend.desk.jobs import Again, Jobs, shown
from backend.desk.jobs import Work as LongWork
from backend.desk.lane import Lane, Outcome
from backend.desk.memory import Memory
from backend.desk.pipe import Pipe
from backend.desk.question import Ask, Loaded, Pieces, Question, Work
from backend.desk.tabs import Tabs
from backend.models.progress import Progress
from backend.schema import Conditions, Job, Limits, ModelCard, TabEvent, Waiting
from backend.store import Jobs as JobTable

LOAD = "models.load"


class Shelf(Protocol):
    """What the desk needs of the models' shelf."""

    budget: int
    """Bytes that all open models together may have."""

    def card(self, name: str, revision: str | None) -> ModelCard: ...
    def lease(self, name: str, revision: str | None) -> AbstractContextManager[Any]: ...
    def load(self, name: str, revision: str | None, progress: Progress) -> Any: ...


class Desk:
    """One bounded queue and one thread a loaded model. All methods belong to the event loop."""

    def __init__(
        self, shelf: Shelf, limits: Limits, memory: Memory | None = None, jobs: JobTable | None = None
    ) -> None:
        """`jobs`: where jobs are remembered; None: nowhere."""
        self._shelf, self._limits, self._memory = shelf, limits, memory or Memory()
        self._loop = asyncio.get_running_loop()
        self._lanes: list[Lane] = []
        self._works: dict[str, Work] = {}
        self._asks: dict[str, Ask] = {}
        self._closed = False
        self.answers = Answers(limits.answer_bytes)
        self.tabs = Tabs(self.situation, self.stop)
        self.jobs = Jobs(self.tabs.ring, jobs)

    async def ask(self, name: str, revision: str | None, question: Question, *, tab: str = "") -> bytes:
        """The answer's JSON.

        A newer question of the same tab and instrument takes this one's place (`Replaced`). Raises `Busy` when the
        queue is full, `Waited` or `Loading` after `limits.wait_s`, `Cancelled` when the tab stops, and whatever
        answering raises. Cancelling the caller drops the question.
        """
        if self._closed:
            raise refusals.closing()
        ask = Ask(tab, question.instrument, name, self._loop.create_future())
        self._replace(ask)
        self._asks[ask.id] = ask
        expiry = self._loop.call_later(self._limits.wait_s, self._expire, ask)
        try:
            await self._begin(ask, name, revision, question)
            return await ask.future
        finally:
            expiry.cancel()
            ask.close()
            del self._asks[ask.id]
            self._leave(ask)

    async def stream(
        self, name: str, revision: str | None, stream: Pieces, *, tab: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of an answer while it is made; it waits, is replaced and is stopped as any other question.

        Raises as `ask`: before the first piece when it was refused, after some when it failed or was stopped, and
        `Waited` when its reader held the model up for `limits.wait_s` in all. Closing the generator drops the question.
        """
        pipe = Pipe(self._limits.wait_s)
        asking = asyncio.ensure_future(self.ask(name, revision, stream.question(pipe.send), tab=tab))
        asking.add_done_callback(lambda ended: pipe.end(whole=not ended.cancelled() and ended.exception() is None))
        try:
            while (piece := await pipe.next()) is not None:
                yield piece
            await asking
        finally:
            asking.cancel()

    async def load(self, name: str, revision: str | None = None, *, owner: str = "") -> Job:
        """Start loading a model as a job, or find the job that already does; a kill does not forget it.

        Raises `UnknownModel` and the like.
        """
        job = await self._start_load(name, revision, owner)
        await self.jobs.recorded()
        return job

    async def _start_load(self, name: str, revision: str | None, owner: str, *, passing: bool = False) -> Job:
        request = {"model": name, "revision": revision}
        work = await self._load_work(request)
        return self.jobs.start(
            LOAD, work.what, work.run, share=work.share, owner=owner, request=request, passing=passing
        )

    async def check_together(self, *models: tuple[str, str | None]) -> None:
        """Raise `OverBudget` where models cannot be open at once: questions to each in turn would load each anew.

        Raises `UnknownModel` and the like.
        """
        cards = [await asyncio.to_thread(self._shelf.card, name, revision) for name, revision in models]
        bytes = {(card.name, card.revision): card.memory_bytes or card.estimated_bytes for card in cards}
        if (needed := sum(bytes.values())) > self._shelf.budget:
            raise refusals.apart([card.name for card in cards], needed, self._shelf.budget)

    async def take_up(self, kinds: Mapping[str, Again] | None = None) -> None:
        """Go on with what servers that died have left; `kinds`: how, for kinds of job that the desk does not know.

        Loading can be done again: each of its steps either left a whole folder in the cache or nothing, and finds what
        is there.
        """
        await self.jobs.take_up({LOAD: self._load_work, **(kinds or {})})

    async def _load_work(self, request: dict[str, Any]) -> LongWork:
        """Fetching, converting and opening a model, from what was asked. Raises `UnknownModel` and the like."""
        name, revision = request["model"], request["revision"]
        card = await asyncio.to_thread(self._shelf.card, name, revision)

        def load(progress: Progress) -> dict[str, Any]:
            self._shelf.load(name, revision, progress)
            return {"model": card.name, "revision": card.revision}

        return LongWork(f"loading {card.name}", load, _share(card))

    async def conditions(self, name: str, revision: str | None) -> Conditions | None:
        """What a model answers under now; None: it is not loaded. Raises `UnknownModel` and `Forbidden`."""

        def look() -> Conditions | None:
            try:
                with self._shelf.lease(name, revision) as loaded:
                    found: Conditions = loaded.conditions
                    return found
            except errors.Loading:
                return None

        return await asyncio.to_thread(look)

    def loading(self, card: ModelCard) -> Job | None:
        """The job that loads a model now."""
        return self.jobs.shared(_share(card))

    def asking(self) -> Counter[str]:
        """How many questions wait or run, a model."""
        return Counter(ask.model for ask in self._asks.values())

    def stop(self, tab: str) -> None:
        """Cancel everything that a tab asks."""
        for ask in [ask for ask in self._asks.values() if ask.tab == tab]:
            self._turn_away(ask, refusals.stopped())

    def situation(self, tab: str) -> TabEvent:
        """A tab's questions and this server's jobs, as they stand now."""
        places = {id(work): place for lane in self._lanes for place, work in enumerate(lane.waiting(), start=1)}
        asks = [ask for ask in self._asks.values() if ask.tab == tab and not ask.future.done()]
        jobs = tuple(shown(job, tab) for job in self.jobs.current())
        return TabEvent(questions=tuple(self._told(ask, places) for ask in asks), jobs=jobs)

    async def close(self) -> None:
        """Turn everybody away, and end the threads."""
        self._closed = True
        for ask in tuple(self._asks.values()):
            self._turn_away(ask, refusals.closing())
        self.tabs.close()
        await self.jobs.close()
        for lane in self._lanes:
            lane.close()
            await asyncio.to_thread(lane.thread.join)
        self._lanes.clear()

    def _told(self, ask: Ask, places: dict[int, int]) -> Waiting:
        running = ask.work is not None and ask.work.running
        place = self._ahead(ask) + 1 if ask.work is None else places.get(id(ask.work), 0)
        return Waiting(
            question=ask.id,
            instrument=ask.instrument,
            model=ask.model,
            state="running" if running else "waiting",
            position=place,
        )

    def _ahead(self, ask: Ask) -> int:
        """How many wait for the same model to load and came earlier."""
        others = [other for other in self._asks.values() if other.job == ask.job and other.work is None]
        return others.index(ask)

    def _replace(self, newer: Ask) -> None:
        """Turn away what the same tab asked this instrument before."""
        for ask in self._asks.values():
            if newer.tab and (ask.tab, ask.instrument) == (newer.tab, newer.instrument):
                ask.fail(refusals.replaced())  # it leaves its work when it wakes: the newer one may share it

    async def _begin(self, ask: Ask, name: str, revision: str | None, question: Question) -> None:
        """Hold the model so that it stays loaded, loading it first where needed; then join or queue."""
        while not ask.future.done():
            with ExitStack() as lease:
                try:
                    loaded = lease.enter_context(self._shelf.lease(name, revision))
                except errors.Loading:
                    await self._loading(ask, name, revision, question)
                    continue
                self._join(ask, question, loaded, lease)
                return

    async def _loading(self, ask: Ask, name: str, revision: str | None, question: Question) -> None:
        """Wait until the model's job ends or the caller is turned away. Raises what went wrong with the job."""
        job = await self._start_load(name, revision, ask.tab, passing=question.of_job)
        if sum(other.job == job.id and other.work is None for other in self._asks.values()) >= self._limits.queue:
            raise refusals.busy(name, self._limits.queue)
        ask.job = job.id  # before the store has it: who is turned away meanwhile is told the job
        await self.jobs.recorded()
        self.tabs.ring()
        ended: asyncio.Future[Any] = asyncio.ensure_future(self.jobs.ended(job.id))
        turned_away: asyncio.Future[Any] = ask.future
        try:
            await asyncio.wait({ended, turned_away}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if not ask.future.done():
            self.jobs.raise_for(job.id)

    def _join(self, ask: Ask, question: Question, loaded: Loaded, lease: ExitStack) -> None:
        """Give the answer that is kept, share the work that makes it, or queue new work."""
        question.check(loaded)
        digest = answer_digest(question.key, loaded.conditions)
        kept = self.answers.get(digest)
        if kept is not None:
            ask.future.set_result(kept)
        elif digest in self._works:
            self._share(self._works[digest], ask)
        else:
            self._queue(digest, question, loaded, lease, ask)

    def _share(self, work: Work, ask: Ask) -> None:
        ask.work = work
        work.asks.append(ask)
        self.tabs.ring()

    def _queue(self, digest: str, question: Question, loaded: Loaded, lease: ExitStack, ask: Ask) -> None:
        for other in self._asks.values():
            if other.future.done():
                self._leave(other)  # what was just replaced takes no place in the queue
        lane = self._lane(loaded)
        if len(lane) >= self._limits.queue:
            raise refusals.busy(ask.model, self._limits.queue)
        self._works[digest] = Work(digest, question, loaded, ask.tab, lease.pop_all())
        self._share(self._works[digest], ask)
        lane.put(self._works[digest])

    def _lane(self, loaded: Loaded) -> Lane:
        """The model's lane, made when it is first asked."""
        self._lanes = [lane for lane in self._lanes if not lane.gone]
        for lane in self._lanes:
            if lane.serves(loaded):
                return lane
        answering = Answering(self._memory, self._limits.wait_s)
        self._lanes.append(Lane(loaded, answering, self._ended, self.tabs.ring, self._limits.rows))
        return self._lanes[-1]

    def _ended(self, work: Work, outcome: Outcome) -> None:
        """Hand an outcome to everybody who waits for it."""
        work.lease.close()
        if self._works.get(work.digest) is work:
            del self._works[work.digest]
        if isinstance(outcome, bytes) and outcome:  # a stream's answer went through its pipe
            self.answers.put(work.digest, outcome)
        for ask in work.asks:
            if isinstance(outcome, errors.LmscopeError):
                ask.fail(again(outcome))
            elif not ask.future.done():
                ask.future.set_result(outcome)

    def _turn_away(self, ask: Ask, error: errors.LmscopeError) -> None:
        ask.fail(error)
        self._leave(ask)

    def _leave(self, ask: Ask) -> None:
        """Take a caller out of its work; work that nobody waits for never starts, or stops at the next layer."""
        work, ask.work = ask.work, None
        if work is not None:
            work.asks.remove(ask)
            if not work.asks and self._works.get(work.digest) is work:
                self._abandon(work)
        self.tabs.ring()

    def _abandon(self, work: Work) -> None:
        work.cancelled = True
        del self._works[work.digest]
        if not work.running:
            self._lane(work.loaded).drop(work)
            work.lease.close()

    def _expire(self, ask: Ask) -> None:
        """Turn away a caller who has waited too long; running work goes on."""
        if ask.future.done() or (ask.work is not None and ask.work.running):
            return
        if ask.work is None:
            self._turn_away(ask, refusals.loading(ask.model, ask.job, self._limits.wait_s))
            return
        waiting = list(self._lane(ask.work.loaded).waiting())
        self._turn_away(ask, refusals.waited(waiting.index(ask.work), self._limits.wait_s))


def _share(card: ModelCard) -> str:
    """What two loads of the same model have in common."""
    return f"load {card.name}@{card.revision}"
