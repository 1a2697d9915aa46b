"""${message}."""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """To these tables."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Back to the ones before."""
    ${downgrades if downgrades else "pass"}
