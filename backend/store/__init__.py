"""The store: what is remembered after a restart. SQLAlchemy on SQLite by default, PostgreSQL by its URL; Alembic.

Who is alive decides which jobs were left behind. Beside a SQLite file every server holds a lock of its own, which the
system lets go of the moment that the process ends, however it ends: no clock can be wrong about it, and a machine that
slept loses nothing. Servers that share a PostgreSQL may stand on several machines, so there a heartbeat decides.
"""

from backend.store.jobs import Jobs, StoredJob
from backend.store.notes import Notes
from backend.store.opening import Store, open_store

__all__ = ["Jobs", "Notes", "Store", "StoredJob", "open_store"]
