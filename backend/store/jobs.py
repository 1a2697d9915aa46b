"""Jobs as they are remembered: written by the server that runs them, read by all, taken up when that server died."""

from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import URL, Engine, delete, insert, select, update

from backend.schema import Job
from backend.store.tables import JobRow, ServerRow
from backend.store.trouble import told

UNFINISHED = ("queued", "running")


@dataclass(frozen=True)
class StoredJob:
    """A job, and what going on with it needs."""

    job: Job
    request: dict[str, Any] = field(default_factory=dict)
    """What was asked, as JSON: enough to do it again."""
    resumed: int = 0
    """How often a server has taken it up from one that died."""
    stop: bool = False
    """Somebody asked for its end."""


class Jobs:
    """The table of jobs, seen from one server. Every method raises `StoreUnusable`."""

    def __init__(self, engine: Engine, url: URL, server: str) -> None:
        self._engine, self._url, self._server = engine, url, server

    def write(self, stored: StoredJob) -> bool:
        """Put a job of this server as it stands now; True when somebody asked for its end.

        What another server has taken up meanwhile is left alone.
        """
        values = stored.job.model_dump(mode="json") | {"request": stored.request, "resumed": stored.resumed}
        mine = JobRow.id == stored.job.id, JobRow.server == self._server
        with told(self._url), self._engine.begin() as connection:
            found = connection.execute(select(JobRow.server, JobRow.stop).where(JobRow.id == stored.job.id)).first()
            if found is None:
                connection.execute(insert(JobRow).values(**values, server=self._server, stop=stored.stop))
            else:
                connection.execute(update(JobRow).where(*mine).values(**values, stop=found.stop or stored.stop))
            return stored.stop if found is None else bool(found.stop)

    def get(self, id: str) -> StoredJob | None:
        """One job, of whichever server."""
        with told(self._url), self._engine.begin() as connection:
            row = connection.execute(select(JobRow.__table__).where(JobRow.id == id)).first()
        return None if row is None else _stored(row)

    def newest(self, most: int) -> tuple[StoredJob, ...]:
        """The newest jobs of all servers, the newest first."""
        rows = select(JobRow.__table__).order_by(JobRow.created.desc(), JobRow.id).limit(most)
        with told(self._url), self._engine.begin() as connection:
            return tuple(map(_stored, connection.execute(rows).all()))

    def done(self, kind: str) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Ids and requests of the jobs of a kind that are done, the newest first."""
        rows = select(JobRow.id, JobRow.request).where(JobRow.kind == kind, JobRow.state == "done")
        with told(self._url), self._engine.begin() as connection:
            return tuple((row.id, row.request) for row in connection.execute(rows.order_by(JobRow.updated.desc())))

    def ask_to_stop(self, id: str) -> None:
        """Leave word for the server that runs a job; it reads it at its next step."""
        with told(self._url), self._engine.begin() as connection:
            connection.execute(update(JobRow).where(JobRow.id == id, JobRow.state.in_(UNFINISHED)).values(stop=True))

    def take_up(self) -> tuple[StoredJob, ...]:
        """Make the unfinished jobs of dead servers this server's own, the oldest first; no other server gets them."""
        left = (
            JobRow.state.in_(UNFINISHED),
            JobRow.server != self._server,
            JobRow.server.not_in(select(ServerRow.id)),
        )
        with told(self._url), self._engine.begin() as connection:
            rows = connection.execute(select(JobRow.__table__).where(*left).with_for_update()).all()
            ids = [row.id for row in rows]
            taken = update(JobRow).where(JobRow.id.in_(ids), *left).values(server=self._server)
            connection.execute(taken.values(resumed=JobRow.resumed + 1))
        found = sorted(map(_stored, rows), key=lambda stored: stored.job.created)
        return tuple(replace(stored, resumed=stored.resumed + 1) for stored in found)

    def forget_oldest(self, keep: int) -> None:
        """Forget the ended jobs beyond so many."""
        ended = JobRow.state.not_in(UNFINISHED)
        kept = select(JobRow.id).where(ended).order_by(JobRow.updated.desc(), JobRow.id).limit(keep)
        with told(self._url), self._engine.begin() as connection:
            connection.execute(delete(JobRow).where(ended, JobRow.id.not_in(kept)))


def _stored(row: Any) -> StoredJob:
    found = dict(row._mapping)
    job = Job.model_validate({name: found[name] for name in Job.model_fields})
    return StoredJob(job, found["request"], found["resumed"], found["stop"])
