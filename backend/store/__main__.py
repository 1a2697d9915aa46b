"""`python -m backend.store "what changes"` writes the migration from the last one to the tables as they are now."""

import sys

from alembic import command
from sqlalchemy import create_engine, make_url

from backend.store.migrating import MIGRATIONS, config, upgrade

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit('Say what changes: python -m backend.store "studies have a seed"')
    with create_engine("sqlite://").connect() as empty:
        upgrade(empty, make_url("sqlite://"))
        number = 1 + len(list((MIGRATIONS / "versions").glob("[0-9]*.py")))
        command.revision(config(empty), sys.argv[1], autogenerate=True, rev_id=f"{number:04}")
