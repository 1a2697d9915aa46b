"""Notes on values and heads."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """To these tables."""
    op.create_table(
        "notes",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("part", sa.String(length=16), nullable=False),
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "part", "layer", "place", name=op.f("pk_notes")),
    )


def downgrade() -> None:
    """Back to the ones before."""
    op.drop_table("notes")
