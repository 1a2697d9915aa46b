"""Bringing a database to the tables of this program, whole or not at all."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection

from backend.store.trouble import unusable

MIGRATIONS = Path(__file__).parent / "migrations"


def config(connection: Connection) -> Config:
    """What Alembic has to know, with the connection that its env.py uses."""
    found = Config()
    found.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    found.attributes["connection"] = connection
    return found


def upgrade(connection: Connection, url: URL) -> None:
    """Run the missing migrations in the connection's transaction. Raises `StoreUnusable` for a newer database."""
    alembic = config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(alembic).walk_revisions()}
    there = set(MigrationContext.configure(connection).get_current_heads())
    if there - known:
        why = f"it was written by a newer LMScope, or by another program: {', '.join(sorted(there - known))} is no "
        why += "migration of this one"
        raise unusable(why, "update LMScope, or set LMSCOPE_DATABASE_URL to another database", url=url)
    command.upgrade(alembic, "head")
