"""Alembic runs this; the connection and its transaction are whoever's asks."""

from alembic import context

from backend.store.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    render_as_batch=True,  # SQLite changes a table by copying it
    transactional_ddl=True,
    compare_type=True,
)
context.run_migrations()
